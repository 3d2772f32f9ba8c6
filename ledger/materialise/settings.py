"""Settings of the materialiser."""

from pydantic import Field

from dueledger.ledger.runtime.settings import Settings


class MaterialiserSettings(Settings):
    """The horizon of schedules, and the limits of a pass."""

    materialise_horizon_seconds: float = Field(
        default=86_400,
        gt=0,
        le=400 * 86_400,
        description="how far ahead items exist, at least (the horizon)",
    )
    materialise_stride_seconds: float = Field(
        default=3_600, gt=0, le=86_400, description="window added to a definition at a time"
    )
    materialise_retry_seconds: float = Field(
        default=60, ge=0, le=86_400, description="pause before a failed definition is tried again"
    )
    materialise_idle_seconds: float = Field(
        default=1.0, gt=0, le=60, description="pause after a pass without work"
    )
    materialise_definitions_max: int = Field(
        default=500, ge=1, le=10_000, description="most definitions of one pass"
    )
    materialise_items_max: int = Field(
        default=2_000,
        ge=1,
        le=100_000,
        description="most occurrences of one definition in one pass",
    )
    materialise_pass_items_max: int = Field(
        default=20_000, ge=1, le=200_000, description="about the most occurrences of one pass"
    )
