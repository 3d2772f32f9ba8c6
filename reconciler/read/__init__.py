"""Read: what the ledger holds, a window at a time."""
