"""A whole installation on one machine, for development: servers and processes under one supervisor."""
