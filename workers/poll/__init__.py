"""Poll: read claims from Kafka, and grant credit for more."""
