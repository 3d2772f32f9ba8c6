"""Tz changes: recorded completely, opened under a digest, applied one version at a time."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import TypeAdapter

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.definitions import DefinitionVersion
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement

_VERSIONS_MAX: Final = 1_000
_STEPS_MAX: Final = 500  # a page: of the largest payloads it is 128 MB
_READ_MAX: Final = 5_000


class TzStepKind(StrEnum):
    """What a tz change does to one item."""

    MOVED = "moved"
    WITHDRAWN = "withdrawn"
    SKIPPED = "skipped"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class TzStep:
    """One item in a tz change. `at` is its due_at, or the new one of an added item.

    `due_at` is by the newer tz database, None if the item is no longer due. An added item has a
    `draft`.
    """

    at: datetime
    id: UUID
    step: TzStepKind
    cycle: str
    zone: str
    due_at: datetime | None
    decision: str | None = None
    skip_reason: str | None = None
    tzdata_before: str | None = None
    draft: ItemDraft | None = None


_STEPS: Final = TypeAdapter(list[TzStep])


@dataclass(frozen=True, slots=True)
class ItemOfOtherTzdata:
    """A pending item whose instants were computed with another tz database than the pinned one."""

    item_no: int
    id: UUID
    definition_no: int
    effective_date: date
    cycle: str
    due_at: datetime
    smear_seconds: float | None
    decision: str | None
    tzdata: str
    zone: str


@dataclass(frozen=True, slots=True)
class OccurrenceIssue:
    """One issue of an occurrence, existing or dropped. `tzdata` computed or ended it last.

    `occurs_at` is its due_at before smear; of a dropped one nothing is known. `event` is None
    unless the item was skipped or superseded, for `reason`.
    """

    id: bytes
    definition_no: int | None
    zone: str | None
    occurs_at: datetime | None
    event: int | None
    reason: str | None
    tzdata: str | None


@dataclass(frozen=True, slots=True)
class TzChangeVersion:
    """One version in a tz change. `items` is how many steps took effect, None until applied.

    `superseded`: another version was defined before, so no step took effect.
    """

    definition_no: int
    tenant: str
    name: str
    version: int
    superseded_at: datetime | None
    failure: str | None
    applied_at: datetime | None
    items: int | None
    superseded: bool


@dataclass(frozen=True, slots=True)
class TzChange:
    """A tz change: its actor, its tz database and its start. It is open until all is applied.

    `applied`: steps that took effect so far, in `definitions` versions; of these, `superseded` have
    a newer version.
    """

    change_no: int
    digest: str
    tzdata: str
    tzdata_before: list[str]
    from_at: datetime | None
    opened_at: datetime
    closed_at: datetime | None
    actor: str
    definitions: int
    applied: int
    superseded: int


async def find_issues(connection: Connection, ids: Sequence[UUID]) -> dict[bytes, OccurrenceIssue]:
    """Find the issues that the ledger has, or had before their partition was dropped, by id."""
    rows = await connection.fetch(statement("find_issues"), ids)
    return {row["id"]: OccurrenceIssue(**row) for row in rows}


async def list_items_of_other_tzdata(
    connection: Connection,
    tzdata: str,
    from_at: datetime | None,
    emitted_until: datetime | None,
    after_item_no: int,
    *,
    limit: int,
) -> tuple[list[ItemOfOtherTzdata], int | None]:
    """List a page of items before their first attempt, computed with another tz database.

    Items due before `from_at`, or emitted after `emitted_until`, are left out. Returns the number
    after which the next page begins, None after the last page: a page may return few of the rows
    it read.
    """
    bounds = from_at, emitted_until, after_item_no, limit
    rows = await connection.fetch(statement("list_items_of_other_tzdata"), tzdata, *bounds)
    found = [ItemOfOtherTzdata(**row) for row in rows if row["id"] is not None]
    return found, rows[-1]["item_no"] if len(rows) == limit else None


async def lock_tz_changes(connection: Connection) -> None:
    """Lock the tz changes until the transaction ends: only one at a time is recorded."""
    await connection.fetch(statement("lock_tz_changes"))


async def list_tz_changes(
    connection: Connection, digest: str | None = None, *, limit: int
) -> list[TzChange]:
    """List tz changes, the open one first, then the newest first."""
    rows = await connection.fetch(statement("list_tz_changes"), digest, limit)
    return [TzChange(**row) for row in rows]


async def record_tz_steps(
    connection: Connection,
    change_no: int,
    version: DefinitionVersion,
    steps: Sequence[TzStep],
    *,
    failure: str | None,
) -> None:
    """Record a tz change's steps of one version, or why they cannot be computed."""
    of_version = change_no, version.definition_no, version.superseded_at, failure
    for first in range(0, max(1, len(steps)), _STEPS_MAX):
        page = _STEPS.dump_json([*steps[first : first + _STEPS_MAX]]).decode()
        await connection.fetch(statement("record_tz_steps"), *of_version, page)


async def open_tz_change(
    connection: Connection,
    change_no: int,
    digest: str,
    *,
    tzdata: str,
    tzdata_before: Sequence[str],
    from_at: datetime | None,
    actor_no: int,
) -> None:
    """Open a tz change whose steps this transaction has recorded. The tz changes are locked."""
    values = change_no, digest, tzdata, tzdata_before, from_at, actor_no
    await connection.fetch(statement("open_tz_change"), *values)


async def list_tz_change_versions(
    connection: Connection, change_no: int
) -> AsyncIterator[TzChangeVersion]:
    """List the versions in a tz change by tenant, name and version."""
    after: tuple[str, str, int] | None = ("", "", 0)
    while after is not None:
        rows = await connection.fetch(
            statement("list_tz_change_versions"), change_no, *after, _VERSIONS_MAX
        )
        for row in rows:
            yield TzChangeVersion(**row)
        last = rows[-1] if len(rows) == _VERSIONS_MAX else None
        after = None if last is None else (last["tenant"], last["name"], last["version"])


async def list_tz_steps(
    connection: Connection, change_no: int, definition_no: int
) -> AsyncIterator[list[TzStep]]:
    """List the steps of one version in a tz change by time, by page. Needs a transaction."""
    cursor = await connection.cursor(statement("list_tz_steps"), change_no, definition_no)
    while rows := await cursor.fetch(_READ_MAX):
        yield _STEPS.validate_json(f"[{','.join(row['step'] for row in rows)}]")


async def move_items(
    connection: Connection,
    change: TzChange,
    definition_no: int,
    steps: Sequence[TzStep],
    *,
    actor_no: int,
) -> int:
    """Change due_at of a version's pending items as the steps say; return how many.

    Scheduled stays Scheduled; the journal records the earlier instants and the change. An item
    without a new instant ends as Skipped with its reason, or as Superseded. Items that were handed
    out before, are due already, or were computed with this tz database do not change.
    """
    ids, due_ats = [each.id for each in steps], [each.due_at for each in steps]
    terms = [each.decision for each in steps], [each.skip_reason for each in steps]
    by = change.tzdata, actor_no, change.change_no
    with mapped_errors():
        rows = await connection.fetch(
            statement("move_items"), definition_no, ids, due_ats, *terms, *by
        )
    return len(rows)


async def lock_tz_change_version(
    connection: Connection, change_no: int, definition_no: int
) -> bool:
    """Lock a version of a change for the transaction; return whether it is still to be applied."""
    pages = await connection.fetch(statement("lock_tz_change_version"), change_no, definition_no)
    return bool(pages)


async def mark_tz_change_version(
    connection: Connection, change_no: int, definition_no: int, items: int, *, superseded: bool
) -> None:
    """Record that a version is applied, unless it is recorded already."""
    await connection.fetch(
        statement("mark_tz_change_version"), change_no, definition_no, items, superseded
    )
