"""Measurements of this code on this machine, each printed as JSON; never a test."""
