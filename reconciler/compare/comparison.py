"""Compare what was expected with the items of the ledger, one window at a time. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.identity import item_id, total_of
from dueledger.ledger.rules.event_issues import first_cycle, microseconds_of
from dueledger.ledger.rules.schedule_drafts import reissue_cycle, split_issue
from dueledger.ledger.store.past_load import PastQuarter
from dueledger.reconciler.compare.agreement import (
    COMPLETED,
    EXPLAINING,
    SUPERSEDED,
    WITHDRAWN,
    EndingGrounds,
    Excuse,
    agrees,
    find_excuse,
    says_terms,
)
from dueledger.reconciler.compared_items import (
    ASSERTED,
    LATER,
    ActualItem,
    ExpectedItem,
    KindKey,
)
from dueledger.reconciler.tallies import KindTally, no_tallies

_DEFINITION: Final = ExpectedItem._fields.index("definition_no")
_REFERENCE: Final = ExpectedItem._fields.index("reference")
_LIVE: Final = ExpectedItem._fields.index("is_live")
_MOMENT: Final = ExpectedItem._fields.index("moment")


@dataclass(frozen=True, slots=True)
class FlowRules:
    """What the comparison needs to know about the flow of an item.

    `is_judged`: every source of the kind could be read. Then an item that says which definition
    or event made it is UNEXPECTED if none names it; `is_complete`: so is one that a service
    emitted. `is_single`: a source of the kind owes one item for a business key and effective date.
    `needs_evidence`: a completed item needs evidence from outside.
    """

    tenant: str
    kind: str
    grace: timedelta
    is_judged: bool
    is_complete: bool
    is_single: bool
    needs_evidence: bool

    @property
    def key(self) -> KindKey:
        """Return tenant and kind."""
        return self.tenant, self.kind

    def is_claimed(self, item: ActualItem) -> bool:
        """Return whether a source claims to name all items that were made as this one was."""
        is_emitted = item.definition_no is None and item.event_no is None
        return self.is_judged and (self.is_complete or not is_emitted)


NO_FLOW: Final = FlowRules(
    WHOLE_LEDGER,
    "unknown kind",
    timedelta(),
    is_judged=False,
    is_complete=False,
    is_single=False,
    needs_evidence=False,
)
"""In place of the flow of an item whose number no flow has, as only an edit can write it."""


class OwedItem(NamedTuple):
    """An item that an event or a population names; `is_asserted`: a population does."""

    item: ActualItem
    is_asserted: bool


Occurrence = tuple[int, str, date]
"""Number of the flow, business key and effective date."""


class DuplicatePair(NamedTuple):
    """Two items for one business occurrence; `extra` is the one that should not exist."""

    kept: ActualItem
    extra: ActualItem


class DifferingItem(NamedTuple):
    """An item that may not say what it should: its terms are still to be compared by field."""

    actual: ActualItem
    expected: ExpectedItem


@dataclass(slots=True)
class WindowResult:
    """The result of one window's comparison, before anything is looked up or recorded.

    `deferred` counts items that no source names and that a later pass decides about. `misnamed` are
    items whose id is not that of their row; `misplaced` those that seem to have no state or two;
    `premature` were completed too early, `unexcused` ended otherwise for no reason that counts,
    `overlapped` for another item of their key (the reader says whether there was one), and
    `withdrawn` are open although an event ended them; `links` are open ones of fixed delays (the
    reader says which lead to no next one, and `loose` counts these); `recorded_later` are those
    emitted or ended after the pass began, as their rows say. `unowned_endings` counts what ended no
    item, `unproven` are the numbers of items with a transition that has no run, or is not as its
    run has it, and `unrecorded` the runs and numbers of those that a run held and of which no
    transition says how they ended there; `conflicts` counts those of both that are findings, once
    repairs and rows were asked for.
    `changes_at` is the first instant at which an open item becomes due or overdue, or at which
    items are due of which the past load does not tell yet; `past` is what it tells.
    """

    missing: list[ExpectedItem] = field(default_factory=list[ExpectedItem])
    unexpected: list[ActualItem] = field(default_factory=list[ActualItem])
    duplicates: list[DuplicatePair] = field(default_factory=list[DuplicatePair])
    differing: list[DifferingItem] = field(default_factory=list[DifferingItem])
    misnamed: list[ActualItem] = field(default_factory=list[ActualItem])
    misplaced: list[ActualItem] = field(default_factory=list[ActualItem])
    premature: list[ActualItem] = field(default_factory=list[ActualItem])
    unexcused: list[ActualItem] = field(default_factory=list[ActualItem])
    overlapped: list[ActualItem] = field(default_factory=list[ActualItem])
    withdrawn: list[ActualItem] = field(default_factory=list[ActualItem])
    links: list[ActualItem] = field(default_factory=list[ActualItem])
    recorded_later: list[ActualItem] = field(default_factory=list[ActualItem])
    overdue: list[ActualItem] = field(default_factory=list[ActualItem])
    late: list[ActualItem] = field(default_factory=list[ActualItem])
    evidenced: list[ActualItem] = field(default_factory=list[ActualItem])
    unowned_endings: int = 0
    unproven: list[int] = field(default_factory=list[int])
    unrecorded: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    conflicts: int = 0
    loose: int = 0
    deferred: int = 0
    changes_at: datetime | None = None
    past: list[PastQuarter] = field(default_factory=list[PastQuarter])
    tallies: defaultdict[KindKey, KindTally] = field(default_factory=no_tallies)

    def note_change(self, changes_at: datetime) -> None:
        """Keep the first instant at which the window is to be read again."""
        if self.changes_at is None or changes_at < self.changes_at:
            self.changes_at = changes_at

    @property
    def is_settled(self) -> bool:
        """Return whether nothing differs and nothing is left to check."""
        return not (
            self.missing
            or self.unexpected
            or self.duplicates
            or self.differing
            or self.misnamed
            or self.misplaced
            or self.premature
            or self.unexcused
            or self.withdrawn
            or self.recorded_later
            or self.overdue
            or self.evidenced
            or self.unowned_endings
            or self.conflicts
            or self.loose
            or self.deferred
        )


@dataclass(slots=True)
class Comparison:
    """The tallies of all windows of a pass.

    `as_of` is business time at the start of the pass: items emitted later are not checked. For an
    item that no source names, and its kind, `explained` returns whether it is no finding, now or
    later; `deferred` returns whether it cannot be checked yet, `is_link` whether it is of a fixed
    delay. By number, `expedited` are items
    that a person let be worked before they are due, `handed_out` those in claims and runs before
    any item was read. `grounds` is what may end items.
    """

    as_of: datetime
    flows: Mapping[int, FlowRules]
    explained: Callable[[ActualItem, KindKey], bool]
    deferred: Callable[[ActualItem, KindKey], bool]
    expedited: AbstractSet[int] = frozenset()
    handed_out: AbstractSet[int] = frozenset()
    is_link: Callable[[ActualItem, KindKey], bool] = lambda _, __: False
    grounds: EndingGrounds = field(default_factory=EndingGrounds)
    tallies: defaultdict[KindKey, KindTally] = field(default_factory=no_tallies)

    def compare_window(self, expected: dict[bytes, tuple[Any, ...]]) -> "WindowComparison":
        """Begin a window; `expected` has ExpectedItem tuples by id, and is consumed."""
        return WindowComparison(self, expected)

    def merge(self, tallies: Mapping[KindKey, KindTally]) -> None:
        """Add the tallies of a part of the ledger; parts come by ascending effective date."""
        for key, tally in tallies.items():
            self.tallies[key].merge(tally)


@dataclass(slots=True)
class WindowComparison:
    """One window: add the ledger's items a chunk at a time, then finish."""

    whole: Comparison
    expected: dict[bytes, tuple[Any, ...]]
    result: WindowResult = field(default_factory=WindowResult)
    owed: dict[Occurrence, OwedItem | None] = field(
        default_factory=dict[Occurrence, OwedItem | None]
    )
    unnamed: list[ActualItem] = field(default_factory=list[ActualItem])
    misnamed: list[tuple[ActualItem, bytes]] = field(default_factory=list[tuple[ActualItem, bytes]])

    def add(self, chunk: Sequence[ActualItem]) -> None:
        """Match items with what was expected, and count each by its state."""
        whole, result = self.whole, self.result
        for item in chunk:
            flow = whole.flows[item.flow_no]
            if flow is NO_FLOW:
                result.misnamed.append(item)
                continue
            self._count_item(item, flow, result.tallies[flow.key])
            if max(item.emitted_at, item.ended_at or item.emitted_at) > whole.as_of:
                result.recorded_later.append(item)
            own = item_id(
                flow.tenant, flow.kind, item.business_key, item.cycle, item.effective_date
            )
            if own.bytes == item.id:
                self._match(item, item.id)
            else:
                result.misnamed.append(item)
                self.misnamed.append((item, own.bytes))

    def _match(self, item: ActualItem, identity: bytes) -> None:
        """Match an item with what is expected under an id."""
        flow = self.whole.flows[item.flow_no]
        tally = self.result.tallies[flow.key]
        row = self.expected.pop(identity, None)
        is_excused = self._judge_ending(item, row, flow)
        if row is not None:
            tally.expected += 1
            tally.untermed += not says_terms(row)
            self._judge(item, row)
            if flow.is_single and item.event not in EXPLAINING:
                self._note_owed(item, row)
            is_older = item.event in WITHDRAWN or item.definition_no != row[_DEFINITION]
            if row[LATER] or (is_excused and is_older):
                self._expect_next_issue(item, row)
        elif identity != item.id:  # it is a finding by its name
            tally.expected += 1
        elif flow.is_single and item.event not in EXPLAINING:
            self.unnamed.append(item)
        else:
            self._judge_unnamed(item, flow, tally)

    def _match_misnamed(self) -> None:
        """Match the items whose ids are not those of their rows, after all others.

        A source may expect one under the id that it has, or under that of what its row says.
        """
        for item, own in self.misnamed:
            self._match(item, item.id if item.id in self.expected else own)

    def _judge(self, item: ActualItem, row: tuple[Any, ...]) -> None:
        """Note whether an item says what its source does, and is open although it is not owed."""
        if not agrees(item, row):
            self.result.differing.append(DifferingItem(item, ExpectedItem._make(row)))
        if not row[_LIVE] and item.places and (row[_REFERENCE] is not None or row[ASSERTED]):
            self.result.withdrawn.append(item)

    def _judge_ending(self, item: ActualItem, row: tuple[Any, ...] | None, flow: FlowRules) -> bool:
        """Return whether an item may have ended as it did, and note it where it may not."""
        if item.event in (None, COMPLETED) or item.ended_at is None or not flow.is_judged:
            return True
        if item.ended_at > self.whole.as_of:  # by what was not read
            self.result.deferred += 1
            return True
        subject = (flow.tenant, flow.kind, item.business_key)
        match find_excuse(item, row, self.whole.grounds, subject):
            case Excuse.GIVEN:
                return True
            case Excuse.OVERLAP:
                self.result.overlapped.append(item)
                return True
            case Excuse.TZDATA:
                self.result.tallies[flow.key].undated += 1
                return True
            case Excuse.NONE:
                self.result.unexcused.append(item)
                return False

    def _expect_next_issue(self, item: ActualItem, row: tuple[Any, ...]) -> None:
        """Expect the next issue of a nominal time of a schedule, where this item is not the last.

        Each version that has the nominal time at an instant of its own has an issue; so has an
        occurrence that is owed although it was withdrawn. A skipped occurrence, or the item of an
        older version, needs no next issue, but a newer tz database or version may have made one.
        Items come in the order of their numbers and all issues have the same date, so the next
        issue comes after the one before.
        """
        first = ExpectedItem._make(row)
        if first.definition_no is None or first.reference is not None:
            return
        owed = [first._replace(later=()), *map(ExpectedItem._make, first.later)]
        at = microseconds_of(item.due_at)
        own = [each for each in owed if each.definition_no == item.definition_no]
        own = own or [each for each in owed if each.due_microseconds == at]
        was = (own or owed)[0]
        owed.remove(was)
        issue = split_issue(first.cycle)[1]
        ended = item.ended_at is not None and item.ended_at <= self.whole.as_of
        if ended and item.event in WITHDRAWN:
            if was.is_live or issue > 1:
                live = item.event == SUPERSEDED and not was.is_tolerated
                owed.append(was._replace(is_live=live))
        elif not own and item.definition_no is not None:
            owed.append(was._replace(is_live=False, is_tolerated=True))
        if owed:
            following = _issues(owed, issue + 1)
            head = following[0]._replace(later=tuple(map(tuple, following[1:])))
            self.expected[head.id] = tuple(head)

    def finish(self) -> WindowResult:
        """Return what has no match on either side, and add the window's tallies to the pass."""
        result = self.result
        self._match_misnamed()
        for item in self.unnamed:
            kept = self._duplicated(item)
            if kept is None:
                flow = self.whole.flows[item.flow_no]
                self._judge_unnamed(item, flow, result.tallies[flow.key])
            else:
                result.duplicates.append(DuplicatePair(kept, item))
        self.whole.merge(result.tallies)
        for row in map(ExpectedItem._make, self.expected.values()):
            if row.later:
                owed = [row, *map(ExpectedItem._make, row.later)]
                live = [each for each in owed if each.is_live]
                result.missing += _issues(live, split_issue(row.cycle)[1])
            elif row.is_live:
                result.missing.append(row)
        return result

    def _note_owed(self, item: ActualItem, row: tuple[Any, ...]) -> None:
        """Keep an item that an event or population owes; None if two of its key and date are."""
        if not row[_LIVE] or (row[_MOMENT] is None and not row[ASSERTED]):
            return
        place = (item.flow_no, item.business_key, item.effective_date)
        known = self.owed.setdefault(place, OwedItem(item, row[ASSERTED]))
        # Both were owed, one after the other, if an event reinstated it.
        if known is not None and first_cycle(known.item.cycle) != first_cycle(item.cycle):
            self.owed[place] = None

    def _duplicated(self, item: ActualItem) -> ActualItem | None:
        """Return the item that is owed for the key and date of one that no source names.

        A population owes one item, whatever made the others; an event rule owes one of those that
        events made.
        """
        owed = self.owed.get((item.flow_no, item.business_key, item.effective_date))
        if owed is None or first_cycle(owed.item.cycle) == first_cycle(item.cycle):
            return None
        return owed.item if owed.is_asserted or item.event_no is not None else None

    def _judge_unnamed(self, item: ActualItem, flow: FlowRules, tally: KindTally) -> None:
        """Count an item that no source names, and report it where a source claims to name all."""
        whole, result = self.whole, self.result
        if item.event not in EXPLAINING:
            tally.undated += 1
            tally.untermed += 1
        if not flow.is_claimed(item):
            tally.expected += 1
            tally.unchecked += 1
        elif item.event in EXPLAINING or whole.explained(item, flow.key):
            tally.expected += 1
        elif whole.is_link(item, flow.key):
            tally.expected += 1
            if item.ended_at is None:
                result.links.append(item)
            else:
                tally.unchecked += 1
        elif item.emitted_at >= whole.as_of or whole.deferred(item, flow.key):
            tally.expected += 1
            result.deferred += 1
        else:
            result.unexpected.append(item)

    def _count_item(self, item: ActualItem, flow: FlowRules, tally: KindTally) -> None:
        """Count the item by its state, and note whether it is overdue or late."""
        whole, result = self.whole, self.result
        tally.hash_total += total_of(item.id)
        due_at, ended_at = item.due_at, item.ended_at
        if item.places + (item.item_no in whole.handed_out) != (ended_at is None):
            result.misplaced.append(item)
        if ended_at is None:
            tally.open += 1
            changes_at = due_at
            if due_at > whole.as_of:
                tally.not_due += 1
            elif (changes_at := due_at + flow.grace) < whole.as_of:
                tally.overdue += 1
                result.overdue.append(item)
            else:
                tally.block_watermark(due_at, item.id)
            result.note_change(changes_at)
            return
        event = item.event or 0
        tally.ended[event] += 1
        if event != COMPLETED:
            return
        if ended_at < item.emitted_at or (
            ended_at < due_at and item.item_no not in whole.expedited
        ):
            result.premature.append(item)
        tally.lateness.add((ended_at - due_at).total_seconds())
        if ended_at > (item.complete_by or due_at + flow.grace):
            tally.lateness.late_count += 1
            result.late.append(item)
        if flow.needs_evidence:
            result.evidenced.append(item)


def _issues(owed: Sequence[ExpectedItem], first: int) -> list[ExpectedItem]:
    """Return rows of one nominal time as successive issues of it, from the number `first` on."""
    found: list[ExpectedItem] = []
    for issue, each in enumerate(owed, first):
        cycle = reissue_cycle(split_issue(each.cycle)[0], issue)
        day = date.fromordinal(each.day)
        identity = item_id(each.tenant, each.kind, each.business_key, cycle, day).bytes
        found.append(each._replace(id=identity, cycle=cycle, later=()))
    return found
