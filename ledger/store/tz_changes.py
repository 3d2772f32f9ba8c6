"""Tz changes: recorded completely, opened under a digest, applied one version at a time."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

_PARTS_PAGE: Final = 500
_COLUMNS: Final = 10
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_NO_ID: Final = UUID(int=0)
_DRAFT: Final = TypeAdapter(ItemDraft)


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


@dataclass(frozen=True, slots=True)
class OccurrenceIssue:
    """One issue of an occurrence, existing or dropped. `tzdata` computed or ended it last.

    `event` is None unless the item was skipped or superseded, for `reason`.
    """

    id: bytes
    zone: str | None
    event: int | None
    reason: str | None
    tzdata: str | None


@dataclass(frozen=True, slots=True)
class TzChangeVersion:
    """One version in a tz change. `items` is how many steps took effect, None until applied.

    `overtaken`: another version was defined before, so no step took effect.
    """

    definition_no: int
    tenant: str
    name: str
    version: int
    superseded_at: datetime | None
    failure: str | None
    applied_at: datetime | None
    items: int | None
    overtaken: bool


@dataclass(frozen=True, slots=True)
class TzChange:
    """A tz change: its actor, its tz database and its start. It is open until all is applied.

    `items` took effect so far, in `parts` versions; of these, `overtaken` have a newer version.
    """

    change_no: int
    digest: str
    tzdata: str
    tzdata_before: list[str]
    from_at: datetime | None
    opened_at: datetime
    closed_at: datetime | None
    actor: str
    parts: int
    items: int
    overtaken: int


async def find_issues(connection: Connection, ids: Sequence[UUID]) -> dict[bytes, OccurrenceIssue]:
    """Find the issues that the ledger has, or had before their partition was dropped, by id."""
    rows = await connection.fetch(statement("find_issues"), ids)
    return {row["id"]: OccurrenceIssue(**row) for row in rows}


async def lock_tz_changes(connection: Connection) -> None:
    """Lock the tz changes until the transaction ends: only one at a time is recorded."""
    await connection.fetch(statement("lock_zone_changes"))


async def list_zone_changes(
    connection: Connection, digest: str | None = None, *, limit: int
) -> list[TzChange]:
    """List tz changes, the open one first, then the newest first."""
    rows = await connection.fetch(statement("list_zone_changes"), digest, limit)
    return [TzChange(**row) for row in rows]


async def begin_zone_change(
    connection: Connection, tzdata: str, from_at: datetime | None, *, actor_no: int
) -> int:
    """Create a tz change and return its number. The caller has locked the tz changes."""
    return await connection.fetchval(statement("begin_zone_change"), tzdata, from_at, actor_no)


async def record_zone_steps(
    connection: Connection,
    change_no: int,
    definition_no: int,
    steps: Sequence[TzStep],
    *,
    superseded_at: datetime | None,
    failure: str | None,
) -> None:
    """Record a tz change's steps of one version, or why they cannot be computed."""
    rows = [
        (
            *(step.at, step.id, step.step.value, step.cycle, step.zone, step.due_at),
            *(step.decision, step.skip_reason, step.tzdata_before, _text(step.draft)),
        )
        for step in steps
    ]
    columns = list(zip(*rows, strict=True)) or [()] * _COLUMNS
    await connection.execute(
        statement("record_zone_steps"), change_no, definition_no, superseded_at, failure, *columns
    )


def _text(draft: ItemDraft | None) -> str | None:
    return None if draft is None else _DRAFT.dump_json(draft).decode()


async def open_zone_change(connection: Connection, change_no: int, digest: str) -> bool:
    """Set the digest of a recorded tz change; return whether it had none."""
    return bool(await connection.fetch(statement("open_zone_change"), change_no, digest))


async def list_zone_parts(connection: Connection, change_no: int) -> AsyncIterator[TzChangeVersion]:
    """List the versions in a tz change by tenant, name and version, by page."""
    after: tuple[str, str, int] = ("", "", 0)
    while True:
        rows = await connection.fetch(statement("list_zone_parts"), change_no, *after, _PARTS_PAGE)
        for row in rows:
            yield TzChangeVersion(**row)
        if len(rows) < _PARTS_PAGE:
            return
        after = rows[-1]["tenant"], rows[-1]["name"], rows[-1]["version"]


async def list_zone_steps(
    connection: Connection, change_no: int, definition_no: int, *, page: int
) -> AsyncIterator[list[TzStep]]:
    """List the steps of one version in a tz change by time, in pages of at most `page`."""
    after = (_EPOCH, _NO_ID)
    while True:
        rows = await connection.fetch(
            statement("list_zone_steps"), change_no, definition_no, *after, page
        )
        if rows:
            yield [_step(dict(row)) for row in rows]
        if len(rows) < page:
            return
        after = rows[-1]["at"], rows[-1]["id"]


def _step(row: dict[str, Any]) -> TzStep:
    step, draft = row.pop("step"), row.pop("draft")
    added = None if draft is None else _DRAFT.validate_json(draft)
    return TzStep(**row, step=TzStepKind(step), draft=added)


async def lock_tz_change_version(
    connection: Connection, change_no: int, definition_no: int
) -> bool:
    """Lock one version in a tz change; return whether it is still to be applied."""
    return bool(
        await connection.fetch(statement("lock_tz_change_version"), change_no, definition_no)
    )


async def mark_zone_part_applied(
    connection: Connection, change_no: int, definition_no: int, items: int, *, overtaken: bool
) -> bool:
    """Record that a version is applied; return whether it was not yet. The caller has locked it."""
    return bool(
        await connection.fetch(
            statement("mark_zone_part_applied"), change_no, definition_no, items, overtaken
        )
    )


async def close_zone_change(connection: Connection, change_no: int) -> bool:
    """Close a tz change whose versions are all applied; return whether it was open."""
    return bool(await connection.fetch(statement("close_zone_change"), change_no))
