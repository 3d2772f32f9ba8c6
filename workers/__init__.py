"""Workers run the handlers of domain teams; what those teams import stands in `dueledger`."""
