"""Metrics of a process: one catalogue of names, and the numbers that `/metrics` shows of it."""

from dueledger.ledger.metrics.catalogue import Metric, MetricType
from dueledger.ledger.metrics.readings import METRICS, MetricReadings, Sample

__all__ = ["METRICS", "Metric", "MetricReadings", "MetricType", "Sample"]
