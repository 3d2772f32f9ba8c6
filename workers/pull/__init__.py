"""Pull workers: clients that claim items by HTTP and report their outcomes, without Kafka."""
