"""Compare: what was expected with what exists."""
