"""Planning: the future load."""
