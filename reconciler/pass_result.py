"""The scope of a pass, its limits, and its result."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from dueledger.ledger.finding_types import FINDING_RULES, FindingType, Resolution
from dueledger.ledger.store import items, passes
from dueledger.reconciler.compare.comparison import Comparison
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.event_backlog import EventBacklog
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.sources import SourceRead
from dueledger.reconciler.windows import DateRange

FIRST_DATE: Final = date(1970, 1, 1)
END_DATE: Final = date(2200, 1, 1)

JUDGED: Final = frozenset(
    {
        FindingType.MISSING,
        FindingType.UNEXPECTED,
        FindingType.DUPLICATE,
        FindingType.WRONG_DATE,
        FindingType.WRONG_TERMS,
        FindingType.OVERDUE,
        FindingType.UNEXCUSED,
        FindingType.WITHDRAWN,
        FindingType.PREMATURE,
        FindingType.STUCK,
        FindingType.PUBLISHED_NO_OUTCOME,
        FindingType.HELD_KEY,
        FindingType.OUTCOME_CONFLICT,
        FindingType.EFFECT_MISSING,
        FindingType.EFFECT_UNRECORDED,
        FindingType.EFFECT_REPEATED,
        FindingType.EVENT_UNMATCHED,
        FindingType.UNBALANCED,
        FindingType.SOURCE_FAILED,
        FindingType.DEFINITION_FAILED,
        FindingType.DISAGREES,
        FindingType.TAMPERED,
    }
)
"""A finding of these types is closed by a pass that does not find it. LATE is never open."""

RECORD_TYPES: Final = frozenset({FindingType.ORPHAN_RECORD, FindingType.RECORD_MISSING})
"""Findings of these types are closed only by a pass that compared claims with Kafka."""


@dataclass(frozen=True, slots=True)
class PassScope:
    """The half-open range of effective dates that a pass reads."""

    from_date: date = FIRST_DATE
    to_date: date = END_DATE

    @classmethod
    def between(cls, from_date: date | None, to_date: date | None) -> "PassScope":
        """Return the range between two dates, each where it is given."""
        return cls(from_date or FIRST_DATE, to_date or END_DATE)

    @property
    def whole(self) -> bool:
        """Return whether the range has every date."""
        return self.from_date <= FIRST_DATE and self.to_date >= END_DATE

    def has(self, day: date) -> bool:
        """Return whether a date lies inside."""
        return self.from_date <= day < self.to_date

    @property
    def window(self) -> DateRange:
        """Return the range as a window."""
        return DateRange.of(self.from_date, self.to_date)


@dataclass(frozen=True, slots=True)
class PassLimits:
    """Margins and caps of a pass; `share` is the greatest share of the time in which it reads."""

    stuck_seconds: float = 60.0
    findings_max: int = 10_000
    share: float = 1.0


@dataclass(slots=True)
class PassResult:
    """The counts of a pass. `found` counts findings that hold now, `created` the new ones of them.

    `cached_windows` and `cached_items` count what was taken from the partition cache instead of
    being read. A pass that has any is not a full pass. `omitted` counts findings beyond the cap of
    their type and kind, `cut` are the types of which a list ended there; `evidenced` are the kinds
    of which each completed item was looked up, `both_ways` those of which each effect was held
    against the items, too, `published` those of which claims were compared with
    Kafka; None where Kafka was not read; `read_from` is the first offset of each partition that was
    read. `looked_up` counts the completed items that their sources
    of evidence were asked for. Of the items taken from the cache, `earlier` says by kind how many
    there are, `oldest_unread` their first effective date and when it was read; `everything_read_at`
    is when the last pass began that read everything. `backlog` are the events that were unread when
    the pass began, and `unknown` says, of kinds of which it is not known what is owed, why.
    `witness_credit_seconds` is the CPU time that the witness may take. A pass that is not recorded
    has no number.
    """

    reconciliation_no: int | None
    as_of: datetime
    started_at: datetime
    comparison: Comparison
    everything_read_at: datetime
    scope: PassScope = field(default_factory=PassScope)
    latest_as_of: datetime | None = None
    duration_seconds: float = 0.0
    found: Counter[FindingType] = field(default_factory=Counter[FindingType])
    created: int = 0
    closed: Counter[Resolution] = field(default_factory=Counter[Resolution])
    omitted: Counter[tuple[FindingType, str, str]] = field(
        default_factory=Counter[tuple[FindingType, str, str]]
    )
    cut: set[FindingType] = field(default_factory=set[FindingType])
    evidenced: set[KindKey] = field(default_factory=set[KindKey])
    both_ways: set[KindKey] = field(default_factory=set[KindKey])
    looked_up: Counter[KindKey] = field(default_factory=Counter[KindKey])
    published: set[KindKey] | None = None
    read_from: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    missing: Counter[KindKey] = field(default_factory=Counter[KindKey])
    unexpected: Counter[KindKey] = field(default_factory=Counter[KindKey])
    sources: list[SourceRead] = field(default_factory=list[SourceRead])
    accounting: list[items.Accounting] = field(default_factory=list[items.Accounting])
    watermarks: list[passes.WatermarkRecord] = field(default_factory=list[passes.WatermarkRecord])
    unknown: dict[KindKey, str] = field(default_factory=dict[KindKey, str])
    backlog: EventBacklog | None = None
    expectation: Expectation | None = None
    expected_count: int = 0
    cached_windows: int = 0
    cached_items: int = 0
    earlier: Counter[KindKey] = field(default_factory=Counter[KindKey])
    oldest_unread: tuple[date, datetime] | None = None
    witness_credit_seconds: float = 0.0

    @property
    def open_found(self) -> int:
        """Count the findings that hold now and are more than information."""
        return sum(
            count for type_, count in self.found.items() if not FINDING_RULES[type_].is_information
        )

    @property
    def omitted_open(self) -> Counter[KindKey]:
        """Count the omitted findings that are more than information, by tenant and kind."""
        counts: Counter[KindKey] = Counter()
        for (type_, tenant, kind), count in self.omitted.items():
            if not FINDING_RULES[type_].is_information:
                counts[tenant, kind] += count
        return counts
