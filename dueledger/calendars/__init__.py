"""Calendars on their way into the ledger: read from files and libraries, compared, put."""
