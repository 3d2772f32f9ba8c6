"""Settings of the outcome intake."""

from pydantic import Field

from dueledger.ledger.kafka.envelope import OUTCOME_TOPIC, REJECTED_TOPIC
from dueledger.ledger.runtime.settings import Settings


class OutcomeIntakeSettings(Settings):
    """The settings of the outcome intake."""

    outcome_topic: str = Field(
        default=OUTCOME_TOPIC,
        min_length=1,
        max_length=249,
        description="topic of reported outcomes",
    )
    rejected_topic: str = Field(
        default=REJECTED_TOPIC,
        min_length=1,
        max_length=249,
        description="topic of records that cannot be read",
    )
    outcome_group: str = Field(
        default="dueledger-outcomes", min_length=1, max_length=249, description="consumer group"
    )
    outcome_batch_records: int = Field(
        default=2000, ge=1, le=10_000, description="outcomes of one transaction at most"
    )
    outcome_session_seconds: float = Field(
        default=10.0,
        ge=6,
        le=300,
        description="seconds without a heartbeat until another process takes the partitions",
    )
    outcome_poll_seconds: float = Field(
        default=0.2, gt=0, le=30, description="how long a poll waits for the first outcome"
    )
