"""The rows that the statements of claims return, with their columns by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from math import inf
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar
from uuid import UUID

from dueledger.ledger.errors import UnseenPartition
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
RECORDED_COLUMNS: Final[Sequence[str]] = (*CLAIMED_COLUMNS, "token", "partition")

_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


def _column(name: str) -> Any:  # noqa: ANN401 - a value that comes out of the database
    return property(itemgetter(RECORDED_COLUMNS.index(name)))


def columns_getter(*names: str) -> Callable[[Record], Any]:
    """Return what gets a column of a row, or a tuple of several, in one call."""
    return itemgetter(*map(RECORDED_COLUMNS.index, names))


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


class RecordedRow(ClaimedRow):
    """One item of a recorded claim: `fence`, `token` and `partition` are the claim's."""

    __slots__ = ()

    token: str = _column("token")
    partition: int = _column("partition")


RowT = TypeVar("RowT", bound=ClaimedRow)


class ClaimedRows(list[RowT]):
    """Claimed rows, and when the database claimed them: `claimed_at` is part of a claim's id.

    `due_seconds` is by flow, where it was asked for, how soon after that its next plain row is due,
    infinity without one within a minute. `available_since` is by flow, where it was asked for,
    since when the first of its items could be claimed. `last_rows` is by flow, of a claim without
    fences, when its last plain first attempt was available, and the block of that row.
    """

    __slots__ = ("available_since", "claimed_at", "due_seconds", "last_rows")

    def __init__(
        self,
        rows: Iterable[RowT] = (),
        claimed_at: datetime = _NO_TIME,
        due_seconds: Mapping[int, float] = MappingProxyType({}),
        available_since: Mapping[int, datetime] = MappingProxyType({}),
        last_rows: Mapping[int, tuple[datetime, int]] = MappingProxyType({}),
    ) -> None:
        super().__init__(rows)
        self.claimed_at = claimed_at
        self.due_seconds = due_seconds
        self.available_since = available_since
        self.last_rows = last_rows

    @classmethod
    def before_count(cls, rows: list[RowT]) -> "ClaimedRows[RowT]":
        """Return rows without their last, which says how many were taken, and when.

        Before it are the rows of flows: those with attempt 0 say since when the first item of a
        flow could be claimed, those with attempt 1 which row was its last, the others when the next
        one is due. Raises UnseenPartition if not all that were taken are there.
        """
        last = rows.pop()
        taken, claimed_at = last.item_no, last.due_at
        due_seconds: dict[int, float] = {}
        available_since: dict[int, datetime] = {}
        last_rows: dict[int, tuple[datetime, int]] = {}
        while rows and rows[-1][0] is None:
            row = rows.pop()
            flow_no, due_at = row.flow_no, row["due_at"]
            match row["attempt"]:
                case None:
                    seconds = inf if due_at is None else (due_at - claimed_at).total_seconds()
                    due_seconds[flow_no] = seconds
                case 0:
                    available_since[flow_no] = due_at
                case _:
                    last_rows[flow_no] = due_at, row["fence"]
        if taken != len(rows):
            message = f"{taken} items were taken and {len(rows)} of them found: nothing is claimed"
            raise UnseenPartition(message, taken=taken, found=len(rows))
        return cls(rows, claimed_at, due_seconds, available_since, last_rows)

    def add(self, more: "ClaimedRows[RowT]") -> None:
        """Add the rows of a later statement, and take its times."""
        self.extend(more)
        self.claimed_at, self.due_seconds = more.claimed_at, more.due_seconds
        self.available_since, self.last_rows = more.available_since, more.last_rows
