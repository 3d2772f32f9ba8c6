"""Commands for repairs: the dry run, executing them, and approving those that wait."""

from typing import Annotated, Final
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.decisions import PrintedResult, print_results
from dueledger.cli.findings import FindingTypeOption, audit_decided, read_type
from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    KafkaOption,
    KindOption,
    LimitOption,
    ReasonOption,
    TenantOption,
)
from dueledger.cli.output import print_list, say
from dueledger.cli.reconciliation import (
    FromOption,
    RepairOption,
    ReportOption,
    SourcesOption,
    ToOption,
    print_result,
    read_dates,
)
from dueledger.cli.session import ledger_connection, person_name, persons_change, run
from dueledger.refusals import repair_refusal

app = typer.Typer(rich_markup_mode=None)
repair = typer.Typer(rich_markup_mode=None)
app.add_typer(repair, name="repair")

_COLUMNS: Final = (
    *("id", "type", "kind", "business_key", "action", "before", "after"),
    *("proposed_by", "held_because", "approved_by", "taken_by"),
)


@repair.callback(invoke_without_command=True)
def run_repairs(
    context: typer.Context,
    execute: Annotated[
        bool, typer.Option("--execute", help="Execute the repairs; default is a dry run.")
    ] = False,
    type_: FindingTypeOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, max=1_000_000, help="At most so many repairs."),
    ] = None,
    sources: SourcesOption = None,
    report: ReportOption = None,
    from_: FromOption = None,
    to: ToOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Reconcile and show what repairs change, or execute them.

    With --execute, they are executed and a second pass reconciles their outcome. `dueledger repair
    list` shows those that wait for a person, and `dueledger repair approve` approves them.
    """
    if context.invoked_subcommand is not None:
        options.refuse_before_subcommand(context)
        return
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.reconciler import (
        ReconcilerSettings,
        RepairSelection,
        load_sources,
        reconcile_once,
    )

    settings = read_settings(
        ReconcilerSettings,
        dsn=dsn,
        bootstrap_servers=bootstrap_servers,
        reconcile_repair=RepairOption.EXECUTE if execute else RepairOption.DRY_RUN,
    )
    selection = RepairSelection(read_type(type_), tenant, kind, limit)
    once_ended = reconcile_once(
        settings,
        load_sources(sources),
        mode=settings.reconcile_repair,
        dates=read_dates(from_, to),
        report_directory=report,
        selection=selection,
        proposer=person_name(),
    )
    result = run(once_ended)
    if not (result.planned or json_):
        say("No open finding that is meant has a repair.")
    print_result(result, as_json=json_)


@repair.command("list")
def list_(
    tenant: TenantOption = None,
    kind: KindOption = None,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List proposed repairs that were not executed yet, oldest first, with what each waits for."""
    rows = run(_list(tenant, kind, limit + 1, dsn))
    print_list(rows, _COLUMNS, limit=limit, as_json=json_, empty="No repair waits.")


@repair.command()
def approve(
    repairs: Annotated[list[UUID], typer.Argument(help="Ids of repairs.", metavar="REPAIR…")],
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Approve proposed repairs that somebody else proposed. The next pass executes them."""
    results = run(_approve(repairs, reason, dsn))
    print_results(
        [PrintedResult(each, result, repair_refusal(result)) for each, result in results.items()],
        as_json=json_,
    )


async def _list(
    tenant: str | None, kind: str | None, limit: int, dsn: str | None
) -> list[dict[str, object]]:
    from dueledger.ledger.store.repairs import list_waiting_repairs

    async with ledger_connection(dsn) as connection:
        return await list_waiting_repairs(connection, tenant, kind, limit)


async def _approve(repairs: list[UUID], reason: str, dsn: str | None) -> dict[UUID, str]:
    from dueledger.audited_changes import APPROVED
    from dueledger.ledger.store.repairs import approve_repairs

    async with persons_change(dsn) as change:
        results = await approve_repairs(
            change.connection, repairs, reason=reason, actor_no=change.actor_no
        )
        await audit_decided(change, "approveRepair", "repairs", results, reason, **APPROVED)
    return results
