"""Changes by tz databases: drawn up whole, opened by their digest, applied a version at a time."""

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
    """What a tz database changes of one item."""

    MOVED = "moved"
    WITHDRAWN = "withdrawn"
    SKIPPED = "skipped"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class TzStep:
    """One item in a change. `at` is when it is due, or is to be where it is added.

    `due_at`, by the newer database, is None where it is due no more; `draft` is of what is added.
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
    """One issue of a round that stands, or stood. `tzdata` placed it, or ended it last.

    `event` is None unless it was skipped or superseded, for `reason`.
    """

    id: bytes
    zone: str | None
    event: int | None
    reason: str | None
    tzdata: str | None


@dataclass(frozen=True, slots=True)
class TzChangeVersion:
    """One version in a change. `items` of its steps took effect, None until it is applied.

    `overtaken`: another version was defined before that, and nothing of it took effect.
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
    """A change as one: who let which database decide from when on; open until all is applied.

    `items` took effect so far, in `parts` versions, of which `overtaken` were defined anew.
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
    """Find which ids stand in the ledger, or did before their partition was dropped, by id."""
    rows = await connection.fetch(statement("find_issues"), ids)
    return {row["id"]: OccurrenceIssue(**row) for row in rows}


async def lock_tz_changes(connection: Connection) -> None:
    """Hold the changes until the transaction ends: one at a time is drawn up."""
    await connection.fetch(statement("lock_zone_changes"))


async def list_zone_changes(
    connection: Connection, digest: str | None = None, *, limit: int
) -> list[TzChange]:
    """List changes, the newest first: the one that is open, if any, comes first."""
    rows = await connection.fetch(statement("list_zone_changes"), digest, limit)
    return [TzChange(**row) for row in rows]


async def begin_zone_change(
    connection: Connection, tzdata: str, from_at: datetime | None, *, actor_no: int
) -> int:
    """Begin to draw a change up, and return its number. The caller holds the changes."""
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
    """Record items that a change being drawn up has of one version, or why it cannot be told."""
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
    """Set the digest of a change that was drawn up; tell whether it had none."""
    return bool(await connection.fetch(statement("open_zone_change"), change_no, digest))


async def list_zone_parts(connection: Connection, change_no: int) -> AsyncIterator[TzChangeVersion]:
    """List the versions in a change by tenant, name and version, a page at a time."""
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
    """List the items of one version in a change by time, in pages of at most so many."""
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
    """Hold one version in a change until the transaction ends; tell whether it is to be applied."""
    return bool(
        await connection.fetch(statement("lock_tz_change_version"), change_no, definition_no)
    )


async def mark_zone_part_applied(
    connection: Connection, change_no: int, definition_no: int, items: int, *, overtaken: bool
) -> bool:
    """Record that one version is applied; tell whether it was not yet. The caller holds it."""
    return bool(
        await connection.fetch(
            statement("mark_zone_part_applied"), change_no, definition_no, items, overtaken
        )
    )


async def close_zone_change(connection: Connection, change_no: int) -> bool:
    """Close a change of which every part is applied; tell whether it was open."""
    return bool(await connection.fetch(statement("close_zone_change"), change_no))
