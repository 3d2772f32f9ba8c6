"""Settings of the relay."""

from pathlib import Path

from pydantic import Field, SecretStr

from dueledger.ledger.runtime.settings import Settings


class RelaySettings(Settings):
    """The service's database, and the limits of a pass."""

    outbox_dsn: SecretStr = Field(
        description="the service's Postgres with its outbox, as postgresql://user:password@host/name"
    )
    outbox_dsn_file: Path | None = Field(
        default=None, description="file with that address; used where outbox_dsn is not set"
    )
    relay_batch_items_max: int = Field(
        default=500, ge=1, le=5_000, description="rows of the outbox carried at a time"
    )
    relay_idle_seconds: float = Field(
        default=0.5, gt=0, le=5, description="longest pause after a pass without rows"
    )
