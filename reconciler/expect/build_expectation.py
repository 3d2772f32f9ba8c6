"""Builds the expectation of a pass: reads every source once and spools what it expects."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from time import monotonic
from typing import Final

from dueledger.ledger.errors import InvalidInput, WindowTooLarge, shown_value
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.ledger.schedule import AfterCompletion
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.columns.plain_rows import PlainRows
from dueledger.reconciler.compared_items import DAY, ID, SOURCE, ExpectedItem, KindKey, expected_row
from dueledger.reconciler.expect.events import ExpectedEventRules, order_of
from dueledger.reconciler.expect.expectation import EVENTS_A_READ, Expectation
from dueledger.reconciler.expect.expected_rows import (
    DEFINITIONS,
    EVENTS,
    FIRST_POPULATION,
    event_rows,
    occurrence_row,
)
from dueledger.reconciler.expect.plain_events import PlainRules, read_inbox_page
from dueledger.reconciler.expect.plain_schedules import PlainSchedule
from dueledger.reconciler.expect.schedules import (
    ExpectedDraft,
    expected_drafts,
    schedule_drafts,
    within,
)
from dueledger.reconciler.expect.shared_occurrences import SharedOccurrences
from dueledger.reconciler.expect.spool import Spool
from dueledger.reconciler.expect.versions import DefinitionSpan, FailedVersion, read_version_spans
from dueledger.reconciler.sources import (
    PopulationReader,
    PopulationRow,
    SourceFailed,
    SourceRead,
)

PLAIN_EVENTS_A_READ: Final = 50_000


@asynccontextmanager
async def build_expectation(
    connection: Connection, populations: Sequence[PopulationReader], as_of: datetime
) -> AsyncGenerator[Expectation]:
    """Read every source once and spool what it expects; a source that fails is marked."""
    versions, failures = await read_version_spans(connection)
    reads = [
        SourceRead("definitions", "definitions", None),
        SourceRead("events", "events", None),
        *(
            SourceRead(
                population.name,
                population.origin,
                population.digest,
                kinds=population.named_kinds,
            )
            for population in populations
        ),
    ]
    with Spool() as spool, PlainRows() as plain:
        expectation = Expectation(versions, spool, plain, reads)
        expectation.failures = failures
        for read in reads[:FIRST_POPULATION]:
            read.extract.extracted_at = as_of
        expedited = await reconciled_rows.list_expedited(connection)
        expectation.expedited = set(expedited)
        expectation.triggered = {item_no for item_no, triggered in expedited.items() if triggered}
        missed = await reconciled_rows.list_missed_ranges(connection)
        # A version whose catch-up owes everything has missed nothing, whatever is recorded.
        expectation.missed = {
            version.definition_no: missed.get(version.definition_no, [])
            for version in versions
            if not version.definition.catch_up.keeps_all
        }
        with Spool() as occurrences:
            _put_schedules(expectation, SharedOccurrences(versions, occurrences), as_of)
        await _put_events(connection, expectation)
        for place, population in enumerate(populations, FIRST_POPULATION):
            rows_before = await reconciled_rows.last_row_count(connection, population.name)
            await _put_population(expectation, population, place, rows_before)
        yield expectation


def _put_schedules(expectation: Expectation, shared: SharedOccurrences, as_of: datetime) -> None:
    began = monotonic()
    read = expectation.reads[DEFINITIONS]
    for version in expectation.versions:
        if not version.definition.is_schedule:
            continue
        if isinstance(version.definition.when, AfterCompletion) and not version.definition.ended:
            expectation.chained.add(version.definition_no)
        horizon = version.horizon(as_of)
        expectation.horizons[version.definition_no] = horizon
        try:
            for draft, reason in _put_plain_occurrences(expectation, shared, version, horizon):
                _put_occurrence(expectation, shared, version, draft, reason)
        except (InvalidInput, WindowTooLarge) as refusal:
            expectation.failures.append(
                FailedVersion(*version.key, version.name, version.number, refusal.message)
            )
            continue
        if reason := version.unmaterialised:
            expectation.unmaterialised.append(
                FailedVersion(*version.key, version.name, version.number, reason)
            )
    expectation.unmaterialised += [
        FailedVersion(*version.key, version.name, version.number, reason)
        for version, reason in shared.find()
    ]
    read.duration_seconds = monotonic() - began


def _put_plain_occurrences(
    expectation: Expectation, shared: SharedOccurrences, version: DefinitionSpan, end: datetime
) -> Iterator[ExpectedDraft]:
    """Put what a version owes up to `end` as columns; yield the drafts of all that is not plain."""
    plain = None if shared.may_share(version) else PlainSchedule.of(version)
    if plain is None:
        yield from expected_drafts(version, end)
        return
    extract = expectation.reads[DEFINITIONS].extract
    left: list[tuple[datetime, datetime]] = []
    for days, columns in plain.expand(version.effective_from, end, left):
        extract.add_rows(*expectation.plain.add(days, columns))
    for span in left:
        yield from schedule_drafts(version, *span)


def _put_occurrence(
    expectation: Expectation,
    shared: SharedOccurrences,
    version: DefinitionSpan,
    draft: ItemDraft,
    reason: str | None,
) -> None:
    identity, at = draft.id.bytes, draft.occurs_at
    missed = expectation.missed.get(version.definition_no, ())
    live = version.is_owed(at) and not within(missed, at)
    if live:
        expectation.reads[DEFINITIONS].extract.add(identity)
        shared.add(version, draft, identity)
    row = occurrence_row(version.definition_no, draft, reason, is_live=live)
    expectation.spool.add(draft.effective_date.toordinal(), row)


async def _put_events(connection: Connection, expectation: Expectation) -> None:
    began = monotonic()
    rules = ExpectedEventRules(expectation.versions)
    read = expectation.reads[EVENTS]
    for version in expectation.versions:
        if version.definition.event is not None:
            expectation.single.add(version.key)
    plain = PlainRules(rules.by_type)
    await _put_plain_events(connection, expectation, rules, plain)
    after, types = 0, sorted(set(rules.types) - plain.types)
    while types:
        rows = await reconciled_rows.list_inbox_events(connection, types, after, EVENTS_A_READ)
        _put_events_as_they_are(expectation, rules, rows)
        if len(rows) < EVENTS_A_READ:
            break
        after = rows[-1]["event_no"]
    expectation.withdrawn.sort()
    read.duration_seconds = monotonic() - began


async def _put_plain_events(
    connection: Connection,
    expectation: Expectation,
    rules: ExpectedEventRules,
    plain: PlainRules,
) -> None:
    """Put what plain rules owe as columns, and what is not plain as it is."""
    after, types = 0, sorted(plain.types)
    while types:
        events = await read_inbox_page(connection, types, after, PLAIN_EVENTS_A_READ)
        left = plain.add(events)
        totals = plain.batch.put(expectation.plain)
        expectation.reads[EVENTS].extract.add_rows(*totals)
        for begin in range(0, len(left), EVENTS_A_READ):
            _put_events_as_they_are(
                expectation,
                rules,
                await reconciled_rows.list_numbered_events(
                    connection, left[begin : begin + EVENTS_A_READ]
                ),
            )
        if len(events.numbers) < PLAIN_EVENTS_A_READ:
            break
        after = events.numbers[-1]


def _put_events_as_they_are(
    expectation: Expectation, rules: ExpectedEventRules, events: Sequence[Record]
) -> None:
    read = expectation.reads[EVENTS]
    for event in events:
        effects = rules.apply(event, read.extract.skipped)
        for row in event_rows(event, effects):
            read.extract.add(row[ID])
            expectation.spool.add(row[DAY], row)
        expectation.withdrawn.add(order_of(event), effects)


async def _put_population(
    expectation: Expectation, population: PopulationReader, place: int, rows_before: int | None
) -> None:
    """Spool what a population names, all of it or nothing: `rows_before` it had the last time."""
    began = monotonic()
    read, spool = expectation.reads[place], expectation.spool
    savepoint = spool.savepoint()
    kinds: set[KindKey] = set()
    try:
        async for rows in population.read(read.extract):
            kinds |= {(row.tenant, row.kind) for row in rows}
            for row in rows:
                _put_population_row(spool, row, place)
    except SourceFailed as failure:
        read.failure = failure.reason
    else:
        read.failure = population.bounds.breach(read.extract, rows_before) or _repeated(
            spool, place
        )
    if read.failure:
        spool.roll_back(savepoint)
    else:
        expectation.single |= kinds
        if population.complete:
            expectation.complete |= kinds
    read.duration_seconds = monotonic() - began


def _put_population_row(spool: Spool, row: PopulationRow, place: int) -> None:
    day = row.effective_date.toordinal()
    spool.add(
        day,
        expected_row(
            id=row.id,
            tenant=row.tenant,
            kind=row.kind,
            business_key=row.business_key,
            cycle=row.cycle,
            day=day,
            due_microseconds=microseconds_of(row.due_at),
            source=place,
            is_live=not row.ended,
            payload=row.payload,
            partition_key=row.partition_key,
            is_asserted=True,
        ),
        payload_chars=len(row.payload or ""),
    )


def _repeated(spool: Spool, place: int) -> str | None:
    """Return which item a population names twice, and of how many more it does; a day at a time."""
    first: ExpectedItem | None = None
    count = 0
    for day in spool.counts:
        seen: set[bytes] = set()
        for row in spool.read(day, day + 1):
            if row[SOURCE] != place:
                continue
            if row[ID] in seen:
                first = first or ExpectedItem._make(row)
                count += 1
            seen.add(row[ID])
    if first is None:
        return None
    return f"{count:,} of its rows repeat another, as that of {shown_value(first.business_key)}"
