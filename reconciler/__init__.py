"""Prove independently that owed work happened: expect, compare, find, repair, report.

The names resolve on first use (PEP 562), so a service that shows reports loads no engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dueledger.reconciler.pass_result import PassLimits, PassResult, PassScope
    from dueledger.reconciler.process import (
        Reconciler,
        ReconciliationResult,
        open_reconciler,
        reconcile_once,
        run_reconciler,
    )
    from dueledger.reconciler.read_only import reconcile_read_only
    from dueledger.reconciler.repair.planned_repairs import PlannedRepair, RepairSelection
    from dueledger.reconciler.report.model import ReconciliationReport
    from dueledger.reconciler.report_period import ReportDates
    from dueledger.reconciler.settings import ReconcilerSettings
    from dueledger.reconciler.sources import EvidenceReader, PopulationReader, SourceFailed
    from dueledger.reconciler.sources_file import ReconcilerSources, load_sources
    from dueledger.reconciler.sql_sources import SqlEvidence, SqlPopulation

__all__ = [
    "EvidenceReader",
    "PassLimits",
    "PassResult",
    "PassScope",
    "PlannedRepair",
    "PopulationReader",
    "Reconciler",
    "ReconcilerSettings",
    "ReconcilerSources",
    "ReconciliationReport",
    "ReconciliationResult",
    "RepairSelection",
    "ReportDates",
    "SourceFailed",
    "SqlEvidence",
    "SqlPopulation",
    "load_sources",
    "open_reconciler",
    "reconcile_once",
    "reconcile_read_only",
    "run_reconciler",
]

_MODULES: Final = {
    "EvidenceReader": "sources",
    "PassLimits": "pass_result",
    "PassResult": "pass_result",
    "PassScope": "pass_result",
    "PlannedRepair": "repair.planned_repairs",
    "PopulationReader": "sources",
    "Reconciler": "process",
    "ReconcilerSettings": "settings",
    "ReconcilerSources": "sources_file",
    "ReconciliationReport": "report.model",
    "ReconciliationResult": "process",
    "RepairSelection": "repair.planned_repairs",
    "ReportDates": "report_period",
    "SourceFailed": "sources",
    "SqlEvidence": "sql_sources",
    "SqlPopulation": "sql_sources",
    "load_sources": "sources_file",
    "open_reconciler": "process",
    "reconcile_once": "process",
    "reconcile_read_only": "read_only",
    "run_reconciler": "process",
}


def __getattr__(name: str) -> object:
    """Import the module that has a public name, and keep the name here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
