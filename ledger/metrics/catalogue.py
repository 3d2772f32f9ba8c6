"""The catalogue of metrics: names, types, help texts and labels. Units are last in names.

`docs/metrics.md` is made of it. Nothing that is not listed here is exposed, apart from what
prometheus-client itself says of the process and of Python.
"""

from enum import StrEnum
from typing import Self


class MetricType(StrEnum):
    """What the numbers of a metric are, by Prometheus's names."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Metric(StrEnum):
    """Each metric by its name."""

    type: MetricType
    text: str
    labels: tuple[str, ...]

    def __new__(cls, name: str, type_: MetricType, text: str, *labels: str) -> Self:
        """Return the member: its value is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.type, member.text, member.labels = type_, text, labels
        return member

    # Every process.

    PROCESS_INFO = (
        "dueledger_process_info",
        MetricType.GAUGE,
        "1 for each role of the process that is connected, with its version.",
        "role",
        "version",
    )
    PASSES = (
        "dueledger_passes_total",
        MetricType.COUNTER,
        "Passes of a service of the process that succeeded.",
        "service",
    )
    PASS_FAILURES = (
        "dueledger_pass_failures_total",
        MetricType.COUNTER,
        "Passes of a service that failed and are repeated, by the class of the error.",
        "service",
        "error",
    )
    PASS_SECONDS = (
        "dueledger_pass_seconds_total",
        MetricType.COUNTER,
        "Time in passes of a service, waiting for servers included.",
        "service",
    )
    PASS_COUNTS = (
        "dueledger_pass_counts_total",
        MetricType.COUNTER,
        "What passes of a service counted, by the names that its log lines have.",
        "service",
        "count",
    )
    SERVER_UNREACHABLE = (
        "dueledger_server_unreachable",
        MetricType.GAUGE,
        "1 while the last attempt of a service of the process did not reach Postgres or Kafka.",
        "server",
        "service",
    )

    # Workers.

    WORKER_COUNTS = (
        "dueledger_worker_counts_total",
        MetricType.COUNTER,
        "What a worker counted, by the names that its log lines have.",
        "count",
    )
    PARTITIONS_ASSIGNED = (
        "dueledger_partitions_assigned",
        MetricType.GAUGE,
        "Partitions of Kafka that a worker reads.",
    )
    PARTITIONS_STALLED = (
        "dueledger_partitions_stalled",
        MetricType.GAUGE,
        "Partitions of Kafka with which a worker makes no progress.",
    )
    PARTITION_STALLED_SECONDS = (
        "dueledger_partition_stalled_seconds",
        MetricType.GAUGE,
        "Time without progress of a stalled partition, which waits for records or for handlers.",
        "topic",
        "partition",
        "waits_for",
    )
