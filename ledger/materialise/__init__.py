"""Schedules become what is owed: expanding, taking over from older versions, emitting."""

from dueledger.ledger.materialise.materialiser import (
    Materialiser,
    MaterialiserSettings,
    open_materialiser,
    run_materialiser,
)
from dueledger.ledger.materialise.tz_change import apply_reviewed, review

__all__ = [
    "Materialiser",
    "MaterialiserSettings",
    "apply_reviewed",
    "open_materialiser",
    "review",
    "run_materialiser",
]
