"""Spans of OpenTelemetry, in a process that has a provider of traces; nothing elsewhere.

An item carries the trace that it was emitted under, so its emission and each of its calls are of
one trace.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import islice
from os import environ
from time import monotonic, time_ns  # noqa: TID251 - times of spans are the machine's
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from dueledger.ledger.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from opentelemetry.trace import Span, Tracer

_NAME: Final = "dueledger"
_EXPORTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
LINKS_MAX: Final = 100
"""Items of a batch whose traces its span is linked to."""


def configure_tracing(service: str) -> None:
    """Export spans where the environment names an endpoint of OTLP.

    Raises MissingExtra if it does and the library is not installed.
    """
    if not any(map(environ.get, _EXPORTS)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
        from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed. Install dueledger[trace]."
        raise MissingExtra(message, extra="trace") from None
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    set_tracer_provider(provider)


def current_traceparent() -> str | None:
    """Return the W3C trace context of the running span, or None."""
    if _tracer() is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


@final
class CallSpan:
    """The span of a handler's call, or none."""

    __slots__ = ("_span",)

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def set_verdict(self, value: object) -> None:
        """Name what the handler returned."""
        if self._span is not None:
            self._span.set_attribute("dueledger.verdict", type(value).__name__)


_NO_SPAN: Final = CallSpan()


@contextmanager
def call_span(
    kind: str, traceparents: Sequence[str | None], attributes: Mapping[str, str | int]
) -> Generator[CallSpan]:
    """Make a span current for the block: the child of one item's trace, linked to those of many."""
    tracer = _tracer()
    if tracer is None:
        yield _NO_SPAN
        return
    from opentelemetry.trace import Link, SpanKind, get_current_span  # noqa: PLC0415 - an extra

    contexts = [_context(each) for each in traceparents[:LINKS_MAX] if each is not None]
    parent = contexts[0] if len(traceparents) == 1 and contexts else None
    links = [] if parent else [Link(get_current_span(each).get_span_context()) for each in contexts]
    with tracer.start_as_current_span(
        f"work {kind}",
        context=parent,
        kind=SpanKind.CONSUMER,
        links=links,
        attributes={"dueledger.kind": kind, **attributes},
    ) as span:
        yield CallSpan(span)


class TracedItem(NamedTuple):
    """An item of a batch, the trace that it was emitted under, and what its span says of it."""

    kind: str
    traceparent: str | None
    attributes: Mapping[str, str | int]


def record_spans(verb: str, began_at: float, items: Iterable[TracedItem]) -> None:
    """Record what was done with a batch, as a span `VERB KIND` in the trace of each of its items.

    It began at `began_at`, monotonic, and ends now. Items without a trace have no
    span, and only the first `LINKS_MAX` of a batch have one.
    """
    tracer = _tracer()
    if tracer is None:
        return
    ended_at = time_ns()
    seconds = monotonic() - began_at
    for item in islice((each for each in items if each.traceparent is not None), LINKS_MAX):
        span = tracer.start_span(
            f"{verb} {item.kind}",
            context=_context(item.traceparent or ""),
            start_time=ended_at - int(seconds * 1e9),
            attributes={"dueledger.kind": item.kind, **item.attributes},
        )
        span.end(ended_at)


def is_tracing() -> bool:
    """Return whether spans are recorded in this process."""
    return _tracer() is not None


def _context(traceparent: str) -> Any:  # noqa: ANN401 - a context of OpenTelemetry
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


def _tracer() -> Tracer | None:
    """Return a tracer; None while nobody in this process has made a provider."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer(_NAME)
