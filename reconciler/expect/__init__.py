"""Expect: compute what should exist, from definitions and events."""
