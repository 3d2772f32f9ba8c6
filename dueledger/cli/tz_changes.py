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


def check_zones(dsn: str | None, *, from_at: datetime | None, as_json: bool) -> None:
    """Show what changes, by definition, and the digest by which it is applied.

    Ends with the exit code of findings where a definition could not be expanded.
    """
    options.exit_with(run(_review(dsn, from_at, as_json=as_json)))


def apply_zones(dsn: str | None, digest: str, *, from_at: datetime | None, as_json: bool) -> None:
    """Apply what was reviewed under a digest, wholly, and show what became of it.

    Ends with the exit code of findings where a definition could not be expanded, or has another
    version by now.
    """
    options.exit_with(run(_apply(dsn, digest, from_at, as_json=as_json)))


def list_zones(dsn: str | None, *, as_json: bool) -> None:
    """List the changes that were applied, the newest first."""
    rows = run(_list(dsn))
    if as_json:
        print_lines(rows)
        return
    columns = (
        *("change_no", "digest", "tzdata_before", "tzdata", "from", "opened_at", "closed_at"),
        *("actor", "definitions", "overtaken", "applied"),
    )
    print_rows(rows, columns, empty="No tz database has changed anything yet.")


async def _review(dsn: str | None, from_at: datetime | None, *, as_json: bool) -> ExitCode:
    from dueledger.ledger.materialise import preview_tz_change

    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        async with preview_tz_change(connection, actor_no=actor_no, from_at=from_at) as found:
            change, begun = found.change, found.is_partly_applied
            code = await _print_change(connection, change, begun=begun, as_json=as_json)
    since = "" if from_at is None else f" --from {from_at.isoformat()}"
    command = f"dueledger materialise --check-tz --apply {change.digest}"
    if begun:
        say(f"{change.actor} began this on {change.opened_at:%Y-%m-%d %H:%M} UTC. Finish it:")
        say(command)
    elif change.parts:
        say("Nothing was changed. This, and nothing else, is done by:")
        say(f"{command}{since}")
    return code


async def _apply(
    dsn: str | None, digest: str, from_at: datetime | None, *, as_json: bool
) -> ExitCode:
    from dueledger.ledger.materialise import apply_tz_change

    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        change = await apply_tz_change(connection, digest, actor_no=actor_no, from_at=from_at)
        code = await _print_change(connection, change, begun=True, as_json=as_json)
        say(f"Change {change.change_no}: {change.items:,} items.")
        return code


async def _list(dsn: str | None) -> list[dict[str, object]]:
    from dueledger.ledger.store.tz_changes import list_zone_changes

    async with ledger_connection(dsn) as connection:
        changes = await list_zone_changes(connection, limit=_HISTORY_MAX)
    return [
        {
            "change_no": one.change_no,
            "digest": one.digest,
            "tzdata": one.tzdata,
            "tzdata_before": one.tzdata_before,
            "from": one.from_at,
            "opened_at": one.opened_at,
            "closed_at": one.closed_at,
            "actor": one.actor,
            "definitions": one.parts,
            "overtaken": one.overtaken,
            "applied": one.items,
        }
        for one in changes
    ]


async def _print_change(
    connection: "Connection", change: "TzChange", *, begun: bool, as_json: bool
) -> ExitCode:
    """Show a change by definition; return the exit code of what there is to find."""
    from dueledger.ledger.store.tz_changes import list_zone_parts

    code, anything = ExitCode.DONE, False
    async for part in list_zone_parts(connection, change.change_no):
        name = f"{part.tenant}/{part.name}, version {part.version}"
        if part.failure is not None:
            code = ExitCode.FINDINGS
            say(f"{name}, cannot be expanded, and so what waits of it stays: {part.failure}")
        if part.overtaken:
            code = ExitCode.FINDINGS
            say(f"{name}: another version was defined meanwhile, and so it stays: check again.")
        pages = _pages(connection, change, part)
        head = _head(change, part, begun=begun)
        anything |= await (_print_json(head, pages) if as_json else _print(name, pages))
        if part.items is not None and not as_json:
            say(f"{part.items:,} changed.")
    if not anything and not as_json:
        say(f"By tz database {change.tzdata} nothing to come falls due at another instant.")
    return code


async def _pages(
    connection: "Connection", change: "TzChange", part: "TzChangeVersion"
) -> AsyncIterator[list[dict[str, object]]]:
    from dueledger.ledger.materialise.tz_change import STEPS_PAGE
    from dueledger.ledger.store.tz_changes import list_zone_steps

    numbers = change.change_no, part.definition_no
    async for steps in list_zone_steps(connection, *numbers, page=STEPS_PAGE):
        yield [_row(step) for step in steps]


def _head(change: "TzChange", part: "TzChangeVersion", *, begun: bool) -> dict[str, object]:
    return {
        "tenant": part.tenant,
        "definition": part.name,
        "version": part.version,
        "tzdata": change.tzdata,
        "digest": change.digest,
        "change_no": change.change_no if begun else None,
        "applied": part.items,
        "overtaken": part.overtaken,
        "failure": part.failure,
    }


async def _print_json(
    head: dict[str, object], pages: AsyncIterator[list[dict[str, object]]]
) -> bool:
    """Print a document of a version; of one with many items, a document for each page of them."""
    printed = False
    async for items in pages:
        print_document(head | {"items": items})
        printed = True
    if not printed:
        none: list[dict[str, object]] = []
        print_document(head | {"items": none})
    return printed


async def _print(name: str, pages: AsyncIterator[list[dict[str, object]]]) -> bool:
    """Print the first items of a version, and how many more there are."""
    count = 0
    async for items in pages:
        if not count:
            say(f"{name}:")
            print_rows(items[:_SHOWN_MAX], _COLUMNS, empty="")
        count += len(items)
    if count > _SHOWN_MAX:
        say(f"and {count - _SHOWN_MAX:,} more: --json has them all")
    return count > 0


def _row(step: "TzStep") -> dict[str, object]:
    from dueledger.ledger.store.tz_changes import TzStepKind

    return {
        "change": step.step.value,
        "id": str(step.id),
        "cycle": step.cycle,
        "local": _local(step.due_at, step.zone),
        "due_at": step.due_at,
        "was": None if step.step is TzStepKind.ADDED else step.at,
        "was_tzdata": step.tzdata_before,
    }


def _local(instant: datetime | None, zone: str) -> str | None:
    from dueledger.ledger.schedule.zones import load_zone

    return None if instant is None else f"{instant.astimezone(load_zone(zone)):%Y-%m-%d %H:%M %Z}"
