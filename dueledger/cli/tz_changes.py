"""What a newer tz database changes: shown with its digest, and applied by that digest."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, groupby
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

import orjson

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.output import format_document, print_lines, print_rows, say
from dueledger.cli.session import ledger_connection, register_person, run

if TYPE_CHECKING:
    from dueledger.ledger.store import Connection
    from dueledger.ledger.store.tz_changes import TzChange, TzChangeVersion, TzStep

_SHOWN_MAX: Final = 20
_SPOOL_BYTES: Final = 16_000_000
_HISTORY_MAX: Final = 1_000
_VERSION_COLUMNS: Final = ("tenant", "definition", "version")
_COLUMNS: Final = ("change", "cycle", "local", "due_at", "was", "was_tzdata")
_HISTORY_COLUMNS: Final = (
    *("change_no", "digest", "tzdata_before", "tzdata", "from", "opened_at", "closed_at"),
    *("actor", "definitions", "superseded", "applied"),
)


def show_change(dsn: str | None, *, from_at: datetime | None, as_json: bool) -> None:
    """Show what changes, by definition, and the digest by which it is applied.

    Ends with the exit code of findings where a definition could not be expanded.
    """
    options.exit_with(run(_preview(dsn, from_at, as_json=as_json)))


def apply_change(dsn: str | None, digest: str, *, from_at: datetime | None, as_json: bool) -> None:
    """Apply what was previewed under a digest, wholly, and show the result.

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

    with _open_spool() as spool:
        async with ledger_connection(dsn) as connection:
            actor_no = await register_person(connection)
            async with preview_tz_change(connection, actor_no=actor_no, from_at=from_at) as found:
                change, begun = found.change, found.is_open
                await _write_documents(spool, connection, change, begun=begun)
        code = _print_change(spool, change, as_json=as_json)
    command = f"dueledger materialise --check-tz --apply {change.digest}"
    if begun:
        say(f"{change.actor} began this on {change.opened_at:%Y-%m-%d %H:%M} UTC. Finish it:")
        say(command)
    elif change.definitions:
        say("Nothing was changed. To apply exactly these changes:")
        say(command if from_at is None else f"{command} --from {from_at.isoformat()}")
    return code


async def _apply(
    dsn: str | None, digest: str, from_at: datetime | None, *, as_json: bool
) -> ExitCode:
    from dueledger.ledger.materialise import apply_tz_change

    with _open_spool() as spool:
        async with ledger_connection(dsn) as connection:
            actor_no = await register_person(connection)
            change = await apply_tz_change(connection, digest, actor_no=actor_no, from_at=from_at)
            async with connection.transaction(readonly=True):
                await _write_documents(spool, connection, change, begun=True)
        code = _print_change(spool, change, as_json=as_json)
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


def _open_spool() -> IO[bytes]:
    """Open a file for what is read in a transaction and printed after it.

    Somebody who reads the output by the page would keep the transaction open.
    """
    return SpooledTemporaryFile(max_size=_SPOOL_BYTES)


async def _write_documents(
    spool: IO[bytes], connection: "Connection", change: "TzChange", *, begun: bool
) -> None:
    """Write a document of each version; of one with many items, a document for each page."""
    from dueledger.ledger.store.tz_changes import list_tz_change_versions, list_tz_steps

    async for version in list_tz_change_versions(connection, change.change_no):
        head = _head(change, version, begun=begun)
        written = False
        async for steps in list_tz_steps(connection, change.change_no, version.definition_no):
            spool.write(format_document(head | {"items": [_row(step) for step in steps]}))
            written = True
        if not written:
            spool.write(format_document(head | {"items": list[object]()}))
    spool.seek(0)


def _print_change(spool: IO[bytes], change: "TzChange", *, as_json: bool) -> ExitCode:
    """Show a change by definition; return the exit code of what there is to find."""
    code, items_shown = ExitCode.DONE, 0
    for _, pages in groupby(map(orjson.loads, spool), itemgetter(*_VERSION_COLUMNS)):
        is_whole, count = _print_version(pages, as_json=as_json)
        code = code if is_whole else ExitCode.FINDINGS
        items_shown += count
    if not items_shown and not as_json:
        say(f"By tz database {change.tzdata} no pending item changes its due time.")
    return code


def _print_version(pages: Iterator[dict[str, Any]], *, as_json: bool) -> tuple[bool, int]:
    """Show a version; return whether it can be changed, and how many items a table shows of it."""
    page = next(pages)
    name = f"{page['tenant']}/{page['definition']}, version {page['version']}"
    if page["failure"] is not None:
        say(f"{name}, cannot be expanded; its pending items stay: {page['failure']}")
    if page["superseded"]:
        say(f"{name}: another version was defined in the meantime, so this one stays: check again.")
    is_whole = page["failure"] is None and not page["superseded"]
    if as_json:
        print_lines(chain([page], pages))
        return is_whole, 0
    if page["items"]:
        say(f"{name}:")
        print_rows(page["items"][:_SHOWN_MAX], _COLUMNS, empty="")
    count = len(page["items"]) + sum(len(each["items"]) for each in pages)
    if count > _SHOWN_MAX:
        say(f"and {count - _SHOWN_MAX:,} more: --json has them all")
    if page["applied"] is not None:
        say(f"{page['applied']:,} changed.")
    return is_whole, count


def _head(change: "TzChange", version: "TzChangeVersion", *, begun: bool) -> dict[str, object]:
    return {
        "tenant": version.tenant,
        "definition": version.name,
        "version": version.version,
        "tzdata": change.tzdata,
        "digest": change.digest,
        "change_no": change.change_no if begun else None,
        "applied": version.items,
        "superseded": version.superseded,
        "failure": version.failure,
    }


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
