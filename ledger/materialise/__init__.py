"""Materialising schedules: expansion, version changes, emission, and tz changes."""

from dueledger.ledger.materialise.materialiser import Materialiser
from dueledger.ledger.materialise.process import open_materialiser, run_materialiser
from dueledger.ledger.materialise.settings import MaterialiserSettings
from dueledger.ledger.materialise.tz_change import apply_tz_change, preview_tz_change

__all__ = [
    "Materialiser",
    "MaterialiserSettings",
    "apply_tz_change",
    "open_materialiser",
    "preview_tz_change",
    "run_materialiser",
]
