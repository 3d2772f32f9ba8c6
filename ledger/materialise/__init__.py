"""Schedules become what is owed: expanding, taking over from older versions, emitting."""

from ledger.materialise.service import (
    Materialiser,
    MaterialiserSettings,
    open_materialiser,
    run_materialiser,
)
from ledger.materialise.zone_change import apply_reviewed, review

__all__ = [
    "Materialiser",
    "MaterialiserSettings",
    "apply_reviewed",
    "open_materialiser",
    "review",
    "run_materialiser",
]
