"""One trace has an event, its item's claim and outcome by HTTP; and they count in the metrics."""

from typing import TYPE_CHECKING

import opentelemetry.trace
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dueledger.ledger.metrics import Metric
from dueledger.ledger.store.api_keys import Scope
from tests.metrics_page import Series, read_own_page
from tests.service.conftest import EVENT, Api
from tests.service.test_events import RULE

if TYPE_CHECKING:
    from collections.abc import Mapping

TRACE, PARENT = "a1" * 16, "b2" * 8
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
KIND = "TracedDue"
COUNTED = (Metric.OUTCOMES, Metric.START_LAG_SECONDS, Metric.COMPLETION_LAG_SECONDS)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of this test alone are recorded."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "_TRACER_PROVIDER", provider)
    return exporter


def counted() -> dict[Metric, float]:
    read: Mapping[Metric, Series] = read_own_page()
    return {metric: sum(read.get(metric, {}).values()) for metric in COUNTED}


async def test_an_event_and_the_outcome_of_its_item_are_of_one_trace_and_count(
    api: Api, exporter: InMemorySpanExporter
) -> None:
    key = await api.make_key("tracer", Scope.EMIT, Scope.WORK)
    await api.define("acme", "traced", RULE | {"kind": KIND, "event": "Traced"})
    event = {**EVENT, "id": "traced", "type": "Traced", "traceparent": TRACEPARENT}
    answer = await api.ask("POST", "/v1/events", key=key, body=event)
    assert answer.document["emitted"] == 1, answer.text
    await api.emit(key, api.item("P-2", kind=KIND, traceparent=TRACEPARENT))
    await api.owner.execute("update ledger.pending set available_at = ledger.now()")
    before = counted()
    claim = {"kinds": [KIND], "items_max": 10, "wait_seconds": 60}
    claimed = await api.ask("POST", "/v1/claims", key=key, body=claim)
    items = claimed.document["items"]
    assert [item["traceparent"] for item in items] == [TRACEPARENT] * 2
    names = ("item", "fence", "token", "position")
    reports = [
        {name: item[name] for name in names} | {"verdict": verdict}
        for item, verdict in zip(items, ("SUCCESS", "FAILED"), strict=True)
    ]
    for _ in range(2):  # a repetition counts nothing
        answer = await api.ask("POST", "/v1/outcomes", key=key, body={"outcomes": reports})
        assert {each["result"] for each in answer.document["outcomes"]} == {"recorded"}
    grown = {metric: number - before[metric] for metric, number in counted().items()}
    assert grown == dict(zip(COUNTED, (2, 2, 1), strict=True))
    spans = [
        span
        for span in exporter.get_finished_spans()
        if span.instrumentation_scope is not None and span.instrumentation_scope.name == "dueledger"
    ]
    assert sorted(span.name for span in spans) == [
        *[f"claim {KIND}"] * 2,
        f"emit {KIND}",
        "record Traced",
        *[f"settle {KIND}"] * 2,
    ]
    for span in spans:
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}/{span.parent.span_id:016x}" == f"{TRACE}/{PARENT}"
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time
    ends = [str((span.attributes or {}).get("dueledger.outcome", "")) for span in spans]
    assert set(ends) == {"", "completed", "failed"}
