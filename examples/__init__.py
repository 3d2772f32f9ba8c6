"""Programs like those that users of Dueledger write."""
