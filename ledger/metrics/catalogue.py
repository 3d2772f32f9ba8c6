"""The catalogue of metrics: names, types, help texts and labels. Units are last in names.

`docs/metrics.md` is made of it. Nothing that is not listed here is exposed, apart from what
prometheus-client itself says of the process and of Python.
"""

from enum import StrEnum
from typing import Final, Self


class MetricType(StrEnum):
    """What the numbers of a metric are, by Prometheus's names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


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

    @property
    def is_public(self) -> bool:
        """Whether it says something of the process alone: nothing of the ledger and its tenants."""
        return self in _PUBLIC

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

    POOL_CONNECTIONS = (
        "dueledger_pool_connections",
        MetricType.GAUGE,
        "Connections of the process to Postgres that are in use or idle, and how many it may open.",
        "state",
    )
    STATEMENTS = (
        "dueledger_statements_total",
        MetricType.COUNTER,
        "Statements sent to Postgres, those that failed included.",
        "statement",
    )
    STATEMENT_SECONDS = (
        "dueledger_statement_seconds_total",
        MetricType.COUNTER,
        "Time from sending statements to their last row.",
        "statement",
    )

    # The whole ledger; one process reads these.

    DUE_ITEMS = (
        "dueledger_due_items",
        MetricType.GAUGE,
        "Items that may be claimed now, retries included; a flow counts 10,000 at most.",
        "tenant",
        "kind",
    )
    OLDEST_DUE_SECONDS = (
        "dueledger_oldest_due_seconds",
        MetricType.GAUGE,
        "Time since the first of the due items could be claimed.",
        "tenant",
        "kind",
        "topic",
        "dispatch",
    )
    LATE_SECONDS = (
        "dueledger_late_seconds",
        MetricType.GAUGE,
        (
            "Time since an item that waits, retries or is handed out passed its SLA; of each flow"
            " and of what is handed out the oldest are read."
        ),
        "tenant",
        "kind",
        "topic",
        "dispatch",
    )
    RETRYING_ITEMS = (
        "dueledger_retrying_items",
        MetricType.GAUGE,
        "Items that wait for another attempt.",
        "tenant",
        "kind",
    )
    PARKED_ITEMS = (
        "dueledger_parked_items",
        MetricType.GAUGE,
        "Items that wait for a person.",
        "tenant",
        "kind",
    )
    EXHAUSTED_ITEMS = (
        "dueledger_exhausted_items",
        MetricType.GAUGE,
        "Items that wait for a person because their last attempt failed.",
        "tenant",
        "kind",
    )
    CLAIMED_ITEMS = (
        "dueledger_claimed_items",
        MetricType.GAUGE,
        "Items that are handed out and not started.",
        "tenant",
        "kind",
    )
    RUNNING_ITEMS = (
        "dueledger_running_items",
        MetricType.GAUGE,
        "Items that are started and have not ended.",
        "tenant",
        "kind",
    )
    UNSERVED_ITEMS = (
        "dueledger_unserved_items",
        MetricType.GAUGE,
        (
            "Due items that reach no worker: nobody publishes or reads their topic, no direct"
            " worker has their kind, and no pull worker asks for it."
        ),
        "topic",
        "dispatch",
    )
    CREDIT_ITEMS = (
        "dueledger_credit_items",
        MetricType.GAUGE,
        "Items of a topic that its workers want waiting for them.",
        "topic",
    )
    SILENT_TOPIC_SECONDS = (
        "dueledger_silent_topic_seconds",
        MetricType.GAUGE,
        "Time since a lease lapsed without an outcome from the consumers of a topic.",
        "topic",
    )
    STALLED_TOPIC_SECONDS = (
        "dueledger_stalled_topic_seconds",
        MetricType.GAUGE,
        "Time for which a worker has made no progress with a partition of a topic.",
        "topic",
    )
    WATERMARK_AGE_SECONDS = (
        "dueledger_watermark_age_seconds",
        MetricType.GAUGE,
        "Age of the completeness watermark; of a kind never complete, since a pass first looked.",
        "tenant",
        "kind",
    )
    RECONCILED_SECONDS = (
        "dueledger_reconciled_seconds",
        MetricType.GAUGE,
        "Time since the last pass of a reconciler; without any, since the ledger was made.",
    )
    OPEN_FINDINGS = (
        "dueledger_open_findings",
        MetricType.GAUGE,
        "Open findings.",
        "type",
        "severity",
    )
    PROCESSES = (
        "dueledger_processes",
        MetricType.GAUGE,
        "Processes seen in the last hour that are live, silent or gone.",
        "role",
        "status",
    )
    CLAIMERS = (
        "dueledger_claimers",
        MetricType.GAUGE,
        (
            "Live processes that claim due items: allocators and direct workers; services for pull"
            " workers, unless an allocator or direct worker was killed in the last hour."
        ),
        "role",
    )
    FAILING_PROCESSES = (
        "dueledger_failing_processes",
        MetricType.GAUGE,
        "Live processes that cannot take work, by the server that they do not reach.",
        "role",
        "server",
    )
    CERTIFICATE_EXPIRY_SECONDS = (
        "dueledger_certificate_expiry_seconds",
        MetricType.GAUGE,
        (
            "Time until the certificate of a live service expires, of the one that expires first;"
            " negative once it has."
        ),
    )
    OLDEST_TRANSACTION_SECONDS = (
        "dueledger_oldest_transaction_seconds",
        MetricType.GAUGE,
        "Age of the oldest open transaction that the owner of the ledger may see.",
    )
    OLDEST_SNAPSHOT_TRANSACTIONS = (
        "dueledger_oldest_snapshot_transactions",
        MetricType.GAUGE,
        "Transactions since the oldest snapshot that the owner of the ledger may see.",
    )
    DATABASE_BYTES = (
        "dueledger_database_bytes",
        MetricType.GAUGE,
        "Size of the database.",
    )

    # Workers.

    WORKER_COUNTS = (
        "dueledger_worker_counts_total",
        MetricType.COUNTER,
        "What a worker counted, by the names that its log lines have.",
        "count",
    )
    OUTCOMES = (
        "dueledger_outcomes_total",
        MetricType.COUNTER,
        "Outcomes of items that a worker recorded, or that were reported.",
        "kind",
        "outcome",
    )
    START_LAG_SECONDS = (
        "dueledger_start_lag_seconds",
        MetricType.HISTOGRAM,
        (
            "Time from due to started; a run counts half its items as its first, half as its last,"
            " one of a pull worker each item."
        ),
        "kind",
    )
    COMPLETION_LAG_SECONDS = (
        "dueledger_completion_lag_seconds",
        MetricType.HISTOGRAM,
        "Time from due to recorded as completed; a worker counts items as for the start lag.",
        "kind",
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


_PUBLIC: Final = frozenset(
    {
        Metric.PROCESS_INFO,
        Metric.PASSES,
        Metric.PASS_FAILURES,
        Metric.PASS_SECONDS,
        Metric.PASS_COUNTS,
        Metric.SERVER_UNREACHABLE,
        Metric.POOL_CONNECTIONS,
        Metric.STATEMENTS,
        Metric.STATEMENT_SECONDS,
    }
)
