"""What a pass looks at, what bounds it, and what it saw."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from dueledger.ledger.store import findings, items
from dueledger.reconciler.compare.comparison import Comparison, KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.finding_types import FindingType, Resolution
from dueledger.reconciler.sources import SourceRead
from dueledger.reconciler.windows import DateRange

FIRST_DATE: Final = date(1970, 1, 1)
END_DATE: Final = date(2200, 1, 1)

JUDGED: Final = frozenset(
    {
        FindingType.MISSING,
        FindingType.UNEXPECTED,
        FindingType.DUPLICATE,
        FindingType.OVERDUE,
        FindingType.STUCK,
        FindingType.EFFECT_MISSING,
        FindingType.UNBALANCED,
        FindingType.SOURCE_FAILED,
        FindingType.DEFINITION_FAILED,
    }
)
"""The types whose absence from a pass closes them. LATE is history and is never open."""

EXPECTATION_TYPES: Final = frozenset(
    {FindingType.MISSING, FindingType.UNEXPECTED, FindingType.DUPLICATE}
)


@dataclass(frozen=True, slots=True)
class PassScope:
    """What a pass looks at: a half-open range of effective dates."""

    from_date: date = FIRST_DATE
    to_date: date = END_DATE

    @property
    def whole(self) -> bool:
        """Tell whether nothing is left out."""
        return self.from_date <= FIRST_DATE and self.to_date >= END_DATE

    @property
    def window(self) -> DateRange:
        """Return the range as a window."""
        return DateRange.of(self.from_date, self.to_date)


@dataclass(frozen=True, slots=True)
class PassLimits:
    """Margins and caps of a pass."""

    stuck_seconds: float = 60.0
    findings_max: int = 10_000


@dataclass(slots=True)
class PassResult:
    """What a pass saw. `found` counts what holds now, `created` what was not known before.

    `cached_windows` and `cached_items` count what was not read again but taken as an earlier pass
    of the same process had read it: a pass with any of them is not a whole one.
    """

    reconciliation_no: int
    as_of: datetime
    started_at: datetime
    comparison: Comparison
    duration_seconds: float = 0.0
    found: Counter[FindingType] = field(default_factory=Counter[FindingType])
    created: int = 0
    closed: Counter[Resolution] = field(default_factory=Counter[Resolution])
    omitted: Counter[tuple[FindingType, str, str]] = field(
        default_factory=Counter[tuple[FindingType, str, str]]
    )
    missing: Counter[KindKey] = field(default_factory=Counter[KindKey])
    unexpected: Counter[KindKey] = field(default_factory=Counter[KindKey])
    sources: list[SourceRead] = field(default_factory=list[SourceRead])
    accounting: list[items.Accounting] = field(default_factory=list[items.Accounting])
    watermarks: list[findings.WatermarkRecord] = field(
        default_factory=list[findings.WatermarkRecord]
    )
    expectation: Expectation | None = None
    expected_count: int = 0
    cached_windows: int = 0
    cached_items: int = 0

    @property
    def open_found(self) -> int:
        """Count what holds now and is more than information."""
        return sum(count for type_, count in self.found.items() if type_ is not FindingType.LATE)
