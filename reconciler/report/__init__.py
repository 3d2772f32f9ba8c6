"""Report: what a pass found, for people and programs."""
