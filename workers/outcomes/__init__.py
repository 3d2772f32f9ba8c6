"""Outcomes that consumers in other languages report by Kafka become what the ledger records."""

from dueledger.workers.outcomes.outcome_intake import Reports
from dueledger.workers.outcomes.process import open_reports, run_reports
from dueledger.workers.outcomes.settings import ReportSettings

__all__ = ["ReportSettings", "Reports", "open_reports", "run_reports"]
