"""Claim: lock due items and record them as claims."""
