"""A complete installation on one machine, for development."""
