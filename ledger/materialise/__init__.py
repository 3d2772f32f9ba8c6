"""Schedules become what is owed: expanding, taking over from older versions, emitting."""

from dueledger.ledger.materialise.materialiser import (
    Materialiser,
    MaterialiserSettings,
    open_materialiser,
    run_materialiser,
)
from dueledger.ledger.materialise.tz_change import apply_tz_change, preview_tz_change

__all__ = [
    "Materialiser",
    "MaterialiserSettings",
    "apply_tz_change",
    "open_materialiser",
    "preview_tz_change",
    "run_materialiser",
]
