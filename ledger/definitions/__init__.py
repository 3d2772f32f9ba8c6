"""Definitions: their model, and how documents become one."""
