"""Mark: record in the ledger that Kafka acknowledged a claim."""
