"""Which flow is claimed from next, and how many items: for the allocator and for direct workers."""
