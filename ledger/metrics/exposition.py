"""The metrics of a process in Prometheus's format, and the server that answers `/metrics`.

The server has threads of its own: it answers while the event loop is blocked, and while Postgres
and Kafka are away.
"""

import socket
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from itertools import accumulate
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.metrics.catalogue import Metric, MetricType
from dueledger.ledger.metrics.readings import (
    LAG_BOUNDS,
    METRICS,
    Histogram,
    Labels,
    MetricReadings,
)

REQUESTS_MAX: Final = 8
REQUEST_SECONDS: Final = 10.0
PATH: Final = "/metrics"

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

_FAMILIES: Final = {
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.GAUGE: GaugeMetricFamily,
}


@final
class CatalogueCollector(Collector):
    """Has prometheus-client read the metrics of the catalogue; a program may register it."""

    def __init__(self, readings: MetricReadings = METRICS, *, only_public: bool = False) -> None:
        self._readings = readings
        self._metrics = [each for each in Metric if each.is_public or not only_public]

    def collect(self) -> Iterable[MetricFamily]:
        """Return the metrics that have a number, in the order of the catalogue."""
        read, histograms = self._readings.read(), self._readings.read_histograms()
        for metric in self._metrics:
            if metric in read:
                yield _family(metric, read[metric])
            elif metric in histograms:
                yield _histogram_family(metric, histograms[metric])


def _family(metric: Metric, series: dict[Labels, float]) -> MetricFamily:
    family = _FAMILIES[metric.type](metric, metric.text, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)
    return family


def _histogram_family(metric: Metric, series: dict[Labels, Histogram]) -> MetricFamily:
    family = HistogramMetricFamily(metric, metric.text, labels=metric.labels)
    for labels, histogram in series.items():
        sums = accumulate(histogram.counts)
        bounds = (*map(str, LAG_BOUNDS), "+Inf")
        family.add_metric(labels, list(zip(bounds, sums, strict=True)), histogram.total)
    return family


def process_registry(
    readings: MetricReadings = METRICS, *, only_public: bool = False
) -> CollectorRegistry:
    """Return the registry of a process: the catalogue, its memory and CPU time, and Python's."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CatalogueCollector(readings, only_public=only_public))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


@final
class MetricsPage:
    """What `/metrics` answers; with `only_public`, to anybody."""

    def __init__(self, readings: MetricReadings = METRICS, *, only_public: bool = False) -> None:
        self._registry = process_registry(readings, only_public=only_public)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the page and its content type, by the request's header Accept."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def __call__(self, environ: dict[str, Any], start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request of WSGI."""
        if environ["PATH_INFO"] != PATH or environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"The metrics are at /metrics.\n"]
        page, content_type = self.render(environ.get("HTTP_ACCEPT", ""))
        start_response("200 OK", [("Content-Type", content_type)])
        return [page]


class _MetricsHandler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the standard library's
        """Log nothing: a reading each few seconds is no event."""


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """Answers at most `REQUESTS_MAX` requests at a time; others are disconnected."""

    daemon_threads = True
    _free = threading.BoundedSemaphore(REQUESTS_MAX)

    def server_bind(self) -> None:
        """Listen, without the look-up of a host name that the standard library makes here."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as socketserver's
        """Answer in a thread, unless there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as socketserver's
        """Answer a request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as socketserver's
        """Pass over a client that went away."""


@contextmanager
def served_metrics(
    host: IPv4Address | IPv6Address, port: int, readings: MetricReadings = METRICS
) -> Generator[str]:
    """Answer `/metrics` for the block; return its URL. Raises InvalidSetting if it cannot listen.

    Port 0 is any free one.
    """
    family = socket.AF_INET6 if isinstance(host, IPv6Address) else socket.AF_INET
    server_class = type("_MetricsServer", (_MetricsServer,), {"address_family": family})
    try:
        server = server_class((str(host), port), _MetricsHandler)
    except OSError as error:
        reason = error.strerror or "it cannot be used"
        problem = Problem("DUELEDGER_METRICS_PORT", f"{host} {port}", reason, "a free port")
        raise InvalidSetting("The metrics cannot be served:", [problem]) from None
    with server:
        server.set_app(MetricsPage(readings))
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            shown = f"[{host}]" if isinstance(host, IPv6Address) else str(host)
            yield f"http://{shown}:{server.server_port}{PATH}"
        finally:
            server.shutdown()
            thread.join()
