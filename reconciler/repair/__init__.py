"""Repair: emit what mends a finding."""
