"""Compares a window of dates: in columns first, then one by one what seems to differ."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, final

import numpy as np
import numpy.typing as npt

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.ledger.store.past_load import PastQuarter
from dueledger.reconciler.columns.engine import ComparisonEngine, FlowTally
from dueledger.reconciler.columns.expected_columns import EPOCH_DAY, expected_columns, joined
from dueledger.reconciler.columns.fixed_width import Column, Columns, repeated
from dueledger.reconciler.compare.comparison import (
    NO_FLOW,
    Comparison,
    FlowRules,
    WindowResult,
)
from dueledger.reconciler.compared_items import ID, LATER, KindKey
from dueledger.reconciler.expect.events import WithdrawalIndex
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.expect.expected_rows import agreed_row
from dueledger.reconciler.ledger_flows import LedgerFlows
from dueledger.reconciler.past_load import PastSpan, microseconds_after, past_quarters
from dueledger.reconciler.read.item_columns import WindowColumns
from dueledger.reconciler.read.item_rows import read_outcomes
from dueledger.reconciler.read.open_places import OpenPlaces
from dueledger.reconciler.read_ahead import run_beside
from dueledger.reconciler.tallies import KindTally
from dueledger.reconciler.windows import DateRange

CHUNK_ROWS: Final = 10_000
BY_STATE: Final = 64
"""The differences below it are those of what is owed; those above it, of the item's state."""
UNOWNED: Final = 8_192
"""Of an ending, no item: see `sql/comparison/differences.sql`."""
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_COMPLETED: Final = int(TransitionEvent.COMPLETED)
_MICROSECOND: Final = timedelta(microseconds=1)


@final
class WindowComparer:
    """Compares the windows of a pass, one after another."""

    def __init__(
        self,
        engine: ComparisonEngine,
        expectation: Expectation,
        comparison: Comparison,
        flows: LedgerFlows,
    ) -> None:
        self._engine = engine
        self._expectation = expectation
        self._comparison = comparison
        self._flows = flows
        self._kinds: dict[KindKey, int] = {}
        self._span = PastSpan.of(comparison.as_of)

    def begin(self, places: OpenPlaces) -> None:
        """Take the places of all open items, as they were before any item was read."""
        self._comparison.handed_out = places.handed_out
        self._engine.put("place", {"item_no": places.item_no})
        self._engine.put("parked", {"item_no": places.parked})
        self._engine.put("span", self._span.columns())
        as_of = (self._comparison.as_of - _EPOCH) // _MICROSECOND
        self._engine.put("moment", {"as_of": np.array([as_of], dtype=np.int64)})

    async def compare(
        self, connection: Connection, window: DateRange, actual: WindowColumns
    ) -> tuple[WindowResult, int]:
        """Compare a window; return what differs, and how many items are expected there."""
        comparison, expectation = self._comparison, self._expectation
        flows = await self._flows.meet(connection, np.unique(actual.items["flow"]).tolist())
        self._put_flows(flows)
        rows, plain = expectation.read_rows(window), expectation.read_plain(window)
        withdrawn = expectation.withdrawn
        expected_rows = joined(
            expected_columns(rows, self._kinds, withdrawn.has_subject),
            plain.as_expected(self._kinds_of_definitions(), _hashes_of(withdrawn)),
        )
        expected_rows["is_repeated"] = repeated(expected_rows["low"])
        self._engine.put("expected", expected_rows)
        self._engine.put("item", actual.items)
        self._engine.put("ending", actual.endings)
        self._engine.put("journal", actual.journal)
        self._engine.put("held", actual.held)
        compared = await run_beside(self._engine.compare)
        candidates = Candidates(compared.candidates)
        rows = [row for row in rows if row[ID] in candidates.ids]
        unsure = candidates.differing_ids.union(row[ID] for row in rows)
        rows += await expectation.compute_rows(connection, plain, unsure)
        expected = expectation.merge_rows(rows)
        agreed = candidates.owed_ids - unsure
        count = len(agreed) + sum(1 + len(row[LATER]) for row in expected.values())
        judged = comparison.compare_window(expected)
        for flow_no, tally in compared.tallies.items():
            flow = flows[flow_no]
            _add_tally(judged.result.tallies[flow.key], tally)
            count += tally.owed
            if tally.next_due is not None:
                judged.result.note_change(_EPOCH + timedelta(microseconds=tally.next_due))
        judged.result.past = self._past_of(compared.past)
        if (actual.items["due"] >= microseconds_after(self._span.before)).any():
            judged.result.note_change(self._span.before)
        judged.result.unowned_endings = candidates.unowned_endings
        judged.result.unproven = compared.unproven
        judged.result.unrecorded = compared.unrecorded
        for chunk in candidates.chunks():
            outcomes = await read_outcomes(
                connection, chunk, says_payloads=expectation.says_payloads
            )
            judged.expected.update(
                (item.id, agreed_row(item, flows[item.flow_no].key))
                for item in outcomes
                if item.id in agreed
            )
            judged.add(outcomes)
        result = judged.finish()
        await _judge_overlapped(connection, result)
        return result, count

    def _past_of(self, past: Columns) -> list[PastQuarter]:
        found = past_quarters(past, list(self._kinds))
        return [each for each in found if (each.tenant, each.kind) != NO_FLOW.key]

    def _kinds_of_definitions(self) -> dict[int, int]:
        return {
            version.definition_no: self._kinds[version.key]
            for version in self._expectation.versions
        }

    def _put_flows(self, flows: Mapping[int, FlowRules]) -> None:
        for key in (
            *(flow.key for flow in flows.values()),
            *(version.key for version in self._expectation.versions),
        ):
            self._kinds.setdefault(key, len(self._kinds))
        self._engine.put("flow", _flow_columns(flows, self._kinds))


async def _judge_overlapped(connection: Connection, result: WindowResult) -> None:
    """Move to `unexcused` what ended for overlap while no other item of its key was open."""
    for begin in range(0, len(result.overlapped), CHUNK_ROWS):
        chunk = result.overlapped[begin : begin + CHUNK_ROWS]
        lone = await reconciled_rows.list_lone_overlaps(
            connection, [(item.effective_date, item.item_no) for item in chunk]
        )
        result.unexcused += [item for item in chunk if item.item_no in lone]


def _flow_columns(flows: Mapping[int, FlowRules], kinds: Mapping[KindKey, int]) -> Columns:
    return {
        "flow": np.array(list(flows), dtype=np.int64),
        "kind": np.array([kinds[flow.key] for flow in flows.values()], dtype=np.int64),
        "grace": np.array([flow.grace // _MICROSECOND for flow in flows.values()], dtype=np.int64),
        "is_single": np.array([flow.is_single for flow in flows.values()], dtype=np.int64),
        "needs_evidence": np.array(
            [flow.needs_evidence for flow in flows.values()], dtype=np.int64
        ),
    }


def _add_tally(tally: KindTally, counted: FlowTally) -> None:
    """Add the items of a flow that are right."""
    completed = counted.items - counted.open
    tally.expected += counted.items
    tally.unchecked += counted.items - counted.owed
    tally.undated += counted.items - counted.owed
    tally.untermed += counted.items - counted.termed
    tally.open += counted.open
    tally.not_due += counted.open
    tally.hash_total += counted.hash_total
    if completed:
        tally.ended[_COMPLETED] += completed
    lateness = tally.lateness
    for step, (items, greatest) in counted.lateness.items():
        lateness.count += items
        lateness.steps[step] += items
        lateness.greatest_seconds = max(lateness.greatest_seconds, greatest / 1e6)


def _hashes_of(withdrawn: WithdrawalIndex) -> Column:
    return np.array(list(withdrawn.digests), dtype=np.int64)


@final
class Candidates:
    """The pairs that are judged one by one, as columns."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        halves = np.stack([columns["high"], columns["low"]], axis=1).astype(">i8")
        self._ids = list(map(bytes, halves.view("V16").ravel()))
        self.ids = set(self._ids)

    @property
    def differing_ids(self) -> set[bytes]:
        """The ids of items that do not exist, or are not what one source says alone."""
        columns = self._columns
        return self._chosen((columns["item_no"] < 0) | (columns["differences"] % BY_STATE > 0))

    @property
    def owed_ids(self) -> set[bytes]:
        """The ids of what a source names."""
        return self._chosen(self._columns["is_owed"] == 1)

    @property
    def unowned_endings(self) -> int:
        """How many endings have no item."""
        return int((self._columns["differences"] == UNOWNED).sum())

    def chunks(self) -> Iterable[list[tuple[date, int]]]:
        """Yield the candidates that are items, by date and number, in that order."""
        columns = self._columns
        exists = (columns["item_no"] >= 0) & (columns["differences"] < UNOWNED)
        items = sorted(
            zip(columns["day"][exists].tolist(), columns["item_no"][exists].tolist(), strict=True)
        )
        for begin in range(0, len(items), CHUNK_ROWS):
            yield [
                (date.fromordinal(day + EPOCH_DAY), item_no)
                for day, item_no in items[begin : begin + CHUNK_ROWS]
            ]

    def _chosen(self, mask: npt.NDArray[np.bool_]) -> set[bytes]:
        return {self._ids[place] for place in np.flatnonzero(mask)}
