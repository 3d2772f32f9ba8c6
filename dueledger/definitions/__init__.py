"""Definitions as commands put them in force."""
