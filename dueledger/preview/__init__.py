"""Preview: when a definition is due, without a database."""
