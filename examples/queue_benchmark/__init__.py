"""An adapter for a benchmark of job queues."""
