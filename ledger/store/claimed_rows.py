"""The rows that the statements of claims return, with their columns by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from math import inf
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.store.connection import Record

RowValues: TypeAlias = tuple[Any, ...]
"""The values of a ClaimedRow; a recorded claim has its token and partition after them.

A plain tuple takes less to make and to read than one with names.
"""

_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


def read_instant(sent: bytes) -> datetime:
    """Return an instant as Postgres sends it.

    asyncpg would do so for each: of a claimed item that is half as much as all other columns, and
    most items of a claim have one due time.
    """
    return _EPOCH + timedelta(microseconds=int.from_bytes(sent, "big", signed=True))


class ClaimedRow(NamedTuple):
    """One claimed item. Keys and payload are UTF-8; `read_instant` reads `due_at`.

    `attempt` and `starts` count what was before this claim. `fence` is None unless one was drawn
    with the row.
    """

    item_no: int
    id: UUID
    effective_date: date
    flow_no: int
    business_key: bytes
    partition_key: bytes | None
    cycle: str
    due_at: bytes
    payload: bytes
    traceparent: str | None
    attempt: int
    starts: int
    batch_max: int | None
    fence: int | None


CLAIMED_COLUMNS: Final[Sequence[str]] = ClaimedRow._fields
RECORDED_COLUMNS: Final[Sequence[str]] = (*CLAIMED_COLUMNS, "token", "partition")
"""Of an item of a recorded claim: `fence`, `token` and `partition` are the claim's."""
GROUP_COLUMNS: Final[Sequence[str]] = (
    "effective_date", "attempt", "starts", "batch_max", "item_nos", "ids", "flow_nos",
    "business_keys", "partition_keys", "cycles", "due_ats", "payloads", "traceparents", "fences",
    "claimed_at", "taken", "next_flow_nos", "next_ats", "lag_flow_nos", "available_ats",
    "last_flow_nos", "last_ats", "last_blocks",
)  # fmt: skip


def columns_getter(*names: str) -> Callable[[RowValues], Any]:
    """Return what gets a column of a row, or a tuple of several, in one call."""
    return itemgetter(*map(RECORDED_COLUMNS.index, names))


class ClaimedRows(list[RowValues]):
    """Claimed rows, and when the database claimed them: `claimed_at` is part of a claim's id.

    `due_seconds` is by flow, where it was asked for, how soon after that its next plain row is due,
    infinity without one within a minute. `available_since` is by flow, where it was asked for,
    since when the first of its items could be claimed. `last_rows` is by flow, of a claim without
    fences, when its last plain first attempt was available, and the block of that row.
    """

    __slots__ = ("available_since", "claimed_at", "due_seconds", "last_rows")

    def __init__(
        self,
        rows: Iterable[RowValues] = (),
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
    def of_groups(cls, groups: Sequence[Record]) -> "ClaimedRows":
        """Return the rows of groups of items, as columns, of which the last says how many.

        Raises UnseenPartition if not all that were taken are there.
        """
        rows: list[RowValues] = []
        for group in groups[:-1]:
            (
                effective_date, attempt, starts, batch_max, item_nos, ids, flow_nos, keys,
                partition_keys, cycles, due_ats, payloads, traceparents, fences,
            ) = tuple(group)[:14]  # fmt: skip
            rows += zip(
                item_nos,
                ids,
                repeat(effective_date),
                flow_nos,
                keys,
                partition_keys or repeat(None),
                cycles,
                due_ats,
                payloads,
                traceparents or repeat(None),
                repeat(attempt),
                repeat(starts),
                repeat(batch_max),
                fences or repeat(None),
                strict=False,
            )
        last = groups[-1]
        _require_found(last["taken"], len(rows))
        claimed_at: datetime = last["claimed_at"]
        return cls(
            rows,
            claimed_at,
            {
                flow_no: _seconds_until(at, claimed_at)
                for flow_no, at in _pairs(last, "next_flow_nos", "next_ats")
            },
            dict(_pairs(last, "lag_flow_nos", "available_ats")),
            {
                flow_no: (at, block)
                for flow_no, at, block in _pairs(last, "last_flow_nos", "last_ats", "last_blocks")
            },
        )

    @classmethod
    def before_count(cls, records: list[Record]) -> "ClaimedRows":
        """Return rows without their last, which says how many were taken, and when.

        Before it are rows without an item, of flows: when the next one is due. Raises
        UnseenPartition if not all that were taken are there.
        """
        last = records.pop()
        taken, claimed_at = last["item_no"], read_instant(last["due_at"])
        due_seconds: dict[int, float] = {}
        while records and records[-1][0] is None:
            row = records.pop()
            due_at = row["due_at"]
            due_seconds[row["flow_no"]] = _seconds_until(
                due_at and read_instant(due_at), claimed_at
            )
        _require_found(taken, len(records))
        return cls(map(tuple, records), claimed_at, due_seconds)

    def add(self, more: "ClaimedRows") -> None:
        """Add the rows of a later statement, and take its times."""
        self.extend(more)
        self.claimed_at, self.due_seconds = more.claimed_at, more.due_seconds
        self.available_since, self.last_rows = more.available_since, more.last_rows

    def items(self) -> list[ClaimedRow]:
        """Return the rows with their columns by name."""
        return [ClaimedRow(*row[: len(CLAIMED_COLUMNS)]) for row in self]


def _seconds_until(at: datetime | None, claimed_at: datetime) -> float:
    return inf if at is None else (at - claimed_at).total_seconds()


def _pairs(row: Record, *columns: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(row[column] or () for column in columns), strict=True)


def _require_found(taken: int, found: int) -> None:
    if taken != found:
        message = f"{taken} items were taken and {found} of them found: nothing is claimed"
        raise UnseenPartition(message, taken=taken, found=found)
