"""Settings of the intake of outcomes."""

from pydantic import Field

from dueledger.ledger.kafka.envelope import OUTCOME_TOPIC, REJECTED_TOPIC
from dueledger.ledger.runtime.settings import Settings


class OutcomeIntakeSettings(Settings):
    """The settings of the outcome intake."""

    outcome_topic: str = Field(
        default=OUTCOME_TOPIC, min_length=1, max_length=249, description="where outcomes come"
    )
    rejected_topic: str = Field(
        default=REJECTED_TOPIC, min_length=1, max_length=249, description="where poison goes"
    )
    outcome_group: str = Field(
        default="dueledger-outcomes", min_length=1, max_length=249, description="consumer group"
    )
    outcome_batch_records: int = Field(
        default=2000, ge=1, le=10_000, description="outcomes of one transaction, at most"
    )
    outcome_session_seconds: float = Field(
        default=10.0, ge=6, le=300, description="after which silence the group takes over"
    )
    outcome_poll_seconds: float = Field(
        default=0.2, gt=0, le=30, description="how long a poll waits for the first outcome"
    )
