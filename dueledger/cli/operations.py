"""Commands for operations: the list, one of them, its approval, its pause and its end."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, LimitOption, ReasonOption
from dueledger.cli.output import (
    mark_capped,
    print_document,
    print_fields,
    print_lines,
    print_rows,
    say,
)
from dueledger.cli.session import ledger_connection, persons_change, run
from dueledger.refusals import approval_refusal, operation_refusal

if TYPE_CHECKING:
    from dueledger.cli.session import PersonsChange
    from dueledger.ledger.errors import NotFound
    from dueledger.ledger.store.operations import ChangedOperation

app = typer.Typer(rich_markup_mode=None)
operation = typer.Typer(
    help="Show operations on many items; approve, pause, resume and abort one.",
    rich_markup_mode=None,
)
app.add_typer(operation, name="operation")

OperationArgument = Annotated[
    int,
    typer.Argument(min=1, max=2**53, help="Number of an operation.", metavar="OPERATION"),
]
_COLUMNS: Final = (
    *("operation_no", "verb", "status", "tenant", "kind", "lane", "matched", "done", "requested"),
    *("as_of", "requested_by", "reason"),
)


@operation.command("list")
def list_(
    *,
    oldest_first: Annotated[bool, typer.Option("--oldest-first")] = False,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List operations with their progress, the newest first unless asked otherwise."""
    rows = run(_list(limit + 1, dsn, oldest_first=oldest_first))
    shown = rows[:limit]
    if json_:
        print_lines(shown)
    else:
        print_rows(
            [mark_capped(row) for row in shown], _COLUMNS, empty="There was no operation yet."
        )
    if len(rows) > limit:
        first = "oldest" if oldest_first else "newest"
        say(f"Only the {first} {limit:,} are shown; --limit shows more.")


@operation.command()
def show(operation_no: OperationArgument, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """Show one operation: its filter, its bounds, its progress, who asked and why."""
    _print(run(_show(operation_no, dsn)), as_json=json_)


@operation.command()
def pause(
    operation_no: OperationArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Pause an operation: no item is moved until it is resumed."""
    _print_change("pause", run(_pause(operation_no, reason, dsn)), as_json=json_)


@operation.command()
def resume(
    operation_no: OperationArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Resume a paused operation. It goes on after the items that it had moved."""
    _print_change("resume", run(_resume(operation_no, reason, dsn)), as_json=json_)


@operation.command()
def approve(
    operation_no: OperationArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Approve an operation that waits for a second person, and that somebody else asked for."""
    result, found = run(_approve(operation_no, reason, dsn))
    _print(found, as_json=json_)
    if result != "done":
        say(f"The operation is not approved: {approval_refusal(result)}. Nothing was changed.")
        options.exit_with(ExitCode.FAILED)


@operation.command()
def abort(
    operation_no: OperationArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """End an operation. Items that it has moved stay as they are."""
    _print_change("abort", run(_abort(operation_no, reason, dsn)), as_json=json_)


def _print_change(action: str, change: tuple[bool, dict[str, Any]], *, as_json: bool) -> None:
    is_changed, found = change
    _print(found, as_json=as_json)
    if not is_changed:
        refusal = operation_refusal(action, found["status"])
        say(f"The operation stays as it is: {refusal}. Nothing was changed.")
        options.exit_with(ExitCode.FAILED)


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_document(found)
    else:
        print_fields({name: each for name, each in mark_capped(found).items() if each is not None})
    if found["awaits_approval"]:
        say(
            "It waits for a second person: `dueledger operation approve "
            f"{found['operation_no']} --reason …`, by somebody else than who asked."
        )


async def _list(limit: int, dsn: str | None, *, oldest_first: bool) -> list[dict[str, Any]]:
    from dueledger.ledger.store.operations import list_operations

    async with ledger_connection(dsn) as connection:
        return await list_operations(connection, limit, oldest_first=oldest_first)


async def _show(operation_no: int, dsn: str | None) -> dict[str, Any]:
    from dueledger.ledger.store.operations import show_operation

    async with ledger_connection(dsn) as connection:
        found = await show_operation(connection, operation_no)
    if found is None:
        raise _unknown(operation_no)
    return found


def _unknown(operation_no: int) -> "NotFound":
    from dueledger.ledger.errors import NotFound

    message = f"there is no operation {operation_no}; `dueledger operation list` lists them"
    return NotFound(message, operation=operation_no)


async def _pause(operation_no: int, reason: str, dsn: str | None) -> tuple[bool, dict[str, Any]]:
    from dueledger.ledger.store.operations import pause_operation

    async with persons_change(dsn) as change:
        paused = await pause_operation(
            change.connection, operation_no, reason=reason, actor_no=change.actor_no
        )
        found = await _audit(change, "pauseOperation", operation_no, reason, _detail(paused))
    return paused is not None, found


async def _resume(operation_no: int, reason: str, dsn: str | None) -> tuple[bool, dict[str, Any]]:
    from dueledger.ledger.store.operations import resume_operation

    async with persons_change(dsn) as change:
        resumed = await resume_operation(change.connection, operation_no)
        found = await _audit(change, "resumeOperation", operation_no, reason, _detail(resumed))
    return resumed is not None, found


async def _approve(operation_no: int, reason: str, dsn: str | None) -> tuple[str, dict[str, Any]]:
    from dueledger.audited_changes import APPROVED
    from dueledger.ledger.store.operations import approve_operation

    async with persons_change(dsn) as change:
        result = await approve_operation(
            change.connection, operation_no, reason=reason, actor_no=change.actor_no
        )
        detail = dict(APPROVED) if result == "done" else None
        found = await _audit(change, "approveOperation", operation_no, reason, detail)
    return result, found


async def _abort(operation_no: int, reason: str, dsn: str | None) -> tuple[bool, dict[str, Any]]:
    from dueledger.ledger.store.operations import abort_operation

    async with persons_change(dsn) as change:
        aborted = await abort_operation(
            change.connection, operation_no, reason=reason, actor_no=change.actor_no
        )
        found = await _audit(change, "abortOperation", operation_no, reason, _detail(aborted))
    return aborted is not None, found


def _detail(changed: "ChangedOperation | None") -> "dict[str, Any] | None":
    from dueledger.audited_changes import operation_detail

    return None if changed is None else operation_detail(changed)


async def _audit(
    change: "PersonsChange",
    name: str,
    operation_no: int,
    reason: str,
    detail: "dict[str, Any] | None",
) -> dict[str, Any]:
    """Read the operation; record in the audit what was changed; None: nothing was."""
    from dueledger.ledger.store.operations import show_operation

    found = await show_operation(change.connection, operation_no)
    if found is None:
        raise _unknown(operation_no)
    if detail is not None:
        tenants = None if found["tenant"] is None else [found["tenant"]]
        await change.audit(name, f"operations/{operation_no}", tenants, reason, **detail)
    return found
