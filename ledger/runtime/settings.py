"""Settings that all processes share. Each process adds its own in a derived class."""

from pydantic import Field, SecretStr

from dueledger.ledger.runtime.kafka_settings import KafkaSettings


class Settings(KafkaSettings):
    """Addresses of Postgres and Kafka, read from DUELEDGER_… variables. Secrets never print."""

    dsn: SecretStr = Field(description="Postgres, as postgresql://user:password@host:port/name")
