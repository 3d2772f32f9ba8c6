"""Schedules of other schedulers, turned into definition documents."""
