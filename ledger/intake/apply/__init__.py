"""What an event does to items, by the rules in force."""
