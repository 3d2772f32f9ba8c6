"""Choose: decide which flows are served next, and with how many items."""
