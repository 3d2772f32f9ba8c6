"""Builds the expectation of a pass: reads every source once and spools what it expects."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from time import monotonic

from dueledger.ledger.errors import InvalidInput, WindowTooLarge, shown_value
from dueledger.ledger.rules.drafts import RuleEffect
from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.ledger.schedule import AfterCompletion
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.compared_items import ID, SOURCE, ExpectedItem, KindKey, expected_row
from dueledger.reconciler.expect.events import ExpectedEventRules, order_of
from dueledger.reconciler.expect.expectation import (
    DEFINITIONS,
    EVENTS,
    EVENTS_A_READ,
    FIRST_POPULATION,
    Expectation,
)
from dueledger.reconciler.expect.item_terms import terms_digest
from dueledger.reconciler.expect.schedules import expected_drafts, within
from dueledger.reconciler.expect.shared_occurrences import SharedOccurrences
from dueledger.reconciler.expect.spool import Spool
from dueledger.reconciler.expect.versions import FailedVersion, read_version_spans
from dueledger.reconciler.sources import (
    PopulationReader,
    PopulationRow,
    SourceFailed,
    SourceRead,
)


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
    with Spool() as spool:
        expectation = Expectation(versions, spool, reads)
        expectation.failures = failures
        for read in reads[:FIRST_POPULATION]:
            read.extract.extracted_at = as_of
        expectation.triggered = await reconciled_rows.list_expedited(connection)
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
        missed = expectation.missed.get(version.definition_no, ())
        expectation.horizons[version.definition_no] = horizon
        try:
            for draft, reason in expected_drafts(version, horizon):
                identity, at = draft.id.bytes, draft.occurs_at
                day = draft.effective_date.toordinal()
                live = version.is_owed(at) and not within(missed, at)
                if live:
                    read.extract.add(identity)
                    shared.add(version, draft, identity)
                expectation.spool.add(
                    day,
                    expected_row(
                        id=identity,
                        tenant=draft.tenant,
                        kind=draft.kind,
                        business_key=draft.business_key,
                        cycle=draft.cycle,
                        day=day,
                        due_microseconds=microseconds_of(draft.due_at),
                        source=DEFINITIONS,
                        is_live=live,
                        definition_no=version.definition_no,
                        terms_digest=terms_digest(draft),
                        skipped_for=reason and reason.partition(" ")[0],
                    ),
                )
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


async def _put_events(connection: Connection, expectation: Expectation) -> None:
    began = monotonic()
    rules = ExpectedEventRules(expectation.versions)
    read = expectation.reads[EVENTS]
    for version in expectation.versions:
        if version.definition.event is not None:
            expectation.single.add(version.key)
    after = 0
    while rules.types:
        rows = await reconciled_rows.list_inbox_events(
            connection, rules.types, after, EVENTS_A_READ
        )
        for row in rows:
            _put_event(expectation, row, rules.apply(row, read.extract.skipped))
        if len(rows) < EVENTS_A_READ:
            break
        after = rows[-1]["event_no"]
    expectation.withdrawn.sort()
    read.duration_seconds = monotonic() - began


def _put_event(expectation: Expectation, row: Record, effects: Sequence[RuleEffect]) -> None:
    order, received_at = order_of(row), row["received_at"]
    for definition_no, _, draft, reinstates in effects:
        if draft is None:
            continue
        identity, day = draft.id.bytes, draft.effective_date.toordinal()
        expectation.reads[EVENTS].extract.add(identity)
        expectation.spool.add(
            day,
            expected_row(
                id=identity,
                tenant=draft.tenant,
                kind=draft.kind,
                business_key=draft.business_key,
                cycle=draft.cycle,
                day=day,
                due_microseconds=microseconds_of(draft.due_at),
                source=EVENTS,
                definition_no=definition_no,
                reference=row["event_no"],
                moment=order,
                received=microseconds_of(received_at),
                is_missed=draft.is_too_late(received_at),
                reinstates=reinstates,
                terms_digest=terms_digest(draft),
            ),
        )
    expectation.withdrawn.add(order, effects)


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
