"""Calendars from files and libraries: read, compared, and put into the ledger."""
