"""The numbers of a process's metrics: counters that batches add to, and sources that are read.

The process adds to a counter once a pass or a batch; a gauge costs nothing until somebody reads
`/metrics`, in a thread of its own. So nothing here takes a lock: each step is one of a dict or a
list, which Python does not interrupt.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias, final

from dueledger.ledger.metrics.catalogue import Metric

Labels: TypeAlias = tuple[str, ...]

SERIES_MAX: Final = 50
"""Series of one counter; label values that come later are counted together, as `OTHER`."""
STATEMENTS_MAX: Final = 20
KINDS_MAX: Final = 6
"""Kinds with series of their own: the first that the process sees. A frequent one is seen early."""
LAG_BOUNDS: Final = (0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0, 3600.0)
"""Upper bounds of the buckets of lags, in seconds."""
OTHER: Final = "other"


class Sample(NamedTuple):
    """One number of a metric, with the values of its labels in their order."""

    metric: Metric
    value: float
    labels: Labels = ()


MetricSource: TypeAlias = Callable[[], Iterable[Sample]]
"""Called for each reading, in another thread than the event loop's: it must not wait."""


@final
class Histogram:
    """Counts by bucket, the last one without a bound, and the sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0.0] * (len(LAG_BOUNDS) + 1)
        self.total = 0.0

    def add(self, value: float, count: float) -> None:
        """Count a value so many times."""
        self.counts[bisect_left(LAG_BOUNDS, value)] += count
        self.total += value * count


@final
class MetricReadings:
    """The numbers of one process."""

    def __init__(self) -> None:
        self._counters: dict[Metric, dict[Labels, float]] = {}
        self._histograms: dict[Metric, dict[Labels, Histogram]] = {}
        self._kinds: set[str] = set()
        self._sources: list[MetricSource] = []

    def add(
        self, metric: Metric, amount: float, *labels: str, series_max: int = SERIES_MAX
    ) -> None:
        """Add to a counter, once for a batch."""
        series = self._counters.setdefault(metric, {})
        if labels not in series and len(series) >= series_max:
            labels = (OTHER,) * len(labels)
        series[labels] = series.get(labels, 0) + amount

    def kind_label(self, kind: str) -> str:
        """Return the kind, or `OTHER` for one that came after `KINDS_MAX` others."""
        if kind not in self._kinds:
            if len(self._kinds) >= KINDS_MAX:
                return OTHER
            self._kinds.add(kind)
        return kind

    def observe(self, metric: Metric, value: float, count: float, kind: str) -> None:
        """Add a value to the histogram of a kind, so many times."""
        series = self._histograms.setdefault(metric, {})
        labels = (self.kind_label(kind),)
        if (histogram := series.get(labels)) is None:
            histogram = series[labels] = Histogram()
        histogram.add(value, count)

    def read_histograms(self) -> dict[Metric, dict[Labels, Histogram]]:
        """Return all histograms."""
        return {metric: series.copy() for metric, series in self._histograms.copy().items()}

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
