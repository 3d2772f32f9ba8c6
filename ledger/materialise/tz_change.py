"""The change by a newer tz database: computed, previewed under its digest, then applied.

It is applied one version of a definition at a time, each in one transaction, from the steps that
were recorded when it was opened. So it continues after a kill with the same result, even if the tz
database is another one by then.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import orjson

from dueledger.ledger.errors import Conflict
from dueledger.ledger.materialise.tz_difference import find_differences
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import lock_versions, read_versions
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.tz_changes import (
    TzChange,
    TzChangeVersion,
    TzStep,
    TzStepKind,
    list_tz_change_versions,
    list_tz_changes,
    list_tz_steps,
    lock_tz_change_version,
    lock_tz_changes,
    mark_tz_change_version,
    move_items,
    open_tz_change,
    record_tz_steps,
)

REVIEW_TIME: Final = timedelta(minutes=15)
"""Items due before this has passed are left out of a preview, unless it says from when on."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TzChangePreview:
    """The change to preview. `is_open`: it was opened before, and may be applied in part."""

    change: TzChange
    is_open: bool


@asynccontextmanager
async def preview_tz_change(
    connection: Connection, *, actor_no: int, from_at: datetime | None = None
) -> AsyncGenerator[TzChangePreview]:
    """Return the open change, or compute what there is to change now.

    Without `from_at`, items due within REVIEW_TIME are left out: they would be due before somebody
    has read it. It can be read inside the context. The context rolls it back: nothing is changed.
    """
    transaction = connection.transaction()
    await transaction.start()
    try:
        await lock_tz_changes(connection)
        begun = await _find_open(connection)
        shown_at = await read_now(connection)
        change = begun or await _record_differences(connection, shown_at, from_at, actor_no)
        yield TzChangePreview(change, is_open=begun is not None)
    finally:
        await transaction.rollback()


async def apply_tz_change(
    connection: Connection, digest: str, *, actor_no: int, from_at: datetime | None = None
) -> TzChange:
    """Apply the change of this digest, or continue it.

    Items that were handed out or emitted since, or are due already, do not change; nor does a
    definition if another version of it was defined meanwhile. Repeating it changes nothing. Raises
    Conflict, and changes nothing, if the digest of what there was to change when it was shown is
    another one now.
    """
    async with connection.transaction():
        await lock_tz_changes(connection)
        change = await _find_open(connection)
        if change is None:
            change = await _open_reviewed(connection, digest, from_at, actor_no)
    if change.digest != digest:
        raise Conflict(
            f"Another change is open and must be finished first: {change.actor} began it on"
            f" {change.opened_at:%Y-%m-%d %H:%M} UTC. To finish it: --apply {change.digest}",
            digest=change.digest,
        )
    crash_point("tz_change.opened")
    async for version in list_tz_change_versions(connection, change.change_no):
        if version.applied_at is None:
            await apply_version(connection, change, version, actor_no)
    return await _read(connection, digest)


async def _open_reviewed(
    connection: Connection, digest: str, from_at: datetime | None, actor_no: int
) -> TzChange:
    """Compute what there is to change, and open it if it has this digest.

    If it has not, and a change of this digest is applied already, return that one.
    """
    drawing = connection.transaction()
    await drawing.start()
    shown_at = _shown_at(digest) or await read_now(connection)
    found = await _record_differences(connection, shown_at, from_at, actor_no)
    if found.digest == digest:
        await drawing.commit()
        return found
    await drawing.rollback()
    if done := await list_tz_changes(connection, digest, limit=1):
        return done[0]
    raise Conflict(
        f"The changes differ from those reviewed as {digest}: items were claimed or fell due,"
        " a version was defined, or the tz database or --from is another. Review them again with"
        " --check-tz; --from leaves time for that.",
        digest=found.digest,
    )


async def _find_open(connection: Connection) -> TzChange | None:
    newest = await list_tz_changes(connection, limit=1)
    return newest[0] if newest and newest[0].closed_at is None else None


async def _read(connection: Connection, digest: str) -> TzChange:
    (found,) = await list_tz_changes(connection, digest, limit=1)
    return found


async def _record_differences(
    connection: Connection, shown_at: datetime, from_at: datetime | None, actor_no: int
) -> TzChange:
    """Record what is to be changed. The caller's transaction commits it or rolls it back."""
    from_at = from_at or shown_at + REVIEW_TIME
    newest = await list_tz_changes(connection, limit=1)
    number = newest[0].change_no + 1 if newest else 1
    before: set[str] = set()
    async for found in find_differences(connection, from_at, shown_at):
        if found.steps or found.failure:
            before.update(each.tzdata_before for each in found.steps if each.tzdata_before)
            await record_tz_steps(
                connection, number, found.version, found.steps, failure=found.failure
            )
    digest = await _digest(connection, number, shown_at, from_at)
    await open_tz_change(
        connection,
        number,
        digest,
        tzdata=tzdata_version(),
        tzdata_before=sorted(before),
        from_at=from_at,
        actor_no=actor_no,
    )
    return await _read(connection, digest)


async def _digest(
    connection: Connection, number: int, shown_at: datetime, from_at: datetime
) -> str:
    """Return the time at which a change was shown, and the SHA-256 of its steps, in hexadecimal.

    The steps by which an item is added do not count: a materialiser emits what its definition owes
    as well, and it may come first.
    """
    digest = sha256(_line(tzdata_version(), shown_at, from_at))
    async for each in list_tz_change_versions(connection, number):
        version = each.tenant, each.name, each.version, each.superseded_at
        async for steps in list_tz_steps(connection, number, each.definition_no):
            for step in steps:
                if step.step is not TzStepKind.ADDED:
                    to = step.due_at, step.decision, step.skip_reason
                    was = step.at, step.tzdata_before
                    digest.update(_line(*version, step.step.value, str(step.id), *was, *to))
    return f"{(shown_at - _EPOCH) // _MICROSECOND:x}-{digest.hexdigest()}"


def _shown_at(digest: str) -> datetime | None:
    """Return when the change of this digest was shown; None if it is no digest of a change."""
    try:
        return _EPOCH + int(digest.partition("-")[0], 16) * _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _line(*values: object) -> bytes:
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z)


async def apply_version(
    connection: Connection, change: TzChange, version: TzChangeVersion, actor_no: int
) -> None:
    """Apply the steps of one version in one transaction. Repeating it changes nothing."""
    number, items = version.definition_no, 0
    async with connection.transaction():
        await lock_versions(connection, version.tenant, version.name)
        if not await lock_tz_change_version(connection, change.change_no, number):
            return  # applied meanwhile, by another process
        (now,) = await read_versions(connection, [number])
        superseded = now.superseded_at != version.superseded_at
        if not superseded:
            async for steps in list_tz_steps(connection, change.change_no, number):
                items += await _apply(connection, change, number, steps, actor_no)
        await mark_tz_change_version(
            connection, change.change_no, number, items, superseded=superseded
        )
        crash_point("tz_change.applied")


async def _apply(
    connection: Connection,
    change: TzChange,
    definition_no: int,
    steps: Sequence[TzStep],
    actor_no: int,
) -> int:
    moved = [step for step in steps if step.step is not TzStepKind.ADDED]
    changed = await move_items(connection, change, definition_no, moved, actor_no=actor_no)
    drafts = [step.draft for step in steps if step.draft is not None]
    emitted = await emit_items(connection, drafts, actor_no=actor_no, definition_no=definition_no)
    return changed + sum(each.created for each in emitted)
