"""Kafka below the services: record formats, batches, headers, topics, consumers."""
