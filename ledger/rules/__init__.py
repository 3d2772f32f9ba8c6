"""What definitions and events owe: rules, schedules, catch-up. Pure."""
