"""Settle: record how items ended."""
