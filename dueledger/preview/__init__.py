"""Preview: when a definition falls due, without a database."""
