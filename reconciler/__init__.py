"""Prove independently that owed work happened: expect, compare, find, repair, report."""

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
