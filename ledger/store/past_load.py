"""The past load: the results of the items that were due in each quarter hour of five weeks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

FORGOTTEN_MAX: Final = 100_000
"""Rows; a later pass forgets the rest."""


@dataclass(frozen=True, slots=True)
class DueResults:
    """How many items were due, and their results.

    `completed_late` are some of `completed`, `withdrawn` were cancelled, superseded or skipped, and
    of `had_failures` an attempt failed, whatever their results.
    """

    items: int = 0
    completed: int = 0
    completed_late: int = 0
    in_review: int = 0
    withdrawn: int = 0
    written_off: int = 0
    had_failures: int = 0

    @property
    def open(self) -> int:
        """Count the items that have not ended, without those that wait for a person."""
        ended = self.completed + self.withdrawn + self.written_off
        return self.items - ended - self.in_review

    def __add__(self, other: "DueResults") -> "DueResults":
        """Return the sums of both."""
        return DueResults(
            self.items + other.items,
            self.completed + other.completed,
            self.completed_late + other.completed_late,
            self.in_review + other.in_review,
            self.withdrawn + other.withdrawn,
            self.written_off + other.written_off,
            self.had_failures + other.had_failures,
        )


class PastQuarter(NamedTuple):
    """The items of a kind and effective date that were due in a quarter hour."""

    tenant: str
    kind: str
    quarter: datetime
    effective_date: date
    results: DueResults


class PastDay(NamedTuple):
    """The items of a kind that were due on a day: the place of the day among those asked for."""

    tenant: str
    kind: str
    day: int
    results: DueResults


class PastHour(NamedTuple):
    """The items that were due in a quarter hour."""

    quarter: datetime
    results: DueResults


@dataclass(frozen=True, slots=True)
class PastLoadCount:
    """From when on the past load is counted, and for which moment it was."""

    as_of: datetime
    counted_from: datetime


async def record_past_load(
    connection: Connection, from_date: date, to_date: date, quarters: Sequence[PastQuarter]
) -> int:
    """Record the results of the items of a half-open range of effective dates.

    It takes the place of what was recorded of them. Returns how many rows were changed.
    """
    results = [each.results for each in quarters]
    return await connection.fetchval(
        statement("record_past_load"),
        from_date,
        to_date,
        [each.tenant for each in quarters],
        [each.kind for each in quarters],
        [each.quarter for each in quarters],
        [each.effective_date for each in quarters],
        [each.items for each in results],
        [each.completed for each in results],
        [each.completed_late for each in results],
        [each.in_review for each in results],
        [each.withdrawn for each in results],
        [each.written_off for each in results],
        [each.had_failures for each in results],
    )


async def note_past_load(connection: Connection, count: PastLoadCount) -> None:
    """Note that all items due from a time on are counted, and forget those of before."""
    given = count.as_of, count.counted_from, FORGOTTEN_MAX
    await connection.fetchval(statement("note_past_load"), *given)


async def read_past_load_count(connection: Connection) -> PastLoadCount | None:
    """Return of which time the past load is known; None: nothing was counted yet."""
    row = await connection.fetchrow(statement("read_past_load_count"))
    return None if row is None else PastLoadCount(*row)


async def list_past_days(
    connection: Connection,
    days: Sequence[datetime],
    *,
    tenants: Sequence[str] | None,
    tenant: str | None = None,
    kind: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int,
) -> list[PastDay]:
    """Return the results of the items of up to `limit` kinds by day, in the order of their names.

    `days` are where the days begin, and where the last one ends. A day without items is left out.
    """
    given = (tenants, tenant, kind, days, *(after or (None, None)), limit)
    rows = await connection.fetch(statement("list_past_days"), *given)
    return [PastDay(row["tenant"], row["kind"], row["day"] - 1, _results(row[3:])) for row in rows]


async def list_past_hours(
    connection: Connection,
    from_at: datetime,
    before: datetime,
    *,
    tenants: Sequence[str] | None,
    kind: str | None = None,
) -> list[PastHour]:
    """Return the results of the items of tenants by quarter hour; None: of all.

    Of all kinds without one. A quarter hour without items is left out.
    """
    given = (tenants, kind or "", from_at, before)
    rows = await connection.fetch(statement("list_past_hours"), *given)
    return [PastHour(row["quarter"], _results(row[1:])) for row in rows]


def _results(counts: Sequence[int]) -> DueResults:
    return DueResults(*counts)
