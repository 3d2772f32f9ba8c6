"""Business keys and occurrences that two schedules of different names share."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class SharedKey:
    """The schedule `name` has the business key of `other`, in force in [effective_from, until_at).

    `until_at` is None if no version supersedes `other`.
    """

    name: str
    business_key: str
    other: str
    effective_from: datetime
    until_at: datetime | None


@dataclass(frozen=True, slots=True)
class SharedOccurrence:
    """An occurrence that is an item of the definition `name`; `superseded` if a version ended it.

    `index` is the index in the input.
    """

    index: int
    name: str
    superseded: bool


async def list_shared_keys(
    connection: Connection, tenant: str, kind: str, names: Sequence[str]
) -> list[SharedKey]:
    """List which of these schedules of a kind share their business key with another schedule.

    Compares the newest version of each with the versions in force or pending beside it. Returns at
    most fifty.
    """
    rows = await connection.fetch(statement("list_shared_keys"), tenant, kind, names)
    return [SharedKey(**row) for row in rows]


async def find_shared_occurrences(
    connection: Connection,
    ids: Sequence[UUID],
    effective_dates: Sequence[date],
    definition_nos: Sequence[int],
) -> list[SharedOccurrence]:
    """Find occurrences that are items of a definition of another name."""
    rows = await connection.fetch(
        statement("find_shared_occurrences"), ids, effective_dates, definition_nos
    )
    return [SharedOccurrence(row["ord"] - 1, row["name"], row["superseded"]) for row in rows]
