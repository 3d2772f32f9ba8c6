"""Poll: read claims from Kafka, and ask for more."""
