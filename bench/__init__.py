"""Benchmarks of this code on this machine. Each prints JSON; none is a test."""
