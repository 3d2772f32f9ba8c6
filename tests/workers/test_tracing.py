"""One trace has an event or the emission of an item, the call of its handler and what that does."""

from collections.abc import Sequence
from datetime import date

import opentelemetry.trace
import pytest
from aiokafka import AIOKafkaProducer
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, NewItem, Verdict, emit
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.intake import EventIntakeSettings, open_intake
from dueledger.ledger.kafka.topics import make_topics
from dueledger.ledger.runtime.tracing import current_traceparent
from dueledger.ledger.store.definitions import define
from tests.conftest import LONG_AGO
from tests.intake.conftest import BEGINNING, activated, message, renewal
from tests.logins import with_login

from .conftest import Site


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of this test alone are recorded."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "_TRACER_PROVIDER", provider)
    return exporter


def context_of(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


async def test_emission_call_and_what_the_handler_does_are_of_one_trace(
    site: Site, exporter: InMemorySpanExporter
) -> None:
    handlers, tracer = Handlers(), opentelemetry.trace.get_tracer("test")
    batched = f"{site.kind}Batched"

    @handlers.on(site.kind)
    async def work(item: DueItem) -> Verdict:
        with tracer.start_as_current_span("charge"):
            return Completed({"key": item.business_key})

    @handlers.on_batch(batched)
    async def work_all(items: Sequence[DueItem]) -> list[Verdict]:
        return [Completed() for _ in items]

    def new(kind: str, key: str) -> NewItem:
        return NewItem(
            tenant="acme",
            kind=kind,
            business_key=key,
            effective_date=date(2027, 3, 1),
            due_at=LONG_AGO,
        )

    with tracer.start_as_current_span("renew"):
        await emit(site.connection, [new(site.kind, "one"), new(batched, "a"), new(batched, "b")])
    await site.work(handlers)

    async def completed() -> bool:
        await site.allocate()
        return await site.completed() == 3

    await site.eventually(completed)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    renew, call, charge = (spans[name] for name in ("renew", f"work {site.kind}", "charge"))
    assert context_of(renew).trace_id == context_of(call).trace_id == context_of(charge).trace_id
    assert call.parent is not None
    assert call.parent.span_id == context_of(renew).span_id
    assert charge.parent is not None
    assert charge.parent.span_id == context_of(call).span_id
    assert call.attributes is not None
    assert call.attributes["dueledger.verdict"] == "Completed"
    assert call.attributes["dueledger.tenant"] == "acme"
    of_batch = [span for span in exporter.get_finished_spans() if span.name == f"work {batched}"]
    assert {link.context.trace_id for span in of_batch for link in span.links} | {
        span.parent.trace_id for span in of_batch if span.parent
    } == {context_of(renew).trace_id}


async def test_a_domain_event_and_the_outcome_of_its_item_are_of_one_trace(
    site: Site, exporter: InMemorySpanExporter, database: str
) -> None:
    """Through the topic of events, the intake, the ledger, the work topic and a worker."""
    handlers, tracer = Handlers(), opentelemetry.trace.get_tracer("test")

    @handlers.on(site.kind)
    async def work(item: DueItem) -> Verdict:
        with tracer.start_as_current_span("charge"):
            return Completed({"key": item.business_key})

    settings = EventIntakeSettings(
        dsn=SecretStr(with_login(database, "intake")),
        bootstrap_servers=site.settings.bootstrap_servers,
        event_topic=f"events-{site.kind}",
        rejected_topic=f"rejected-{site.kind}",
        intake_group=f"intake-{site.kind}",
    )
    topics = {settings.event_topic, settings.rejected_topic}
    await make_topics(settings, topics, client="test", role="test")
    rule = parse_definition(renewal(site.kind))
    await define(
        site.connection,
        rule.normalised(),
        tenant=rule.tenant,
        name=rule.definition,
        kind=rule.kind,
        event_type=rule.event,
        effective_from=BEGINNING,
        actor_no=site.actor_no,
    )
    event = activated("P-1", expires_on="2026-04-01")
    with tracer.start_as_current_span("activate"):
        key, value, headers = message(event, traceparent=current_traceparent())
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        await producer.send_and_wait(settings.event_topic, value, key, headers=headers)
    async with open_intake(settings) as intake:

        async def recorded() -> bool:
            return (await intake.tick()).get("events", 0) > 0

        await site.eventually(recorded)
    await site.work(handlers)

    async def completed() -> bool:
        await site.allocate()
        return await site.completed() == 1

    await site.eventually(completed)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    activate, call, charge = (spans[name] for name in ("activate", f"work {site.kind}", "charge"))
    assert {context_of(span).trace_id for span in (call, charge)} == {context_of(activate).trace_id}
    assert call.parent is not None
    assert call.parent.span_id == context_of(activate).span_id
    assert call.attributes is not None
    assert call.attributes["dueledger.verdict"] == "Completed"


async def test_an_item_without_a_trace_is_worked_in_one_of_its_own(
    site: Site, exporter: InMemorySpanExporter
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind)
    async def fail(item: DueItem) -> Verdict:
        raise ValueError(item.business_key)

    item = NewItem(
        tenant="acme",
        kind=site.kind,
        business_key="one",
        effective_date=date(2027, 3, 1),
        due_at=LONG_AGO,
    )
    await emit(site.connection, [item])
    await site.work(handlers)

    async def ended() -> Sequence[ReadableSpan]:
        await site.allocate()
        return exporter.get_finished_spans()

    span, *_ = await site.eventually(ended)
    assert span.parent is None
    assert [event.name for event in span.events] == ["exception"]
    assert not span.status.is_ok
