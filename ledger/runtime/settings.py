"""Settings that all processes share. Each process adds its own in a derived class."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

from pydantic import Field, SecretStr, model_validator

from dueledger.ledger.runtime.dsn_file import read_dsn_file
from dueledger.ledger.runtime.kafka_settings import PORT_MAX, KafkaSettings, variable_of

EVENT_KEY_DAYS: Final = 400
AUDIT_DAYS: Final = 1_100
REJECTED_DAYS: Final = 400
REPORT_DAYS: Final = 3_660
RECONCILIATION_DAYS: Final = 400


@dataclass(frozen=True, slots=True)
class Retention:
    """After how many days upkeep deletes what grows with time."""

    event_key_days: int = EVENT_KEY_DAYS
    audit_days: int = AUDIT_DAYS
    rejected_days: int = REJECTED_DAYS
    report_days: int = REPORT_DAYS
    reconciliation_days: int = RECONCILIATION_DAYS


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
    audit_days: int = Field(
        default=AUDIT_DAYS,
        ge=1,
        le=36_500,
        description="days after which an entry of the audit is deleted",
    )
    rejected_days: int = Field(
        default=REJECTED_DAYS,
        ge=1,
        le=36_500,
        description="days after which a rejected write is deleted",
    )
    report_days: int = Field(
        default=REPORT_DAYS,
        ge=1,
        le=36_500,
        description="days after which a report of a reconciliation is deleted",
    )
    reconciliation_days: int = Field(
        default=RECONCILIATION_DAYS,
        ge=1,
        le=36_500,
        description="days after which the record of a reconciliation without a report is deleted",
    )

    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=PORT_MAX,
        description="port of /metrics; 0: any free one; without it there is none",
    )
    metrics_host: IPv4Address | IPv6Address = Field(
        default=IPv4Address("127.0.0.1"),
        description="address of /metrics; no key is asked for there",
    )

    @property
    def retention(self) -> Retention:
        """Return after how many days upkeep deletes what grows with time."""
        return Retention(
            self.event_key_days,
            self.audit_days,
            self.rejected_days,
            self.report_days,
            self.reconciliation_days,
        )

    @model_validator(mode="before")
    @classmethod
    def _read_dsn_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        files = {
            name: values[f"{name}_file"]
            for name in cls.model_fields
            if name.endswith("dsn")
            and values.get(name) is None
            and values.get(f"{name}_file") is not None
        }
        return values | {
            name: read_dsn_file(Path(path), variable_of(f"{name}_file"))
            for name, path in files.items()
        }
