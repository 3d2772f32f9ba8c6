"""Columns: both sides of the comparison as arrays, compared by an engine inside the process."""
