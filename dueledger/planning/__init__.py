"""Planning: the load to come."""
