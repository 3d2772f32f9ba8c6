"""Repair: emit items and commands that resolve findings."""
