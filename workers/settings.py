"""The settings of a worker."""

from pydantic import Field

from dueledger.ledger.runtime.settings import Settings


class WorkerSettings(Settings):
    """Limits of one worker process."""

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
        default=False,
        description="work every topic `due.…`; items of kinds without a handler are parked",
    )
    worker_lease_seconds: float = Field(
        default=60.0, ge=3.0, le=3600.0, description="lease of a run; heartbeats extend it"
    )
    worker_poll_records_max: int = Field(
        default=4000, ge=1, le=100_000, description="records read from Kafka's client at a time"
    )
    worker_buffer_items_max: int = Field(
        default=20_000, ge=1, le=1_000_000, description="items polled and not yet started"
    )
    worker_credit_window_seconds: float = Field(
        default=0.5,
        ge=0.05,
        le=60,
        description="seconds of work that should wait in Kafka for this worker",
    )
    worker_settle_items_max: int = Field(
        default=8000, ge=1, le=100_000, description="outcomes recorded by one statement"
    )
    worker_batch_wait_seconds: float = Field(
        default=0.003,
        ge=0,
        le=1,
        description="how long starts and outcomes are collected into one statement",
    )
    worker_drain_seconds: float = Field(
        default=25.0, ge=0, le=3600, description="time for running handlers to finish on SIGTERM"
    )
    worker_loop_block_seconds: float = Field(
        default=2.0,
        ge=0.1,
        le=60,
        description="an event loop blocked for longer is logged with the blocking handler",
    )
    worker_stuck_seconds: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="an event loop blocked, or a pool stuck, for longer ends the process; 0: never",
    )
    worker_once_timeout_seconds: float = Field(
        default=600.0, ge=1, le=86_400, description="after which `--once` ends even if more is due"
    )
    worker_session_timeout_seconds: float = Field(
        default=10.0,
        ge=1,
        le=1800,
        description="seconds without a heartbeat until Kafka reassigns the partitions",
    )
