"""Prove independently that what was owed happened: expect, compare, find, repair, report."""

from reconciler.pass_result import Limits, PassResult, Scope
from reconciler.report import Report
from reconciler.run import (
    Reconciler,
    ReconciliationResult,
    open_reconciler,
    reconcile_once,
    run_reconciler,
)
from reconciler.settings import ReconcilerSettings, Sources, load_sources
from reconciler.sources import Evidence, Population, SourceFailed, SqlEvidence, SqlPopulation

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
