"""What rules and schedules hand to the store: items to emit, and what an event withdraws.

Nothing here is checked again by the store except what the database constrains.
"""

from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from uuid import UUID

from dueledger.ledger.identity import item_id


class Overlap(IntEnum):
    """What an item does while another of its overlap key is handed out. The numbers are stored.

    WAIT: it waits, in the order due. SKIP: it ends as Skipped. BUFFER_ONE: one waits, the rest end
    as Skipped. CANCEL_OTHER: it asks an older one to end and waits for that; of several that wait
    the newest stays, the rest end as Skipped.
    """

    WAIT = 1
    SKIP = 2
    BUFFER_ONE = 3
    CANCEL_OTHER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDraft:
    """One item as it will be owed. `payload` and `labels` are JSON text, `lane` '' is none.

    `due_at` is moved by `smear_seconds` already. `overlap` None may run beside any other;
    `overlap_key` None is the business key. `owed_until` is None where it is owed however late its
    event comes.
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
        """Return the identity that deduplicates it."""
        return item_id(self.tenant, self.kind, self.business_key, self.cycle, self.effective_date)

    def is_too_late(self, received_at: datetime) -> bool:
        """Return whether an event received then comes too late to owe it: it is skipped instead."""
        return self.catch_up_until is not None and self.catch_up_until < received_at


@dataclass(frozen=True, slots=True)
class SkippedDraft:
    """An occurrence that is recorded as skipped, never executed. `reason` is a SkipReason."""

    draft: ItemDraft
    reason: str


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An event ends what is open for this business key and kind."""

    tenant: str
    kind: str
    business_key: str
    reason: str
    definition_name: str


@dataclass(frozen=True, slots=True)
class Supersession:
    """An event replaces what is open for this business key and kind by `replacement`.

    Where `replacement.id` is the id of the open item, the terms are the same round's: the row
    keeps what it says, for what was owed never changes. A definition that must carry new terms
    under the same effective date puts the revision into `cycle` (docs/identity.md).
    """

    tenant: str
    kind: str
    business_key: str
    reason: str
    definition_name: str
    replacement: ItemDraft
