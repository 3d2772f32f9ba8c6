"""Discover: which flows have due items, and who has room for them."""
