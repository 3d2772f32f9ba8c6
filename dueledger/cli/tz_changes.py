"""What a newer tz database changes: shown with its digest, and applied by that digest."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.output import print_document, print_lines, print_rows, say
from dueledger.cli.session import ledger_connection, register_person, run

if TYPE_CHECKING:
    from dueledger.ledger.store import Connection
    from dueledger.ledger.store.tz_changes import TzChange, TzChangeVersion, TzStep

_SHOWN_MAX: Final = 20
_HISTORY_MAX: Final = 1_000
_COLUMNS: Final = ("change", "cycle", "local", "due_at", "was", "was_tzdata")
_HISTORY_COLUMNS: Final = (
    *("change_no", "digest", "tzdata_before", "tzdata", "from", "opened_at", "closed_at"),
    *("actor", "definitions", "overtaken", "applied"),
)


def preview_change(dsn: str | None, *, from_at: datetime | None, as_json: bool) -> None:
    """Show what changes, by definition, and the digest by which it is applied.

    Ends with the exit code of findings where a definition could not be expanded.
    """
    options.exit_with(run(_preview(dsn, from_at, as_json=as_json)))


def apply_change(dsn: str | None, digest: str, *, from_at: datetime | None, as_json: bool) -> None:
    """Apply what was previewed under a digest, wholly, and show what became of it.

    Ends with the exit code of findings where a definition could not be expanded, or has another
    version by now.
    """
    options.exit_with(run(_apply(dsn, digest, from_at, as_json=as_json)))


def list_changes(dsn: str | None, *, as_json: bool) -> None:
    """List the changes that were applied, the newest first."""
    rows = run(_list(dsn))
    if as_json:
        print_lines(rows)
    else:
        print_rows(rows, _HISTORY_COLUMNS, empty="No tz database has changed anything yet.")


async def _preview(dsn: str | None, from_at: datetime | None, *, as_json: bool) -> ExitCode:
    from dueledger.ledger.materialise import preview_tz_change

    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        async with preview_tz_change(connection, actor_no=actor_no, from_at=from_at) as found:
            change, begun = found.change, found.is_open
            code = await _print_change(connection, change, begun=begun, as_json=as_json)
    command = f"dueledger materialise --check-tz --apply {change.digest}"
    if begun:
        say(f"{change.actor} began this on {change.opened_at:%Y-%m-%d %H:%M} UTC. Finish it:")
        say(command)
    elif change.definitions:
        say("Nothing was changed. This, and nothing else, is done by:")
        say(command if from_at is None else f"{command} --from {from_at.isoformat()}")
    return code


async def _apply(
    dsn: str | None, digest: str, from_at: datetime | None, *, as_json: bool
) -> ExitCode:
    from dueledger.ledger.materialise import apply_tz_change

    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        change = await apply_tz_change(connection, digest, actor_no=actor_no, from_at=from_at)
        async with connection.transaction(readonly=True):
            code = await _print_change(connection, change, begun=True, as_json=as_json)
        say(f"Change {change.change_no}: {change.applied:,} items.")
        return code


async def _list(dsn: str | None) -> list[dict[str, object]]:
    from dueledger.ledger.store.tz_changes import list_tz_changes

    async with ledger_connection(dsn) as connection:
        changes = await list_tz_changes(connection, limit=_HISTORY_MAX)
    return [
        {name: getattr(one, "from_at" if name == "from" else name) for name in _HISTORY_COLUMNS}
        for one in changes
    ]


async def _print_change(
    connection: "Connection", change: "TzChange", *, begun: bool, as_json: bool
) -> ExitCode:
    """Show a change by definition; return the exit code of what there is to find."""
    from dueledger.ledger.store.tz_changes import list_tz_change_versions, list_tz_steps

    code, steps_shown = ExitCode.DONE, 0
    async for version in list_tz_change_versions(connection, change.change_no):
        name = f"{version.tenant}/{version.name}, version {version.version}"
        if version.failure is not None:
            code = ExitCode.FINDINGS
            say(f"{name}, cannot be expanded; its waiting items stay: {version.failure}")
        if version.overtaken:
            code = ExitCode.FINDINGS
            say(f"{name}: another version was defined meanwhile, and so it stays: check again.")
        pages = list_tz_steps(connection, change.change_no, version.definition_no)
        if as_json:
            await _print_documents(_head(change, version, begun=begun), pages)
            continue
        steps_shown += await _print_table(name, pages)
        if version.items is not None:
            say(f"{version.items:,} changed.")
    if not steps_shown and not as_json:
        say(f"By tz database {change.tzdata} no waiting item changes its due time.")
    return code


def _head(change: "TzChange", version: "TzChangeVersion", *, begun: bool) -> dict[str, object]:
    return {
        "tenant": version.tenant,
        "definition": version.name,
        "version": version.version,
        "tzdata": change.tzdata,
        "digest": change.digest,
        "change_no": change.change_no if begun else None,
        "applied": version.items,
        "overtaken": version.overtaken,
        "failure": version.failure,
    }


async def _print_documents(head: dict[str, object], pages: "AsyncIterator[list[TzStep]]") -> None:
    """Print a document of a version; of one with many items, a document for each page of them."""
    printed = False
    async for steps in pages:
        print_document(head | {"items": [_row(step) for step in steps]})
        printed = True
    if not printed:
        print_document(head | {"items": list[object]()})


async def _print_table(name: str, pages: "AsyncIterator[list[TzStep]]") -> int:
    """Print the first items of a version and how many more there are; return how many it has."""
    count = 0
    async for steps in pages:
        if not count:
            say(f"{name}:")
            print_rows([_row(step) for step in steps[:_SHOWN_MAX]], _COLUMNS, empty="")
        count += len(steps)
    if count > _SHOWN_MAX:
        say(f"and {count - _SHOWN_MAX:,} more: --json has them all")
    return count


def _row(step: "TzStep") -> dict[str, object]:
    from dueledger.ledger.schedule.zones import load_zone
    from dueledger.ledger.store.tz_changes import TzStepKind

    local = step.due_at and f"{step.due_at.astimezone(load_zone(step.zone)):%Y-%m-%d %H:%M %Z}"
    return {
        "change": step.step.value,
        "id": str(step.id),
        "cycle": step.cycle,
        "local": local,
        "due_at": step.due_at,
        "was": None if step.step is TzStepKind.ADDED else step.at,
        "was_tzdata": step.tzdata_before,
    }
