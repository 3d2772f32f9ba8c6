"""Mark: record what Kafka acknowledged."""
