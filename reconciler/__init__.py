"""Prove independently that what was owed happened: expect, compare, find, repair, report."""

from dueledger.reconciler.pass_result import Limits, PassResult, Scope
from dueledger.reconciler.process import (
    Reconciler,
    ReconciliationResult,
    open_reconciler,
    reconcile_once,
    run_reconciler,
)
from dueledger.reconciler.report.model import Report
from dueledger.reconciler.settings import ReconcilerSettings, Sources, load_sources
from dueledger.reconciler.sources import (
    Evidence,
    Population,
    SourceFailed,
    SqlEvidence,
    SqlPopulation,
)

__all__ = [
    "Evidence",
    "Limits",
    "PassResult",
    "Population",
    "Reconciler",
    "ReconcilerSettings",
    "ReconciliationResult",
    "Report",
    "Scope",
    "SourceFailed",
    "Sources",
    "SqlEvidence",
    "SqlPopulation",
    "load_sources",
    "open_reconciler",
    "reconcile_once",
    "run_reconciler",
]
