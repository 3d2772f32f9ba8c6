"""Importers: schedules of other schedulers, converted to definition documents."""
