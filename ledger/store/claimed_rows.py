"""The rows that claim_items and claim_serial_items return, with their columns by name."""

from collections.abc import Sequence
from datetime import date, datetime
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from dueledger.ledger.store.connection import Record

CLAIMED_COLUMNS: Final[Sequence[str]] = (
    "item_no",
    "id",
    "effective_date",
    "flow_no",
    "business_key",
    "partition_key",
    "cycle",
    "due_at",
    "payload",
    "traceparent",
    "attempt",
    "starts",
    "batch_max",
    "fence",
)


def _column(name: str) -> Any:  # noqa: ANN401 - a value that comes out of the database
    return property(itemgetter(CLAIMED_COLUMNS.index(name)))


class ClaimedRow(Record):
    """One claimed item. It is an asyncpg record: no value is copied to name it.

    `attempt` and `starts` count what was before this claim. `fence` is None unless one was drawn
    with the row.
    """

    __slots__ = ()

    item_no: int = _column("item_no")
    id: UUID = _column("id")
    effective_date: date = _column("effective_date")
    flow_no: int = _column("flow_no")
    business_key: str = _column("business_key")
    partition_key: str | None = _column("partition_key")
    cycle: str = _column("cycle")
    due_at: datetime = _column("due_at")
    payload: str = _column("payload")
    traceparent: str | None = _column("traceparent")
    attempt: int = _column("attempt")
    starts: int = _column("starts")
    batch_max: int | None = _column("batch_max")
    fence: int | None = _column("fence")
