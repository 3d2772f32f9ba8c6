"""Claim: take due items and record them as claims."""
