"""Discover: find flows with due items, and topics with credit."""
