"""Settings of the intake."""

from pydantic import Field

from dueledger.ledger.kafka.envelope import EVENT_TOPIC, INTAKE_GROUP, REJECTED_TOPIC
from dueledger.ledger.runtime.settings import Settings


class EventIntakeSettings(Settings):
    """Topics, batches and timing of the event intake."""

    event_topic: str = Field(
        default=EVENT_TOPIC, min_length=1, max_length=249, description="topic of domain events"
    )
    rejected_topic: str = Field(
        default=REJECTED_TOPIC,
        min_length=1,
        max_length=249,
        description="topic of records that cannot be read",
    )
    intake_group: str = Field(
        default=INTAKE_GROUP, min_length=1, max_length=249, description="consumer group"
    )
    intake_batch_events: int = Field(
        default=2000, ge=1, le=10_000, description="events of one transaction at most"
    )
    intake_session_seconds: float = Field(
        default=10.0,
        ge=6,
        le=300,
        description="seconds without a heartbeat until another process takes the partitions",
    )
    intake_poll_seconds: float = Field(
        default=0.2, gt=0, le=30, description="how long a poll waits for the first event"
    )
