"""What rules and schedules give to the store: items to emit, and withdrawals by events.

The store checks nothing of it again except the database's constraints.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.identity import item_id

ItemSubject = tuple[str, str, str]
"""Tenant, kind and business key."""


class Overlap(IntEnum):
    """What an item does while another of its overlap key is handed out. The numbers are stored.

    WAIT: it waits, in the order of due_at. SKIP: it ends as Skipped. BUFFER_ONE: one item waits,
    the others end as Skipped. CANCEL_OTHER: it requests the end of the older one and waits for it;
    if several wait, the newest stays and the others end as Skipped.
    """

    WAIT = 1
    SKIP = 2
    BUFFER_ONE = 3
    CANCEL_OTHER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDraft:
    """One item to emit. `payload` and `labels` are JSON text; `lane` '' means none.

    `due_at` includes `smear_seconds`. `overlap` None: it may run beside any other item;
    `overlap_key` None: the business key. `catch_up_until` None: owed however late its event comes.
    """

    tenant: str
    kind: str
    lane: str = ""
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    start_by: datetime | None = None
    complete_by: datetime | None = None
    payload: str
    partition_key: str | None = None
    labels: str | None = None
    definition_name: str | None = None
    nominal: str | None = None
    zone: str | None = None
    decision: str | None = None
    tzdata: str | None = None
    traceparent: str | None = None
    smear_seconds: int | None = None
    overlap: Overlap | None = None
    overlap_key: str | None = None
    catch_up_until: datetime | None = None

    @property
    def id(self) -> UUID:
        """Return the identity, which removes duplicates."""
        return item_id(self.tenant, self.kind, self.business_key, self.cycle, self.effective_date)

    @property
    def occurs_at(self) -> datetime:
        """Return the instant of the occurrence, before smear moved the item."""
        return self.due_at - timedelta(seconds=self.smear_seconds or 0)

    @property
    def subject(self) -> ItemSubject:
        """Return whose item it is."""
        return self.tenant, self.kind, self.business_key

    def is_too_late(self, received_at: datetime) -> bool:
        """Return whether an event received then is too late to owe the item: it is skipped."""
        return self.catch_up_until is not None and self.catch_up_until < received_at


@dataclass(frozen=True, slots=True)
class SkippedDraft:
    """An occurrence to record as skipped. `reason` is a SkipReason.

    Of a merged occurrence it also has the cycle of the one owed: `merged 2027-03-14T03:30`.
    """

    draft: ItemDraft
    reason: str


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An event ends the open items of this business key and kind."""

    tenant: str
    kind: str
    business_key: str
    reason: str
    definition_name: str

    @property
    def subject(self) -> ItemSubject:
        """Return whose items it ends."""
        return self.tenant, self.kind, self.business_key


@dataclass(frozen=True, slots=True)
class Supersession:
    """An event replaces the open items of this business key and kind by `replacement`.

    If the open item has the id of `replacement`, it is the same occurrence: its row keeps its
    terms, because what was owed never changes. A definition that needs new terms under the same
    effective date puts the revision into `cycle` (docs/identity.md).
    """

    tenant: str
    kind: str
    business_key: str
    reason: str
    definition_name: str
    replacement: ItemDraft

    @property
    def subject(self) -> ItemSubject:
        """Return whose items it replaces."""
        return self.tenant, self.kind, self.business_key


class RuleEffect(NamedTuple):
    """One effect of an event under one definition.

    `draft` is the item that it owes, None if it owes none. `reinstates`: the item is owed again if
    an event withdrew it before.
    """

    definition_no: int
    effect: ItemDraft | Cancellation | Supersession
    draft: ItemDraft | None
    reinstates: bool
