"""The rows that claim_items and claim_serial_items return, with their columns by name."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, final
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


_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


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


@final
class ClaimedRows(list[ClaimedRow]):
    """Claimed rows, and when the database claimed them: `claimed_at` is part of a claim's id.

    `due_seconds` is by flow, where it was asked for, how soon after that its next plain row is due,
    infinity without one within a minute.
    """

    __slots__ = ("claimed_at", "due_seconds")

    def __init__(
        self,
        rows: Iterable[ClaimedRow] = (),
        claimed_at: datetime = _NO_TIME,
        due_seconds: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        super().__init__(rows)
        self.claimed_at = claimed_at
        self.due_seconds = due_seconds

    def add(self, more: "ClaimedRows") -> None:
        """Add the rows of a later statement, and take its times."""
        self.extend(more)
        self.claimed_at, self.due_seconds = more.claimed_at, more.due_seconds
