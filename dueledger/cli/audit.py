"""The command that lists what people, API keys and tokens changed."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from dueledger.cli.options import DsnOption, JsonOption, LimitOption, TenantOption, read_instant
from dueledger.cli.output import print_list
from dueledger.cli.session import ledger_connection, run

if TYPE_CHECKING:
    from dueledger.ledger.store.audit import AuditFilter

app = typer.Typer(rich_markup_mode=None)

_COLUMNS: Final = (
    "at",
    "actor",
    "login",
    "operation",
    "target",
    "reason",
    "before",
    "after",
    "detail",
)


@app.command()
def audit(
    tenant: TenantOption = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", help="Only by this one, as in person:jane, key:billing."),
    ] = None,
    operation: Annotated[
        str | None, typer.Option("--operation", help="Only this operation, as in pauseFlows.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Only of this, as in definitions/acme/statements."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only from this instant on.", metavar="INSTANT")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only before this instant.", metavar="INSTANT")
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first")] = False,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List what people, API keys and tokens changed, the newest first unless asked otherwise.

    Emissions, claims and outcomes are in the history of their items: `dueledger show ITEM`.
    """
    from dueledger.ledger.store.audit import AuditFilter

    wanted = AuditFilter(
        tenant=tenant,
        actor=actor,
        operation=operation,
        target=target,
        since=None if since is None else read_instant(since, "--since"),
        until=None if until is None else read_instant(until, "--until"),
    )
    rows = run(_list(wanted, limit + 1, dsn, oldest_first=oldest_first))
    print_list(rows, _COLUMNS, limit=limit, as_json=json_, empty="Nothing was changed.")


async def _list(
    wanted: "AuditFilter", limit: int, dsn: str | None, *, oldest_first: bool
) -> list[dict[str, object]]:
    from dueledger.ledger.store.audit import list_audit

    async with ledger_connection(dsn) as connection:
        rows = await list_audit(connection, wanted, limit, oldest_first=oldest_first)
    return [{name: value for name, value in row.items() if name != "audit_no"} for row in rows]
