"""Schedules become what is owed: expanding, taking over from older versions, emitting."""

from ledger.materialise.service import (
    Materialiser,
    MaterialiserSettings,
    open_materialiser,
    run_materialiser,
)
from ledger.materialise.tz_check import ZoneChange, apply_zone_change, find_zone_changes

__all__ = [
    "Materialiser",
    "MaterialiserSettings",
    "ZoneChange",
    "apply_zone_change",
    "find_zone_changes",
    "open_materialiser",
    "run_materialiser",
]
