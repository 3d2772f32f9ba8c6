"""The effects of events on items, by the rules in force."""
