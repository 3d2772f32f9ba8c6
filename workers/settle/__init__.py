"""Settle: record the outcomes of items."""
