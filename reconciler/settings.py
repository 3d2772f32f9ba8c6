"""Settings of a reconciler: how often it makes a pass, and what it may repair."""

from typing import Literal

from pydantic import Field

from dueledger.ledger.kafka.envelope import EVENT_TOPIC, INTAKE_GROUP
from dueledger.ledger.runtime.settings import Settings


class ReconcilerSettings(Settings):
    """Settings of a reconciler."""

    reconcile_idle_seconds: float = Field(
        default=60.0, gt=0, le=86_400, description="pause between passes"
    )
    reconcile_full_pass_seconds: float = Field(
        default=3_600.0,
        ge=0,
        le=86_400,
        description="seconds that passes of the loop may use the cache before one reads everything",
    )
    reconcile_share: float = Field(
        default=0.25,
        ge=0.05,
        le=1,
        description="greatest share of the time in which a pass of the loop reads and compares; "
        "the rest is left to what works items",
    )
    reconcile_stuck_seconds: float = Field(
        default=60.0,
        ge=0,
        le=86_400,
        description="seconds past its lease (run) or deadline (claim) until it is stuck",
    )
    reconcile_repair: Literal["none", "dry_run", "execute"] = Field(
        default="none", description="what to do about findings that have a default repair"
    )
    reconcile_repair_max: int = Field(
        default=1_000, ge=1, le=1_000_000, description="repairs of one action a pass may execute"
    )
    reconcile_repairs_per_minute_max: int = Field(
        default=100_000, ge=1, le=1_000_000, description="repairs executed in a minute"
    )
    reconcile_findings_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="findings of one type and kind a pass lists"
    )
    reconcile_kafka: bool | None = Field(
        default=None,
        description="compare claims with Kafka; unset: where the addresses of Kafka are set",
    )

    event_topic: str = Field(
        default=EVENT_TOPIC, min_length=1, max_length=249, description="topic of domain events"
    )
    intake_group: str = Field(
        default=INTAKE_GROUP,
        min_length=1,
        max_length=249,
        description="consumer group of the event intake, whose offsets say what is unread",
    )

    @property
    def has_kafka(self) -> bool:
        """Return whether claims are compared with Kafka."""
        if self.reconcile_kafka is not None:
            return self.reconcile_kafka
        return self.names_kafka
