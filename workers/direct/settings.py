"""The settings of a worker in direct mode."""

from pydantic import Field

from dueledger.workers.settings import WorkerSettings


class DirectSettings(WorkerSettings):
    """Limits of one worker without Kafka; its settings for Kafka are ignored."""

    direct_claim_items_max: int = Field(
        default=4000, ge=1, le=20_000, description="items claimed by one statement"
    )
    direct_flows_max: int = Field(
        default=500, ge=1, le=5_000, description="flows served by one statement"
    )
    direct_batch_wait_seconds: float = Field(
        default=0.004, ge=0, le=1, description="shortest pause between two polls of the ledger"
    )
    direct_idle_seconds: float = Field(
        default=0.5, gt=0, le=5, description="longest pause between two polls of the ledger"
    )
    direct_upkeep_seconds: float = Field(
        default=1.0, gt=0, le=60, description="shortest pause between two passes of upkeep"
    )
