"""What the ledger should have: by the definitions in force at the time, events, and populations.

It is computed again from documents and inbox by the pure modules alone. The code that made the rows
is not used.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import chain, pairwise
from typing import Final

from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.drafts import ItemDraft, ItemSubject
from dueledger.ledger.rules.event_issues import Withdrawal, first_cycle
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON, issue_draft, split_issue
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.expected_columns import PlainWindow
from dueledger.reconciler.columns.plain_rows import PlainRows
from dueledger.reconciler.compared_items import (
    ASSERTED,
    ID,
    SOURCE,
    SUBJECT,
    ActualItem,
    ExpectedItem,
    KindKey,
)
from dueledger.reconciler.expect.events import ExpectedEventRules, WithdrawalIndex, expected_issues
from dueledger.reconciler.expect.expected_rows import (
    DEFINITIONS,
    EVENTS,
    FIRST_POPULATION,
    event_rows,
    occurrence_row,
)
from dueledger.reconciler.expect.item_terms import (
    instant_of,
    terms_of_draft,
    terms_of_population,
)
from dueledger.reconciler.expect.named_terms import Named, list_named_drafts
from dueledger.reconciler.expect.schedules import (
    drafts_moved_before_change,
    schedule_drafts,
    schedule_slices,
)
from dueledger.reconciler.expect.spool import Spool, SpooledRow
from dueledger.reconciler.expect.versions import DefinitionSpan, FailedVersion
from dueledger.reconciler.sources import SourceRead
from dueledger.reconciler.windows import DateRange

EVENTS_A_READ: Final = 5_000
_APART: Final = 600_000_000
"""Microseconds: occurrences this near are expanded together."""

MissedRanges = dict[int, list[tuple[datetime, datetime]]]
"""By definition, the recorded ranges of occurrences that catch-up does not owe any more."""

# Rows stay plain tuples until something is wrong with one: making each an ExpectedItem costs time.
_DEFINITION: Final = ExpectedItem._fields.index("definition_no")
_LIVE: Final = ExpectedItem._fields.index("is_live")


@dataclass(slots=True)
class Expectation:
    """Everything expected, by effective date: `plain` rows, and all others in the `spool`.

    `reads` are its sources, by index. `says_payloads`: a population says payloads of items.
    `version_key` is the key for versions of rows, `share` the greatest share of the time in which
    the pass reads.
    """

    versions: list[DefinitionSpan]
    spool: Spool
    plain: PlainRows
    reads: list[SourceRead]
    failures: list[FailedVersion] = field(default_factory=list[FailedVersion])
    withdrawn: WithdrawalIndex = field(default_factory=WithdrawalIndex)
    withdrawn_later: WithdrawalIndex = field(default_factory=WithdrawalIndex)
    complete: set[KindKey] = field(default_factory=set[KindKey])
    single: set[KindKey] = field(default_factory=set[KindKey])
    horizons: dict[int, datetime] = field(default_factory=dict[int, datetime])
    chained: set[int] = field(default_factory=set[int])
    expedited: set[int] = field(default_factory=set[int])
    triggered: set[int] = field(default_factory=set[int])
    missed: MissedRanges = field(default_factory=dict[int, list[tuple[datetime, datetime]]])
    unmaterialised: list[FailedVersion] = field(default_factory=list[FailedVersion])
    says_payloads: bool = False
    version_key: reconciled_rows.VersionKey = reconciled_rows.NO_VERSIONS
    share: float = 1.0
    _names: dict[int, str] = field(init=False)
    _keys: dict[int, KindKey] = field(init=False)

    def __post_init__(self) -> None:
        self._names = {version.definition_no: version.name for version in self.versions}
        self._keys = {version.definition_no: version.key for version in self.versions}

    def failed_reads(self, tenant: str, kind: str) -> list[SourceRead]:
        """Return the sources of a kind that could not be read: a missing row proves nothing."""
        return [
            read
            for read in self.reads
            if read.failure and (read.kinds is None or (tenant, kind) in read.kinds)
        ]

    @property
    def failed_kinds(self) -> set[KindKey] | None:
        """Return the kinds of sources that could not be read; None if those may be any."""
        failed = [read.kinds for read in self.reads if read.failure]
        return None if None in failed else {key for kinds in failed for key in kinds or ()}

    def is_judged(self, tenant: str, kind: str) -> bool:
        """Return whether every source of the kind could be read."""
        broken = any((failed.tenant, failed.kind) == (tenant, kind) for failed in self.failures)
        return not broken and not self.failed_reads(tenant, kind)

    def is_complete(self, tenant: str, kind: str) -> bool:
        """Return whether a population claims to name all items of the kind, whatever made them.

        A definition names only its own: all that a schedule makes, all that events make.
        """
        return (tenant, kind) in self.complete

    def withdrawals_of(self, subject: ItemSubject) -> Sequence[Withdrawal]:
        """Return what may have ended items of a subject.

        Also what only a version after its receipt reads: it ends none by itself.
        """
        later = self.withdrawn_later.of_subject(subject)
        return [*self.withdrawn.of_subject(subject), *later]

    def is_single(self, tenant: str, kind: str) -> bool:
        """Return whether a source owes one item of the kind for a business key and date."""
        return not self.failed_reads(tenant, kind) and (tenant, kind) in self.single

    @property
    def missed_after(self) -> dict[int, timedelta]:
        """Return after how long an occurrence may be skipped as missed, by version.

        A version whose catch-up owes everything skips none.
        """
        after: dict[int, timedelta] = {}
        for version in self.versions:
            catch_up, smear = version.definition.catch_up, version.definition.smear
            if not catch_up.keeps_all:
                is_counted = catch_up.policy != "all" or catch_up.max_items is not None
                window = timedelta() if is_counted else catch_up.window or timedelta()
                after[version.definition_no] = window - (smear or timedelta())
        return after

    @property
    def replaced_at(self) -> dict[int, datetime]:
        """Return from when on a newer one of their definition replaces versions, by number."""
        return {
            version.definition_no: version.superseded_at
            for version in self.versions
            if version.superseded_at is not None
        }

    def unknown_since(self, as_of: datetime) -> dict[KindKey, tuple[datetime, str]]:
        """Return, by kind, from when on a schedule is not materialised, and its name.

        Of several schedules the one that is furthest behind.
        """
        found: dict[KindKey, tuple[datetime, str]] = {}
        for version in self.versions:
            since = version.unknown_since(as_of)
            if since is not None:
                known = found.get(version.key)
                found[version.key] = min(known or (since, version.name), (since, version.name))
        return found

    def is_population(self, source: int) -> bool:
        """Return whether the source of that index is a population."""
        return source >= FIRST_POPULATION

    def is_explained(self, item: ActualItem, key: KindKey) -> bool:
        """Return whether a person triggered the item of the kind, by name: no source names it."""
        del key
        return item.item_no in self.triggered

    def is_link(self, item: ActualItem, key: KindKey) -> bool:
        """Return whether a fixed delay can have made the item of the kind: no source names it."""
        return self._schedule_of(item, key) in self.chained

    def is_beyond_horizon(self, item: ActualItem, key: KindKey) -> bool:
        """Return whether the item is due after the time up to which its schedule was expanded."""
        horizon = self.horizons.get(self._schedule_of(item, key))
        return horizon is not None and item.due_at >= horizon

    def _schedule_of(self, item: ActualItem, key: KindKey) -> int:
        """Return the number of the schedule that can have made the item of the kind, or else 0."""
        number = item.definition_no or 0
        return number if item.event_no is None and self._keys.get(number) == key else 0

    @property
    def row_counts(self) -> Counter[int]:
        """How many rows are expected on each day."""
        counts = Counter(self.spool.counts)
        counts.update(self.plain.counts)
        return counts

    def read_rows(self, window: DateRange) -> list[SpooledRow]:
        """Return what each source expects in a window beside plain rows, in no particular order."""
        return list(self.spool.read(window.from_day, window.to_day))

    def read_plain(self, window: DateRange) -> PlainWindow:
        """Return the plain rows of a window."""
        days, columns = self.plain.read(window.from_day, window.to_day)
        return PlainWindow(days, columns)

    async def compute_rows(
        self, connection: Connection, plain: PlainWindow, ids: AbstractSet[bytes]
    ) -> list[SpooledRow]:
        """Compute again what plain rows of these items say in full."""
        found: list[SpooledRow] = []
        chosen = plain.choose(ids)
        by_number = {version.definition_no: version for version in self.versions}
        for definition_no, dues in chosen.occurrences.items():
            for start, end in _spans_around(dues):
                version = by_number[definition_no]
                for begin, until in schedule_slices(start, end):
                    for draft, reason in schedule_drafts(version, begin, until):
                        row = occurrence_row(definition_no, draft, reason, is_live=True)
                        if row[ID] in ids:
                            found.append(row)
        rules = ExpectedEventRules(self.versions)
        for begin in range(0, len(chosen.events), EVENTS_A_READ):
            events = await reconciled_rows.list_numbered_events(
                connection, chosen.events[begin : begin + EVENTS_A_READ]
            )
            for event in events:
                rows = event_rows(event, rules.apply(event, Counter()))
                found += [row for row in rows if row[ID] in ids]
        return found

    def merge_rows(self, rows: Iterable[SpooledRow]) -> dict[bytes, SpooledRow]:
        """Return what sources expect together, each item once; all rows of an item are given.

        Where several versions of a definition have a nominal time, at different instants, the row
        of the first has those of the others: each is an issue of its own.
        An item that a population names is owed, also where an event withdrew it, unless the
        population says that it ended.
        """
        found: dict[bytes, SpooledRow] = {}
        implied: dict[bytes, list[SpooledRow]] = {}
        for row in rows:
            if row[SOURCE] == EVENTS:
                implied.setdefault(row[ID], []).append(row)
            else:
                found[row[ID]] = self._with_later(found.get(row[ID]), row)
        for identity, named in implied.items():
            known = found.get(identity)
            is_asserted = known is not None and known[ASSERTED]
            withdrawals = self.withdrawn.of_subject(named[0][SUBJECT])
            if len(named) == 1 and not withdrawals:
                found[identity] = _asserted(named[0], known) if known and is_asserted else named[0]
                continue
            for expected in expected_issues(named, withdrawals):
                found[expected.id] = tuple(expected)
            if known is not None:
                first = ExpectedItem._make(found[identity])
                found[identity] = tuple(
                    first._replace(is_live=known[_LIVE], is_asserted=is_asserted)
                )
        return found

    def _with_later(self, known: SpooledRow | None, row: SpooledRow) -> SpooledRow:
        """Return the row known before, with this one where another version has the same name."""
        if known is None:
            return row
        if row[ASSERTED]:
            return _asserted(known, row)
        if known[SOURCE] != DEFINITIONS:
            return known
        first, number = ExpectedItem._make(known), row[_DEFINITION]
        if first.definition_no == number or (
            self._names[first.definition_no or 0] != self._names[number]
        ):
            return known
        return tuple(first._replace(later=(*first.later, row)))

    async def terms_of(
        self, connection: Connection, missing: Sequence[ExpectedItem]
    ) -> dict[bytes, str]:
        """Return the terms with which missing items have to be emitted."""
        terms: dict[bytes, str] = {}
        by_number = {version.definition_no: version for version in self.versions}
        for expected in missing:
            if expected.source >= FIRST_POPULATION:
                terms[expected.id] = terms_of_population(expected)
            elif expected.source == DEFINITIONS and expected.definition_no in by_number:
                version = by_number[expected.definition_no]
                span = _instant_span(expected, version.definition.smear)
                cycle, issue = split_issue(expected.cycle)
                moved = (drafts_moved_before_change(version, period) for period in version.periods)
                for draft, reason in chain(schedule_drafts(version, *span), *moved):
                    if draft.cycle == cycle and draft.business_key == expected.business_key:
                        terms[expected.id] = terms_of_draft(
                            issue_draft(draft, issue),
                            version.definition_no,
                            None,
                            skip_reason=reason,
                        )
        wanted = {
            (expected.reference, _first_id(expected)): expected
            for expected in missing
            if expected.source == EVENTS
        }
        numbers = sorted({event_no for event_no, _ in wanted if event_no is not None})
        for event_no, definition_no, draft in await self._implied_items(connection, numbers):
            expected = wanted.get((event_no, draft.id.bytes))
            if expected is None:
                continue
            event_terms = terms_of_draft(
                replace(draft, cycle=expected.cycle),
                definition_no,
                event_no,
                skip_reason=MISSED_REASON if expected.is_missed else None,
            )
            terms.setdefault(expected.id, event_terms)
        return terms

    async def named_drafts(
        self, connection: Connection, items: Named
    ) -> dict[int, list[ItemDraft]]:
        """Return, by item number, what the version and the event that a row names make of it."""
        by_number = {version.definition_no: version for version in self.versions}
        return await list_named_drafts(connection, by_number, items)

    async def implied_since(
        self, connection: Connection, items: Sequence[tuple[KindKey, ActualItem]]
    ) -> set[bytes]:
        """Return those of items of a kind whose own events imply them, received during the pass."""
        numbers = sorted({item.event_no for _, item in items if item.event_no is not None})
        implied = {
            (
                (event_no, draft.business_key, draft.cycle, draft.effective_date),
                (draft.tenant, draft.kind),
            )
            for event_no, _, draft in await self._implied_items(connection, numbers)
        }
        return {
            item.id
            for key, item in items
            if (
                (item.event_no, item.business_key, first_cycle(item.cycle), item.effective_date),
                key,
            )
            in implied
        }

    async def _implied_items(
        self, connection: Connection, event_nos: Sequence[int]
    ) -> list[tuple[int, int, ItemDraft]]:
        """Return what these events imply, each with the numbers of its event and definition."""
        rules = ExpectedEventRules(self.versions)
        implied: list[tuple[int, int, ItemDraft]] = []
        for begin in range(0, len(event_nos), EVENTS_A_READ):
            rows = await reconciled_rows.list_numbered_events(
                connection, event_nos[begin : begin + EVENTS_A_READ]
            )
            for row in rows:
                effects = rules.apply(row, Counter())
                implied += [
                    (row["event_no"], effect.definition_no, effect.draft)
                    for effect in effects
                    if effect.draft is not None
                ]
        return implied


def _spans_around(dues: Sequence[int]) -> Iterator[tuple[datetime, datetime]]:
    """Yield spans, in order, that have these instants; of near ones a span has all."""
    ordered = sorted(dues)
    begin = 0
    for place, (due, following) in enumerate(pairwise((*ordered, ordered[-1] + _APART + 1)), 1):
        if following - due > _APART:
            yield instant_of(ordered[begin]), instant_of(due + 1)
            begin = place


def _asserted(row: SpooledRow, asserted: SpooledRow) -> SpooledRow:
    """Return the row of an item that a population names as well, and may say has ended."""
    is_live = row[_LIVE] and asserted[_LIVE]
    return tuple(ExpectedItem._make(row)._replace(is_asserted=True, is_live=is_live))


def _first_id(expected: ExpectedItem) -> bytes:
    """Return the id of the item's first issue."""
    tenant, kind, business_key = expected.tenant, expected.kind, expected.business_key
    day = date.fromordinal(expected.day)
    return item_id(tenant, kind, business_key, first_cycle(expected.cycle), day).bytes


def _instant_span(expected: ExpectedItem, smear: timedelta | None) -> tuple[datetime, datetime]:
    """Return the span of its occurrence: `due_at` is later than it by less than the smear."""
    due_at = instant_of(expected.due_microseconds)
    return due_at - (smear or timedelta()), instant_of(expected.due_microseconds + 1)
