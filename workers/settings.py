"""The settings of a worker."""

from pydantic import Field

from dueledger.ledger.runtime.settings import Settings


class WorkerSettings(Settings):
    """Bounds of one worker process."""

    worker_group_id: str = Field(
        default="dueledger-work",
        min_length=1,
        max_length=200,
        description="Kafka consumer group that the workers share",
    )
    worker_topics: tuple[str, ...] = Field(
        default=(), description="topics to work instead of `due.<kind>` of each handler"
    )
    worker_all_topics: bool = Field(
        default=False, description="work every topic `due.…`; kinds without a handler park"
    )
    worker_lease_seconds: float = Field(
        default=60.0, ge=3.0, le=3600.0, description="how long a run is held between heartbeats"
    )
    worker_poll_records_max: int = Field(
        default=4000, ge=1, le=100_000, description="records taken from Kafka's client at a time"
    )
    worker_buffer_items_max: int = Field(
        default=20_000, ge=1, le=1_000_000, description="items polled and not yet started"
    )
    worker_credit_window_seconds: float = Field(
        default=0.5,
        ge=0.05,
        le=60,
        description="of how long a time's work it wants waiting in Kafka",
    )
    worker_settle_items_max: int = Field(
        default=8000, ge=1, le=100_000, description="outcomes recorded by one statement"
    )
    worker_batch_wait_seconds: float = Field(
        default=0.003, ge=0, le=1, description="how long starts and outcomes are gathered"
    )
    worker_drain_seconds: float = Field(
        default=25.0, ge=0, le=3600, description="time for running handlers to finish on SIGTERM"
    )
    worker_loop_block_seconds: float = Field(
        default=2.0,
        ge=0.1,
        le=60,
        description="standstill of the event loop after which the handler that holds it is logged",
    )
    worker_stuck_seconds: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="standstill after which the process ends, for a new one to begin; 0: never",
    )
    worker_once_timeout_seconds: float = Field(
        default=600.0, ge=1, le=86_400, description="after which `--once` ends though more is due"
    )
    worker_session_timeout_seconds: float = Field(
        default=10.0, ge=1, le=1800, description="silence after which Kafka gives partitions away"
    )
