"""Findings of one window. Items that may have been emitted meanwhile are looked up again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from time import monotonic
from typing import Final
from uuid import UUID

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, Record, items, reconciled_rows
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.reconciled_runs import list_unrecorded_endings
from dueledger.reconciler.compare.comparison import WindowResult
from dueledger.reconciler.compared_items import ActualItem, ExpectedItem, KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.expect.item_terms import terms_of_population
from dueledger.reconciler.find import item_findings
from dueledger.reconciler.find.chain_findings import find_loose_links
from dueledger.reconciler.find.findings import unowned_ending
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.find.wrong_terms import find_wrong_terms
from dueledger.reconciler.ledger_flows import LedgerFlows
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.sources import (
    EvidenceQuery,
    EvidenceReader,
    SourceFailed,
    SourceRead,
    SourceTotals,
)
from dueledger.reconciler.windows import DateRange

CHUNK_ROWS: Final = 10_000
_NEAR: Final = timedelta(days=40)
EFFECT_TYPES: Final = (
    FindingType.EFFECT_MISSING,
    FindingType.EFFECT_UNRECORDED,
    FindingType.EFFECT_REPEATED,
)
STATES: Final = ("waiting", "parked", "handed_out", "ended")


class EvidenceChecks:
    """The evidence sources of a pass, by kind, and how each was read.

    `unjudged` are the type, tenant and kind of findings that could not be checked because a source
    failed.
    """

    def __init__(self, evidence: Sequence[EvidenceReader]) -> None:
        self.by_kind: defaultdict[KindKey, list[EvidenceReader]] = defaultdict(list)
        self.reads: dict[str, SourceRead] = {}
        self.unjudged: set[tuple[str, str, str]] = set()
        for each in evidence:
            self.by_kind[each.tenant, each.kind].append(each)
            self.reads[each.name] = SourceRead(
                each.name, "evidence", each.digest, kinds=frozenset({(each.tenant, each.kind)})
            )

    def mark_unjudged(self, source: EvidenceReader) -> None:
        """Note that nothing is concluded from a source, which failed."""
        self.unjudged |= {(type_, source.tenant, source.kind) for type_ in EFFECT_TYPES}

    def checked_kinds(self) -> set[KindKey]:
        """Return the kinds whose sources could all be read."""
        return {
            key
            for key, sources in self.by_kind.items()
            if all(self.reads[each.name].failure is None for each in sources)
        }

    def kinds_both_ways(self) -> set[KindKey]:
        """Return the checked kinds of which all effects were read, too."""
        return {
            key for key in self.checked_kinds() if all(each.complete for each in self.by_kind[key])
        }


class AbsentItems:
    """Items that do not exist and that findings of the pass name: by id, or else by number."""

    def __init__(self) -> None:
        self.ids: set[bytes] = set()
        self.numbers: set[int] = set()


class WindowFindings:
    """Turns the results of windows into findings."""

    def __init__(
        self,
        expectation: Expectation,
        flows: LedgerFlows,
        evidence: EvidenceChecks,
        result: PassResult,
        *,
        recorder: FindingRecorder,
        findings_max: int,
    ) -> None:
        self._expectation = expectation
        self._flows = flows
        self._evidence = evidence
        self._result = result
        self._recorder = recorder
        self._findings_max = findings_max
        self.unbalanced: set[KindKey] = set()
        """Kinds of which an item was found to have no state or two."""
        self.absent = AbsentItems()
        self.contradicted: set[bytes] = set()
        """Items that were found to have no state or two, or to have ended otherwise than a run."""

    async def record(self, connection: Connection, dates: DateRange, window: WindowResult) -> None:
        """Turn what differs in a window of dates into findings and record them."""
        expectation, result = self._expectation, self._result
        flows = self._flows.rules
        missing = await self._still_missing(connection, window.missing)
        self.absent.ids.update(each.id for each in missing[: self._findings_max])
        for expected in missing:
            result.missing[expected.tenant, expected.kind] += 1
            tally = result.comparison.tallies[expected.tenant, expected.kind]
            tally.expected += 1
        terms = await expectation.terms_of(connection, missing[: self._findings_max])
        self._recorder.add(
            item_findings.missing(
                expected,
                expectation.reads[expected.source].name,
                terms.get(expected.id)
                or (
                    terms_of_population(expected)
                    if expectation.is_population(expected.source)
                    else None
                ),
            )
            for expected in missing
        )
        explained = await expectation.implied_since(
            connection, [(flows[item.flow_no].key, item) for item in window.unexpected]
        )
        for item in window.unexpected:
            flow = flows[item.flow_no]
            if item.id in explained:
                result.comparison.tallies[flow.tenant, flow.kind].expected += 1
                continue
            result.unexpected[flow.tenant, flow.kind] += 1
            self._recorder.add((item_findings.unexpected(item, flow),))
        tallies = result.comparison.tallies
        self._recorder.add(
            await find_wrong_terms(
                connection, expectation, flows, window.differing, tallies=tallies
            )
        )
        self._recorder.add(
            item_findings.misnamed(item, flows[item.flow_no]) for item in window.misnamed
        )
        if window.recorded_later:
            now = await read_now(connection)
            self._recorder.add(
                item_findings.recorded_in_future(item, flows[item.flow_no], now)
                for item in window.recorded_later
                if max(item.emitted_at, item.ended_at or item.emitted_at) > now
            )
        loose = await find_loose_links(connection, window.links)
        window.loose = len(loose)
        for item in loose:
            flow = flows[item.flow_no]
            result.unexpected[flow.key] += 1
            result.comparison.tallies[flow.key].expected -= 1
            self._recorder.add((item_findings.unexpected(item, flow),))
        for pair in window.duplicates:
            flow = flows[pair.extra.flow_no]
            result.unexpected[flow.tenant, flow.kind] += 1
            self._recorder.add((item_findings.duplicate(pair, flow),))
        self._recorder.add(item_findings.late(item, flows[item.flow_no]) for item in window.late)
        await self._find_misplaced(connection, window.misplaced)
        if window.unowned_endings:
            await self._find_unowned(connection, dates)
        await self._find_withdrawn(connection, window.withdrawn)
        await self._find_conflicts(connection, dates, window)
        await self._find_overdue(connection, window.overdue)
        await self._find_missing_effects(window.evidenced)
        await self._recorder.flush(connection)

    async def _still_missing(
        self, connection: Connection, missing: Sequence[ExpectedItem]
    ) -> list[ExpectedItem]:
        """Return those that were not emitted meanwhile and did not end years ago.

        One whose row has another date, in a window of its own, is a finding there and not missing.
        Of more than a pass lists, the others are only counted, and not searched for.
        """
        found: set[bytes] = set()
        for begin in range(0, len(missing), CHUNK_ROWS):
            ids = [UUID(bytes=each.id) for each in missing[begin : begin + CHUNK_ROWS]]
            found |= await items.find_known_ids(connection, ids)
            absent = [each for each in ids if each.bytes not in found]
            if absent and begin < self._findings_max:
                found |= await items.find_misdated_ids(connection, absent)
        return [expected for expected in missing if expected.id not in found]

    async def _find_misplaced(
        self, connection: Connection, misplaced: Sequence[ActualItem]
    ) -> None:
        """Count the states of items again, all at one time."""
        flows = self._flows.rules
        for begin in range(0, len(misplaced), CHUNK_ROWS):
            chunk = misplaced[begin : begin + CHUNK_ROWS]
            counted = await reconciled_rows.count_places(
                connection, [(item.effective_date, item.item_no) for item in chunk]
            )
            for item in chunk:
                places = counted.get(item.item_no)
                if places is None:
                    continue
                states = {name: places[name] for name in STATES}
                if sum(states.values()) != 1:
                    flow = flows[item.flow_no]
                    self.unbalanced.add((flow.tenant, flow.kind))
                    self.contradicted.add(item.id)
                    self._recorder.add((item_findings.misplaced(item, flow, states),))

    async def _find_unowned(self, connection: Connection, dates: DateRange) -> None:
        """Find endings whose item does not exist, all at one time."""
        unowned = await reconciled_rows.list_unowned_endings(
            connection, dates.from_date, dates.to_date, self._recorder.row_max
        )
        self.absent.numbers.update(row["item_no"] for row in unowned)
        self._recorder.add(map(unowned_ending, unowned))

    async def _find_withdrawn(
        self, connection: Connection, withdrawn: Sequence[ActualItem]
    ) -> None:
        """Find items that wait or are parked, although an event ended them."""
        flows = self._flows.rules
        for begin in range(0, len(withdrawn), CHUNK_ROWS):
            chunk = withdrawn[begin : begin + CHUNK_ROWS]
            counted = await reconciled_rows.count_places(
                connection, [(item.effective_date, item.item_no) for item in chunk]
            )
            self._recorder.add(
                item_findings.withdrawn(item, flows[item.flow_no], {"waiting": row["waiting"]})
                if row["waiting"]
                else item_findings.withdrawn(item, flows[item.flow_no], {"parked": row["parked"]})
                for item in chunk
                if (row := counted.get(item.item_no)) is not None
                and (row["waiting"] or row["parked"])
                and not row["ended"]
                and not row["is_requested"]
            )

    async def _find_conflicts(
        self, connection: Connection, dates: DateRange, window: WindowResult
    ) -> None:
        """Find items that were completed too early, or not as their runs have it."""
        flows = self._flows.rules
        self._recorder.add(
            item_findings.premature(item, flows[item.flow_no]) for item in window.premature
        )
        self._recorder.add(
            item_findings.unexcused(item, flows[item.flow_no]) for item in window.unexcused
        )
        span, row_max = (dates.from_date, dates.to_date), self._recorder.row_max
        conflicts = unrecorded = list[Record]()
        if window.unproven:
            conflicts = await reconciled_rows.list_contradicted_endings(
                connection, *span, window.unproven, row_max
            )
        if window.unrecorded:
            run_nos = sorted({run_no for run_no, _ in window.unrecorded})
            # Most items are worked when they fall due, and dates are near that.
            around = tuple(datetime.combine(day, time(), UTC) for day in span)
            near = around[0] - _NEAR, around[1] + _NEAR
            unrecorded = await list_unrecorded_endings(connection, run_nos, near, row_max)
        for rows in (conflicts, unrecorded):
            self._recorder.note_list(rows, FindingType.OUTCOME_CONFLICT)
        unrecorded = [row for row in unrecorded if dates.has(row["effective_date"].toordinal())]
        window.conflicts = len(conflicts) + len(unrecorded)
        numbers = (row["flow_no"] for row in (*conflicts, *unrecorded))
        flows = await self._flows.meet(connection, numbers)
        shown = {item.id for item in window.premature}
        # One without its ending has no state: that is its finding.
        stateless = {item.id for item in window.misplaced}
        rows = [*conflicts, *(row for row in unrecorded if row["id"] not in stateless)]
        self._recorder.add(
            item_findings.contradicted(row, flows[row["flow_no"]])
            for row in {row["id"]: row for row in reversed(rows)}.values()
            if row["id"] not in shown
        )
        self.contradicted.update(shown, (row["id"] for row in rows))

    async def _find_overdue(self, connection: Connection, overdue: Sequence[ActualItem]) -> None:
        """Add findings of overdue items; those beyond the cap of their kind are not looked up."""
        result, flows = self._result, self._flows.rules
        shown: list[ActualItem] = []
        listed: Counter[KindKey] = Counter()
        for item in overdue:
            key = (flows[item.flow_no].tenant, flows[item.flow_no].kind)
            if listed[key] < self._recorder.findings_left(FindingType.OVERDUE, key):
                listed[key] += 1
                shown.append(item)
            else:
                result.omitted[FindingType.OVERDUE, *key] += 1
                result.found[FindingType.OVERDUE] += 1
        for begin in range(0, len(shown), CHUNK_ROWS):
            chunk = shown[begin : begin + CHUNK_ROWS]
            descriptions = await reconciled_rows.describe_open_items(
                connection, [item.item_no for item in chunk]
            )
            self._recorder.add(
                item_findings.overdue(
                    item, flows[item.flow_no], described, result.as_of - item.due_at
                )
                for item, described in zip(chunk, descriptions, strict=True)
            )

    async def _find_missing_effects(self, completed: Sequence[ActualItem]) -> None:
        flows = self._flows.rules
        by_kind: defaultdict[KindKey, list[ActualItem]] = defaultdict(list)
        for item in completed:
            flow = flows[item.flow_no]
            by_kind[flow.tenant, flow.kind].append(item)
        for key, done in by_kind.items():
            slowest = max(evidence.after_seconds for evidence in self._evidence.by_kind[key])
            before = self._result.as_of - timedelta(seconds=slowest)
            self._result.looked_up[key] += sum(
                item.ended_at is not None and item.ended_at <= before for item in done
            )
            for evidence in self._evidence.by_kind[key]:
                read = self._evidence.reads[evidence.name]
                if read.failure is None:
                    await self._find_missing_effects_of_kind(evidence, read, done)

    async def _find_missing_effects_of_kind(
        self,
        evidence: EvidenceReader,
        read: SourceRead,
        completed: Sequence[ActualItem],
    ) -> None:
        flows = self._flows.rules
        before = self._result.as_of - timedelta(seconds=evidence.after_seconds)
        wanted = {item.id: item for item in completed if item.ended_at and item.ended_at <= before}
        began = monotonic()
        try:
            lacking = await evidence.find_lacking(
                [
                    EvidenceQuery(item.id, item.business_key, item.cycle, item.effective_date)
                    for item in wanted.values()
                ],
                SourceTotals() if evidence.complete else read.extract,
            )
        except SourceFailed as failure:
            read.failure = failure.reason
            self._evidence.mark_unjudged(evidence)
            return
        finally:
            read.duration_seconds += monotonic() - began
        self._recorder.add(
            item_findings.effect_missing(wanted[lack.id], flows[wanted[lack.id].flow_no], evidence)
            for lack in lacking
        )
