"""Workers run the handlers of domain teams. Those teams import from `dueledger` itself."""
