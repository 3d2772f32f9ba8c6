"""Schedules become what is owed: expanding, taking over from older versions, emitting."""

from ledger.materialise.service import (
    Materialiser,
    MaterialiserSettings,
    open_materialiser,
    run_materialiser,
)

__all__ = ["Materialiser", "MaterialiserSettings", "open_materialiser", "run_materialiser"]
