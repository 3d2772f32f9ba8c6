"""Alerts: one list of rules, for Prometheus and for those without it."""
