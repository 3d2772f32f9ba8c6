"""A whole installation on one machine, for development."""
