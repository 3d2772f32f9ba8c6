"""The settings of an allocator."""

from pydantic import Field

from dueledger.allocator.publish import Compression
from dueledger.ledger.runtime.settings import Settings


class AllocatorSettings(Settings):
    """Limits of one allocator process."""

    allocator_batch_items_max: int = Field(
        default=4000, ge=1, le=20_000, description="items claimed in one transaction"
    )
    allocator_batch_bytes_max: int = Field(
        default=1_000_000,
        ge=16_384,
        le=16_777_216,
        description="bytes of one record batch; at most the broker's message.max.bytes",
    )
    allocator_compression: Compression = Field(
        default=Compression.LZ4,
        description="codec of record batches of topics whose definition names none",
    )
    allocator_flows_max: int = Field(
        default=500, ge=1, le=5_000, description="flows served by one claim transaction"
    )
    allocator_claims_max: int = Field(
        default=100, ge=1, le=1_000, description="claim transactions for floods in one tick"
    )
    allocator_topic_window_items: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="items handed out and not ended, of a flow that is settled by topic and sets no"
        " window of its own",
    )
    allocator_publishing_max: int = Field(
        default=2, ge=1, le=8, description="claimed batches on their way to Kafka at once"
    )
    allocator_request_seconds: float = Field(
        default=10.0, gt=0, le=120, description="time limit of one request to Kafka"
    )
    allocator_send_seconds: float = Field(
        default=15.0,
        gt=0,
        le=180,
        description="time limit of one send, the client's retries included",
    )
    allocator_drain_seconds: float = Field(
        default=5.0, gt=0, le=60, description="time to finish sends in flight after SIGTERM"
    )
    allocator_topic_suspend_seconds: float = Field(
        default=5.0,
        gt=0,
        le=600,
        description="pause of a topic after a send that failed before it was sent",
    )
    allocator_reap_seconds: float = Field(
        default=1.0, gt=0, le=60, description="pause between two passes of upkeep"
    )
    allocator_reap_runs_max: int = Field(
        default=500, ge=1, le=10_000, description="claims, and runs, reaped in one pass"
    )
    allocator_idle_seconds: float = Field(
        default=1.0, gt=0, le=5, description="longest pause between two polls of the ledger"
    )
