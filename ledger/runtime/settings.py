"""Settings that all processes share. Each process adds its own in a derived class."""

from pathlib import Path
from typing import Any, Final

from pydantic import Field, SecretStr, model_validator

from dueledger.ledger.runtime.dsn_file import read_dsn_file
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

EVENT_KEY_DAYS: Final = 400


class Settings(KafkaSettings):
    """Addresses of Postgres and Kafka, read from DUELEDGER_… variables. Secrets never print."""

    dsn: SecretStr = Field(description="Postgres, as postgresql://user:password@host:port/name")
    dsn_file: Path | None = Field(
        default=None, description="file with the address of Postgres; used where dsn is not set"
    )
    event_key_days: int = Field(
        default=EVENT_KEY_DAYS,
        ge=1,
        le=36_500,
        description="days after its receipt until a copy of a domain event is a new event",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_dsn_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        path = values.get("dsn_file")
        if values.get("dsn") is not None or path is None:
            return values
        return values | {"dsn": read_dsn_file(Path(path))}
