"""Choose: which flows are claimed from next, and how much of each."""
