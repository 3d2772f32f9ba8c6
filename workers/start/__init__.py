"""Start: open runs for what was read."""
