"""Counts of items by kind, which can be merged."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.lateness import Lateness


@dataclass(slots=True)
class KindTally:
    """Counts of one kind's items. `expected` counts each expected item once.

    `unchecked` counts those of them that no source names and of which none claims to name all, and
    those of fixed delays that have ended; `undated` those whose due time no source says, or only as
    another tz database may have it; `untermed` those whose terms none does.
    """

    expected: int = 0
    unchecked: int = 0
    undated: int = 0
    untermed: int = 0
    open: int = 0
    not_due: int = 0
    overdue: int = 0
    hash_total: int = 0
    ended: defaultdict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))
    lateness: Lateness = field(default_factory=Lateness)
    blocked_at: datetime | None = None
    blocked_by: bytes | None = None

    @property
    def items(self) -> int:
        """Count the items."""
        return self.open + sum(self.ended.values())

    def block_watermark(self, due_at: datetime, identity: bytes) -> None:
        """Keep the earliest item that the watermark cannot pass."""
        if self.blocked_at is None or due_at < self.blocked_at:
            self.blocked_at = due_at
            self.blocked_by = identity

    def merge(self, other: "KindTally") -> None:
        """Add the counts of another part of the ledger, read after this one."""
        self.expected += other.expected
        self.unchecked += other.unchecked
        self.undated += other.undated
        self.untermed += other.untermed
        self.open += other.open
        self.not_due += other.not_due
        self.overdue += other.overdue
        self.hash_total += other.hash_total
        for event, count in other.ended.items():
            self.ended[event] += count
        self.lateness.merge(other.lateness)
        if other.blocked_at is not None and other.blocked_by is not None:
            self.block_watermark(other.blocked_at, other.blocked_by)


def no_tallies() -> defaultdict[KindKey, KindTally]:
    """Return tallies by kind; each is made when it is first used."""
    return defaultdict[KindKey, KindTally](KindTally)
