"""The past load: the results of the items that were due in each quarter hour of five weeks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

FORGOTTEN_MAX: Final = 100_000
"""Rows that are forgotten by one statement."""
FORGET_ROUNDS_MAX: Final = 20
"""Statements of a pass; a later pass forgets the rest."""
SumMinutes: TypeAlias = Literal[15, 60, 360, 1440]


class DueResults(NamedTuple):
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

    @classmethod
    def total(cls, results: "Iterable[DueResults]") -> "DueResults":
        """Return the sums of at least one."""
        return cls._make(map(sum, zip(*results, strict=True)))


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


class SumSpan(NamedTuple):
    """A time whose sums are read, and how long the spans are of which they are."""

    minutes: SumMinutes
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class PastLoadCount:
    """From when on the past load is counted, and for which moment it was.

    `version` differs for each pass that noted one: what was counted is the same while it is.
    """

    as_of: datetime
    counted_from: datetime
    version: int = field(default=0, compare=False)


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
    """Note that all items due from a time on are counted."""
    await connection.execute(statement("note_past_load"), count.as_of, count.counted_from)


async def forget_past_load(
    connection: Connection, before: datetime, *, row_max: int = FORGOTTEN_MAX
) -> int:
    """Forget the results of the items due before a time, up to `row_max` rows at once.

    Returns how many rows were forgotten.
    """
    forgotten = 0
    for _ in range(FORGET_ROUNDS_MAX):
        found: int = await connection.fetchval(statement("forget_past_load"), before, row_max)
        forgotten += found
        if found < row_max:
            break
    return forgotten


async def read_past_load_count(connection: Connection) -> PastLoadCount | None:
    """Return of which time the past load is known; None: nothing was counted yet."""
    row = await connection.fetchrow(statement("read_past_load_count"))
    return None if row is None else PastLoadCount(*row)


async def list_past_kinds(
    connection: Connection,
    due_from: datetime,
    due_before: datetime,
    *,
    tenants: Sequence[str] | None,
    tenant: str | None = None,
    kind: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int,
) -> list[tuple[str, str]]:
    """Return up to `limit` kinds of which items were due, by tenant and name, in their order."""
    given = (tenants, tenant, kind, due_from, due_before, *(after or (None, None)), limit)
    rows = await connection.fetch(statement("list_past_kinds"), *given)
    return [(row["tenant"], row["kind"]) for row in rows]


async def list_past_days(
    connection: Connection,
    names: Sequence[tuple[str, str]],
    days: Sequence[datetime],
    spans: Sequence[SumSpan],
) -> list[PastDay]:
    """Return the results of the items of kinds by day; kinds are by tenant and name, as given.

    `days` are where the days begin, and where the last one ends; `spans` are the sums of which they
    consist. A day without items is left out.
    """
    kinds = [[name[part] for name in names] for part in range(2)]
    rows = await connection.fetch(statement("list_past_days"), *kinds, days, *_columns(spans))
    return [
        PastDay(row["tenant"], row["kind"], row["day"] - 1, DueResults(*row[3:])) for row in rows
    ]


async def rank_past_kinds(
    connection: Connection,
    after: datetime,
    before: datetime,
    *,
    tenants: Sequence[str] | None,
    tenant: str | None = None,
    kind: str | None = None,
    limit: int,
) -> list[tuple[str, str, int | None]]:
    """Return kinds with how many of their items were completed late or not at all.

    They are those that were due on days in UTC that begin between two times; None: it had none.
    """
    given = tenants, tenant, kind, after, before, limit
    rows = await connection.fetch(statement("rank_past_kinds"), *given)
    return [(row["tenant"], row["kind"], row["troubled"]) for row in rows]


async def list_past_hours(
    connection: Connection,
    spans: Sequence[SumSpan],
    *,
    minutes: SumMinutes,
    tenants: Sequence[str] | None,
    kind: str | None = None,
) -> dict[datetime, DueResults]:
    """Return the results of the items of tenants by so many minutes from the first span on.

    None: of all tenants; of all kinds without one. A time without items is left out.
    """
    if not spans:
        return {}
    given = (tenants, kind or "", *_columns(spans), minutes, spans[0].begins)
    rows = await connection.fetch(statement("list_past_hours"), *given)
    return {row["begins"]: DueResults(*row[1:]) for row in rows}


def _columns(spans: Sequence[SumSpan]) -> tuple[list[int], list[datetime], list[datetime]]:
    minutes = [int(each.minutes) for each in spans]
    return minutes, [each.begins for each in spans], [each.ends for each in spans]
