"""The catalogue of metrics, and the page of the documents that is made of it."""

import os
from pathlib import Path

from dueledger.ledger.metrics import Metric, MetricType

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
INTRODUCTION = """\
# Metrics

Each process answers `/metrics` in Prometheus's format at `DUELEDGER_METRICS_PORT`, if that is set:
on 127.0.0.1, unless `DUELEDGER_METRICS_HOST` names another address. There is no key, and names of
topics, tenants and kinds can be read there: let nobody reach it but Prometheus. It answers while
Postgres and Kafka are away, and while a handler blocks the event loop. `dueledger serve` answers
`/metrics` at its own port, too: there everybody may ask, and finds nothing of the ledger, its
tenants and kinds.

A program that [runs a worker](embedding.md) and has metrics of its own registers
`dueledger.ledger.metrics.exposition.CatalogueCollector()` with prometheus-client.

A counter of a metric with labels has 50 series in a process; label values that come later are
counted together as `other`. Beside these, `process_…` and `python_…` are prometheus-client's own.
`make schema` makes this page of the catalogue in the code.

| metric | type | labels | |
|---|---|---|---|
"""


def describe_metrics() -> str:
    """Return the page."""
    rows = [
        f"| `{metric}` | {metric.type} | {', '.join(map('`{}`'.format, metric.labels)) or '–'}"
        f" | {metric.text} |\n"
        for metric in Metric
    ]
    return INTRODUCTION + "".join(rows)


def test_docs_show_every_metric() -> None:
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        DOCUMENT.write_text(describe_metrics())
    assert DOCUMENT.read_text() == describe_metrics(), "run `make schema` and read the difference"


def test_names_end_in_their_units() -> None:
    for metric in Metric:
        assert metric.endswith("_total") == (metric.type is MetricType.COUNTER)
        assert "seconds" not in metric or metric.endswith(("_seconds", "_seconds_total"))
        assert metric.text.endswith(".")
