"""The numbers of a process's metrics: counters that batches add to, and sources that are read.

The process adds to a counter once a pass or a batch; a gauge costs nothing until somebody reads
`/metrics`, in a thread of its own. So nothing here takes a lock: each step is one of a dict or a
list, which Python does not interrupt.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias, final

from dueledger.ledger.metrics.catalogue import Metric

Labels: TypeAlias = tuple[str, ...]

SERIES_MAX: Final = 50
"""Series of one metric; label values that come later are counted together, as `OTHER`."""
OTHER: Final = "other"


class Sample(NamedTuple):
    """One number of a metric, with the values of its labels in their order."""

    metric: Metric
    value: float
    labels: Labels = ()


MetricSource: TypeAlias = Callable[[], Iterable[Sample]]
"""Called for each reading, in another thread than the event loop's: it must not wait."""


@final
class MetricReadings:
    """The numbers of one process."""

    def __init__(self) -> None:
        self._counters: dict[Metric, dict[Labels, float]] = {}
        self._sources: list[MetricSource] = []

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter, once for a batch."""
        series = self._counters.setdefault(metric, {})
        if labels not in series and len(series) >= SERIES_MAX:
            labels = (OTHER,) * len(labels)
        series[labels] = series.get(labels, 0) + amount

    def source(self, source: MetricSource) -> "_Attached":
        """Have a source read for the `with` block."""
        return _Attached(self._sources, source)

    def read(self) -> dict[Metric, dict[Labels, float]]:
        """Return all series of all metrics; those that are equal are added up."""
        read = {metric: series.copy() for metric, series in self._counters.copy().items()}
        for source in self._sources.copy():
            for metric, value, labels in source():
                series = read.setdefault(metric, {})
                series[labels] = series.get(labels, 0) + value
        return read


@final
class _Attached:
    """A source that is read between entry and exit."""

    __slots__ = ("_source", "_sources")

    def __init__(self, sources: list[MetricSource], source: MetricSource) -> None:
        self._sources, self._source = sources, source

    def __enter__(self) -> None:
        self._sources.append(self._source)

    def __exit__(self, *_: object) -> None:
        self._sources.remove(self._source)


def greatest(samples: Iterable[Sample], count_max: int = SERIES_MAX) -> list[Sample]:
    """Return the samples of the greatest values, `count_max` at most."""
    return sorted(samples, key=lambda sample: -sample.value)[:count_max]


METRICS: Final = MetricReadings()
"""Those of this process."""
