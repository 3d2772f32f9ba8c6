"""What a report says of findings and repairs: counts of all rows, and samples of them.

Rows come by page, oldest first, and are not kept: a period may have millions. All of them are
listed in a file where there is one.
"""

import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dueledger.ledger.finding_types import (
    FINDING_RULES,
    FindingType,
    RepairStatus,
    Resolution,
    Severity,
)
from dueledger.reconciler.report.csv_list import CsvList
from dueledger.reconciler.report.model import (
    FindingDetail,
    HistogramBar,
    RepairDetail,
    SummaryRow,
)

OPEN_OF_TYPE: Final = 100
CLOSED_OF_TYPE: Final = 20
SAMPLES_MAX: Final = 500
REPAIRS_MAX: Final = 100
AGES: Final[tuple[tuple[float, str], ...]] = (
    (1, "< 1 h"),
    (24, "1–24 h"),
    (72, "1–3 d"),
    (168, "3–7 d"),
    (720, "7–30 d"),
    (math.inf, "> 30 d"),
)
"""How old open findings are: the end of each bucket in hours, not included, and its label."""
_SEVERITIES: Final = {severity: rank for rank, severity in enumerate(reversed(Severity))}


class FindingSamples:
    """Counts findings by type; of each type keeps the oldest that are open, and of the others."""

    def __init__(self, as_of: datetime, listed: CsvList | None = None) -> None:
        self.count = 0
        self._as_of = as_of
        self._ages: dict[FindingType, list[int]] = {}
        self._listed = listed
        self._counts: dict[FindingType, Counter[Resolution]] = {}
        self._oldest: dict[FindingType, datetime] = {}
        self._samples: dict[tuple[bool, FindingType], list[FindingDetail]] = {}

    @property
    def oldest_open_at(self) -> datetime | None:
        """Return when the oldest open one was first seen."""
        opened = [
            samples[0].first_seen_at for (is_open, _), samples in self._samples.items() if is_open
        ]
        return min(opened, default=None)

    @property
    def open(self) -> int:
        """Return how many are open."""
        return sum(counts[Resolution.OPEN] for counts in self._counts.values())

    def add(self, found: Sequence[FindingDetail]) -> None:
        """Add findings, none older than those that were added before."""
        if self._listed:
            self._listed.add(found)
        for each in found:
            is_open = each.resolution is Resolution.OPEN
            self.count += 1
            self._counts.setdefault(each.type, Counter())[each.resolution] += 1
            self._oldest.setdefault(each.type, each.first_seen_at)
            ages = self._ages.setdefault(each.type, [0] * len(AGES))
            if is_open:
                ages[self._age(each)] += 1
            samples = self._samples.setdefault((is_open, each.type), [])
            if len(samples) < (OPEN_OF_TYPE if is_open else CLOSED_OF_TYPE):
                samples.append(each)

    def summary(self) -> list[SummaryRow]:
        """Return the counts of each type that was found, the worst first."""
        types = sorted(FindingType, key=lambda type_: _SEVERITIES[FINDING_RULES[type_].severity])
        return [self._row(each, self._counts[each]) for each in types if each in self._counts]

    def samples(self) -> list[FindingDetail]:
        """Return the samples: open ones first, then by severity, then by age."""
        found = [each for samples in self._samples.values() for each in samples]
        found.sort(
            key=lambda each: (
                each.resolution is not Resolution.OPEN,
                _SEVERITIES[each.severity],
                each.first_seen_at,
                each.type,
                each.id,
            )
        )
        return found[:SAMPLES_MAX]

    def _age(self, finding: FindingDetail) -> int:
        """Return the bucket of the age of a finding."""
        since = min(finding.due_at or finding.first_seen_at, finding.first_seen_at)
        hours = (self._as_of - since).total_seconds() / 3_600
        return bisect_right([end for end, _ in AGES], max(0.0, hours))

    def _row(self, type_: FindingType, counts: Counter[Resolution]) -> SummaryRow:
        rule = FINDING_RULES[type_]
        opened, repaired = counts[Resolution.OPEN], counts[Resolution.REPAIRED]
        return SummaryRow(
            type=type_,
            severity=rule.severity,
            owner=rule.owner,
            meaning=rule.meaning,
            found=counts.total(),
            open=opened,
            repaired=repaired,
            explained=counts.total() - opened - repaired,
            oldest_seen_at=self._oldest[type_],
            ages=[
                HistogramBar(label=label, count=count)
                for (_, label), count in zip(AGES, self._ages[type_], strict=True)
            ],
        )


class RepairSamples:
    """Counts repairs; keeps the first of those that wait, and the last of those that ended."""

    def __init__(self, listed: CsvList | None = None) -> None:
        self.count = 0
        self.executed = 0
        self._listed = listed
        self._waiting: list[RepairDetail] = []
        self._ended = deque[RepairDetail](maxlen=REPAIRS_MAX)

    def add(self, repairs: Sequence[RepairDetail]) -> None:
        """Add repairs, none older than those that were added before; planned ones are the last."""
        if self._listed:
            self._listed.add(repairs)
        for each in repairs:
            self.count += 1
            self.executed += each.status is RepairStatus.EXECUTED
            if each.status is not None and not each.waits:
                self._ended.append(each)
            elif len(self._waiting) < REPAIRS_MAX:
                self._waiting.append(each)

    def samples(self) -> list[RepairDetail]:
        """Return the samples: those that wait first, then the newest."""
        return [*self._waiting, *reversed(self._ended)]
