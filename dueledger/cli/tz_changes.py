"""What a newer tz database moves: shown, and applied where it is asked for."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from dueledger.cli import options
from dueledger.cli.exits import Exit
from dueledger.cli.output import print_lines, print_rows, say

if TYPE_CHECKING:
    from ledger.materialise import ZoneChange
    from ledger.materialise.tz_check import Moved

_SHOWN_MAX: Final = 20


def check_zones(dsn: str | None, *, apply: bool, as_json: bool) -> None:
    """Show what moves, by definition; with `apply` move it, a transaction a definition.

    Ends with the exit code of findings where a definition could not be expanded.
    """
    from dueledger.cli.session import run

    documents = run(_check(dsn, apply=apply))
    _tell(documents, apply=apply, as_json=as_json)
    options.leave(Exit.FINDINGS if any(one["failure"] for one in documents) else Exit.DONE)


def _tell(documents: "list[dict[str, object]]", *, apply: bool, as_json: bool) -> None:
    from ledger.schedule import tzdata_version

    for document in documents:
        if document["failure"] is not None:
            name = f"{document['tenant']}/{document['definition']}, version {document['version']}"
            say(f"{name}, cannot be expanded, and so what waits of it stays: {document['failure']}")
    if as_json:
        print_lines(documents)
        return
    for document in documents:
        rows: list[dict[str, object]] = document["items"]  # pyright: ignore[reportAssignmentType]
        if not rows:
            continue
        say(f"{document['tenant']}/{document['definition']}, version {document['version']}:")
        columns = ("change", "cycle", "local", "due_at", "was", "was_tzdata")
        print_rows(rows[:_SHOWN_MAX], columns, empty="")
        if len(rows) > _SHOWN_MAX:
            say(f"and {len(rows) - _SHOWN_MAX:,} more: --json has them all")
        if apply:
            say(f"{document['applied']} changed.")
    if not any(document["items"] for document in documents):
        say(f"By tz database {tzdata_version()} nothing to come falls due at another instant.")
    elif not apply:
        say("Nothing was changed; --apply does it.")


async def _check(dsn: str | None, *, apply: bool) -> list[dict[str, object]]:
    from dueledger.cli.session import ledger_connection, person
    from ledger.materialise import apply_zone_change, find_zone_changes
    from ledger.schedule import tzdata_version

    documents: list[dict[str, object]] = []
    async with ledger_connection(dsn) as connection:
        for change in await find_zone_changes(connection):
            applied = (
                await apply_zone_change(connection, change, actor_no=await person(connection))
                if apply
                else 0
            )
            documents.append(
                {
                    "tenant": change.version.tenant,
                    "definition": change.version.name,
                    "version": change.version.version,
                    "tzdata": tzdata_version(),
                    "applied": applied,
                    "failure": change.failure,
                    "items": _items(change),
                }
            )
    return documents


def _items(change: "ZoneChange") -> list[dict[str, object]]:
    moved: list[dict[str, object]] = [
        {
            "change": _change(each),
            "id": str(each.id),
            "cycle": each.cycle,
            "local": _local(each.due_at, each.zone),
            "due_at": each.due_at,
            "was": each.was,
            "was_tzdata": each.was_tzdata,
        }
        for each in change.moved
    ]
    added: list[dict[str, object]] = [
        {
            "change": "added",
            "id": str(draft.id),
            "cycle": draft.cycle,
            "local": _local(draft.due_at, draft.zone or "UTC"),
            "due_at": draft.due_at,
            "was": None,
            "was_tzdata": None,
        }
        for draft in change.added
    ]
    return moved + added


def _change(moved: "Moved") -> str:
    if moved.due_at is not None:
        return "moved"
    return "withdrawn" if moved.skip_reason is None else "skipped"


def _local(instant: datetime | None, zone: str) -> str | None:
    from ledger.schedule.zones import load_zone

    return None if instant is None else f"{instant.astimezone(load_zone(zone)):%Y-%m-%d %H:%M %Z}"
