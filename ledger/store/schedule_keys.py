"""Business keys, and rounds, that schedules of two names would have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class SharedKey:
    """The schedule `name` has the business key of `other`, which decides in [from, until).

    `until_at` is None where no version is to supersede it.
    """

    name: str
    business_key: str
    other: str
    effective_from: datetime
    until_at: datetime | None


@dataclass(frozen=True, slots=True)
class SharedOccurrence:
    """A round that stands as an item of the definition `name`; `superseded` by a version of it."""

    place: int
    name: str
    superseded: bool


async def list_shared_keys(
    connection: Connection, tenant: str, kind: str, names: Sequence[str]
) -> list[SharedKey]:
    """List which of these schedules of a kind have the business key of one of another name.

    The newest version of each counts, against those that are in force or to come beside it; at
    most fifty are listed.
    """
    rows = await connection.fetch(statement("list_shared_keys"), tenant, kind, names)
    return [SharedKey(**row) for row in rows]


async def find_shared_occurrences(
    connection: Connection,
    ids: Sequence[UUID],
    effective_dates: Sequence[date],
    definition_nos: Sequence[int],
) -> list[SharedOccurrence]:
    """Find rounds that stand as items of a definition of another name; `place` is the input's."""
    rows = await connection.fetch(
        statement("find_shared_occurrences"), ids, effective_dates, definition_nos
    )
    return [SharedOccurrence(row["ord"] - 1, row["name"], row["superseded"]) for row in rows]
