"""Outcomes that consumers in other languages report by Kafka become what the ledger records."""

from workers.reports.run import open_reports, run_reports
from workers.reports.service import Reports
from workers.reports.settings import ReportSettings

__all__ = ["ReportSettings", "Reports", "open_reports", "run_reports"]
