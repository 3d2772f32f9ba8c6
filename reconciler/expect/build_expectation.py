"""Builds the expectation of a pass: reads every source once and spools what it expects."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

from dueledger.ledger.errors import InvalidInput, WindowTooLarge, shown_value
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.ledger.schedule import AfterCompletion
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.columns.plain_rows import KeptRows, PlainRows, PlainUnit
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
from dueledger.reconciler.expect.item_terms import outside_terms
from dueledger.reconciler.expect.plain_events import PlainRules, read_inbox_page
from dueledger.reconciler.expect.plain_schedules import PlainSchedule, put_unit, unit_spans
from dueledger.reconciler.expect.schedules import (
    ExpectedDraft,
    expected_drafts,
    schedule_drafts,
    within,
)
from dueledger.reconciler.expect.shared_occurrences import SharedOccurrences
from dueledger.reconciler.expect.spool import Spool
from dueledger.reconciler.expect.versions import DefinitionSpan, read_version_spans
from dueledger.reconciler.read_ahead import paced, read_ahead, reading_beside, run_beside
from dueledger.reconciler.sources import (
    PopulationReader,
    PopulationRow,
    SourceFailed,
    SourceRead,
)

_VERSIONS_AT_ONCE: Final = 100


@asynccontextmanager
async def build_expectation(
    connection: Connection,
    populations: Sequence[PopulationReader],
    as_of: datetime,
    *,
    reader: "Connection | None" = None,
    kept: KeptRows | None = None,
    version_key: reconciled_rows.VersionKey = reconciled_rows.NO_VERSIONS,
    share: float = 1.0,
) -> AsyncGenerator[Expectation]:
    """Read every source once and spool what it expects; a source that fails is marked.

    `kept` has plain rows of earlier passes, and gets those of this one. `reader`, another
    connection, reads events ahead. `version_key` is the key for versions of rows,
    `share` the greatest share of the time in which events are read.
    """
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
        expectation = Expectation(versions, spool, PlainRows(kept or KeptRows()), reads)
        expectation.failures = failures
        expectation.version_key, expectation.share = version_key, share
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
        rules = _EventRules.of(versions)
        async with reading_beside(
            _digest_events(reader or connection, rules.plain, version_key)
        ) as digests:
            with Spool() as occurrences:
                shared = SharedOccurrences(versions, occurrences)
                await _put_schedules(expectation, shared, as_of)
            digested = await digests
        await _put_events(connection, reader or connection, expectation, rules, digested)
        for place, population in enumerate(populations, FIRST_POPULATION):
            rows_before = await reconciled_rows.last_row_count(connection, population.name)
            await _put_population(expectation, population, place, rows_before)
        yield expectation


async def _put_schedules(
    expectation: Expectation, shared: SharedOccurrences, as_of: datetime
) -> None:
    began = monotonic()
    schedules = [each for each in expectation.versions if each.definition.is_schedule]
    for version in schedules:
        expectation.horizons[version.definition_no] = version.horizon(as_of)
    expanded, share = _Expanded(expectation, shared), expectation.share
    async for begin in paced(range(0, len(schedules), _VERSIONS_AT_ONCE), share):
        versions = schedules[begin : begin + _VERSIONS_AT_ONCE]
        await run_beside(partial(expanded.put_versions, versions))
    async for span in paced(unit_spans(expanded.plain), share):
        await run_beside(partial(expanded.put_unit, span))
    for version in schedules:
        if reason := expanded.failed.get(version.definition_no):
            expectation.failures.append(version.failed(reason))
        elif reason := version.unmaterialised:
            expectation.unmaterialised.append(version.failed(reason))
    expectation.unmaterialised += [version.failed(reason) for version, reason in shared.find()]
    expectation.chained |= {
        version.definition_no
        for version in schedules
        if isinstance(version.definition.when, AfterCompletion) and not version.definition.ended
    }
    expectation.reads[DEFINITIONS].duration_seconds = monotonic() - began


class _Expanded:
    """The schedules of a pass: `plain` are those whose occurrences are computed as columns.

    `failed` has the reason of each version that cannot be expanded, by definition number.
    """

    def __init__(self, expectation: Expectation, shared: SharedOccurrences) -> None:
        self._expectation, self._shared = expectation, shared
        self.plain: list[PlainSchedule] = []
        self.failed: dict[int, str] = {}

    def put_versions(self, versions: Sequence[DefinitionSpan]) -> None:
        """Put the occurrences of versions that are not plain, and remember those that are."""
        for version in versions:
            horizon = self._expectation.horizons[version.definition_no]
            is_shared = self._shared.may_share(version)
            if not is_shared and (schedule := PlainSchedule.of(version, horizon)):
                self.plain.append(schedule)
            else:
                self._put(version, partial(expected_drafts, version, horizon))

    def put_unit(self, span: tuple[datetime, datetime]) -> None:
        """Put what the plain schedules owe in a unit's span."""
        expectation = self._expectation
        extract = expectation.reads[DEFINITIONS].extract
        for schedule, *left in put_unit(expectation.plain, self.plain, span, extract, self.failed):
            self._put(schedule.version, partial(schedule_drafts, schedule.version, *left))

    def _put(self, version: DefinitionSpan, draft: Callable[[], Iterator[ExpectedDraft]]) -> None:
        try:
            for occurrence, reason in draft():
                _put_occurrence(self._expectation, self._shared, version, occurrence, reason)
        except (InvalidInput, WindowTooLarge) as refusal:
            self.failed[version.definition_no] = refusal.message


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


class _EventRules(NamedTuple):
    """The event rules of all versions, and those of them that are plain."""

    all: ExpectedEventRules
    plain: PlainRules

    @classmethod
    def of(cls, versions: Sequence[DefinitionSpan]) -> "_EventRules":
        rules = ExpectedEventRules(versions)
        return cls(rules, PlainRules(rules.by_type))


async def _digest_events(
    reader: Connection, plain: PlainRules, key: reconciled_rows.VersionKey
) -> dict[int, str]:
    """Digest the events of plain rules, by page of the inbox."""
    types = sorted(plain.types)
    return await reconciled_rows.digest_inbox(reader, types, key) if types else {}


async def _put_events(
    connection: Connection,
    reader: Connection,
    expectation: Expectation,
    event_rules: _EventRules,
    digests: Mapping[int, str],
) -> None:
    began = monotonic()
    rules, plain = event_rules
    read = expectation.reads[EVENTS]
    for version in expectation.versions:
        if version.definition.event is not None:
            expectation.single.add(version.key)
    for unit in await _put_plain_events(reader, expectation, event_rules, digests):
        read.extract.add_rows(*unit.totals)
        for begin in range(0, len(unit.left), EVENTS_A_READ):
            events = await reconciled_rows.list_numbered_events(
                connection, unit.left[begin : begin + EVENTS_A_READ]
            )
            _put_events_as_they_are(expectation, rules, events)
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
    reader: Connection,
    expectation: Expectation,
    event_rules: _EventRules,
    digests: Mapping[int, str],
) -> list[PlainUnit]:
    """Put what plain rules owe as columns, in a unit for each page of the inbox.

    The digests of pages were read before their events. An event that is recorded in between is in
    the rows and not in the digest, so the next pass reads its page once more.
    """
    (rules, plain), rows = event_rules, expectation.plain
    known = hash(tuple(version.fingerprint for version in rules.versions))
    key = expectation.version_key
    names = {page: ("events", key, known, page, digest) for page, digest in digests.items()}
    units = {page: rows.take(name) for page, name in names.items()}
    unread = [page for page, unit in units.items() if unit is None]
    read = partial(read_inbox_page, reader, sorted(plain.types))
    pages = read_ahead(unread, read, share=expectation.share)
    async with aclosing(pages):
        async for page, events in pages:
            left = await run_beside(partial(plain.add, events))
            plain.batch.put(rows)
            units[page] = rows.finish(names[page], left)
    return [unit for unit in units.values() if unit is not None]


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
        expectation.withdrawn_later.add(order_of(event), rules.read_later(event))


async def _put_population(
    expectation: Expectation, population: PopulationReader, place: int, rows_before: int | None
) -> None:
    """Spool what a population names, all of it or nothing: `rows_before` it had the last time."""
    began = monotonic()
    read, spool = expectation.reads[place], expectation.spool
    savepoint = spool.savepoint()
    kinds: set[KindKey] = set()
    says_payloads = False
    try:
        async for rows in population.read(read.extract):
            kinds |= {(row.tenant, row.kind) for row in rows}
            says_payloads |= any(row.payload is not None for row in rows)
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
        kinds |= population.named_kinds or set()  # of one without a row it names all: none
        expectation.says_payloads |= says_payloads
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
            outside_terms=outside_terms(row),
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
