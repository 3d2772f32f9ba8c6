"""Pages of metrics, read as Prometheus reads them."""

from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from dueledger.ledger.metrics import Metric
from dueledger.ledger.metrics.exposition import MetricsPage

Series: TypeAlias = dict[tuple[str, ...], float]


def read_page(page: str) -> dict[Metric, Series]:
    """Return the metrics of the catalogue, of histograms their counts.

    Refuses other metrics, and labels that it does not list.
    """
    read: dict[Metric, Series] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if not sample.name.startswith("dueledger_"):
                assert sample.name.startswith(("process_", "python_")), sample.name
                continue
            is_histogram = family.type == "histogram"
            metric = Metric(family.name if is_histogram else sample.name)
            assert metric.type == family.type
            if is_histogram and not sample.name.endswith("_count"):
                continue
            assert sample.labels.keys() == set(metric.labels)
            labels = tuple(sample.labels[label] for label in metric.labels)
            read.setdefault(metric, {})[labels] = sample.value
    return read


def read_own_page() -> dict[Metric, Series]:
    """Return the metrics of this process."""
    page, _ = MetricsPage().render()
    return read_page(page.decode())
