"""Commands for flows: pause, resume, limits, and starting items now."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from dueledger.cli.flow_limits import read_limit, set_
from dueledger.cli.item_decisions import (
    DueBeforeOption,
    DueFromOption,
    ErrorOption,
    ExecuteOption,
    ItemSelection,
    KeyOption,
    SinceOption,
    decide,
)
from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    KindOption,
    LaneOption,
    LimitOption,
    ReasonOption,
    ScopeTenant,
    TenantOption,
    read_due_instant,
)
from dueledger.cli.output import (
    mark_capped,
    print_document,
    print_fields,
    print_lines,
    print_list,
    print_rows,
    say,
)
from dueledger.cli.session import ledger_connection, persons_change, run

if TYPE_CHECKING:
    from dueledger.ledger.store.flows import PauseResult, ResumeResult

app = typer.Typer(rich_markup_mode=None)
flow = typer.Typer(help="Show and change the limits of flows: tenant × kind × lane.")
app.add_typer(flow, name="flow")

ScopeKind = Annotated[
    str | None, typer.Argument(help="Only this kind; default is all kinds.", metavar="[KIND]")
]
_COLUMNS = (
    *("tenant", "kind", "lane", "weight", "rate_per_second", "concurrency_max", "window_items"),
    *("circuit", "circuit_limits", "paused_by", "due", "retries", "later", "serial"),
)


@app.command()
def pause(
    tenant: ScopeTenant,
    reason: ReasonOption,
    kind: ScopeKind = None,
    lane: LaneOption = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help="When it ends by itself; default: somebody resumes it. Again: moves the end.",
            metavar="TIME",
        ),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Stop claims of a tenant, kind or lane. Items already claimed go on."""
    end = None if until is None else read_due_instant(until, "--until")
    paused = run(_pause(tenant, kind, lane, reason, until=end, dsn=dsn))
    if json_:
        print_document(asdict(paused))
        return
    print_rows(paused.flows, ("tenant", "kind", "lane"), empty="No further flow was paused.")
    for pause in paused.pauses:
        until_text = "" if end is None else f" until {pause['paused_until']}"
        say(
            f"A pause is in force for {_scope(pause)}{until_text}: flows created in it are paused, "
            "too."
        )
    if not paused.pauses:
        say("There was a pause already, with its own reason; `dueledger flow pauses` lists it.")
    say("`dueledger resume` ends it.")


@app.command()
def resume(
    tenant: ScopeTenant,
    kind: ScopeKind = None,
    lane: LaneOption = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Items of each of its flows a second, at most, from now on.", metavar="RATE"
        ),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """End a pause, and all narrower ones in it. With a rate, each flow has it as its limit."""
    limit = None if rate is None else read_limit("rate_per_second", rate, "--rate", clears=False)
    resumed = run(_resume(tenant, kind, lane, limit, dsn))
    if json_:
        print_document(asdict(resumed))
        return
    columns = ("tenant", "kind", "lane", "still_paused", "pause_reason")
    print_rows([asdict(each) for each in resumed.flows], columns, empty="No flow was paused.")
    for ended in resumed.pauses:
        say(f"The pause for {_scope(ended)} ended: {ended['reason']}")
    if not resumed.pauses:
        say("There was no pause for it, nor in it; `dueledger flow pauses` lists those in force.")
    if any(each.still_paused for each in resumed.flows):
        say("A wider pause still covers some; `dueledger flow pauses` lists them.")


@flow.command("list")
def list_(
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    limit: LimitOption = 1000,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List flows with their limits and waiting items, counted up to 10,000: more is 10,000+."""
    rows = run(_list(tenant, kind, lane, limit + 1, dsn))
    if not json_:
        rows = [{**row, "circuit_limits": _circuit_limits(row)} for row in rows]
    empty = "There is no flow yet; the first emission creates one."
    print_list(rows, _COLUMNS, limit=limit, as_json=json_, empty=empty)


@flow.command()
def show(
    tenant: ScopeTenant,
    kind: Annotated[str, typer.Argument(help="Kind of the flow.", metavar="KIND")],
    lane: LaneOption = "",
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show one flow: its limits, what limits it now, and its waiting items."""
    from dueledger.flow_status import slowed_text
    from dueledger.ledger.errors import NotFound

    rows = run(_list(tenant, kind, lane, 1, dsn))
    if not rows:
        raise NotFound(
            f"there is no flow {tenant} × {kind} × {lane or 'default lane'}; "
            "`dueledger flow list` lists all flows",
            flow=f"{tenant}/{kind}/{lane}",
        )
    if json_:
        print_document(rows[0])
    else:
        print_fields({**mark_capped(rows[0]), "slowed": slowed_text(rows[0])})


@flow.command()
def pauses(tenant: TenantOption = None, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """List the pauses in force, with person and reason."""
    rows = run(_pauses(tenant, dsn))
    if json_:
        print_lines(rows)
    else:
        columns = ("tenant", "kind", "lane", "paused_at", "paused_until", "paused_by", "reason")
        print_rows(rows, columns, empty="Nothing is paused.")


flow.command("set")(set_)


@app.command()
def trigger(
    reason: ReasonOption,
    target: Annotated[
        str | None, typer.Argument(help="An item's id, or a definition.", metavar="[ITEM|NAME]")
    ] = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    cycle: Annotated[
        str | None,
        typer.Option(
            "--cycle",
            help="For a definition: the cycle; the same cycle is the same item.",
        ),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Make pending items available now, or emit one of a schedule now, in your name."""
    try:
        ids = None if target is None else [UUID(target)]
    except ValueError:
        ids = None
    named = ids, business_key, tenant, kind, lane
    selection = ItemSelection(*named, None, error, since, due_from, due_before)
    if target is None or ids is not None:
        if cycle is not None:
            raise typer.BadParameter("an item has its cycle already", param_hint="--cycle")
        decide("trigger", selection, reason, dsn, execute=execute, as_json=json_)
        return
    if tenant is None:
        raise typer.BadParameter("a definition needs its tenant", param_hint="--tenant")
    if execute or selection != ItemSelection(tenant=tenant):
        raise typer.BadParameter("a definition takes no filter of items: only --tenant and --cycle")
    result = run(_trigger(tenant, target, cycle, reason, dsn))
    if json_:
        print_document(result)
    else:
        print_fields({name: value for name, value in result.items() if value is not None})


@app.command()
def failing(
    tenant: TenantOption = None,
    kind: KindOption = None,
    failures: Annotated[
        int | None,
        typer.Option(
            min=1, help="Minimum number of failures in a row; default is each kind's limit."
        ),
    ] = None,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List business keys that failed several times in a row, with no completion since."""
    rows = run(_failing(tenant, kind, failures, limit + 1, dsn))
    columns = ("tenant", "kind", "business_key", "failures", "first_at", "last_at", "reason")
    empty = "No business key failed several times in a row."
    print_list(rows, columns, limit=limit, as_json=json_, empty=empty)


def _circuit_limits(row: Mapping[str, Any]) -> str | None:
    """Return the circuit's limits as text; None if the flow has no circuit."""
    if row["circuit_failure_ratio"] is None:
        return None
    return (
        f"{row['circuit_failure_ratio']:g} of {row['circuit_calls_min']:,} in "
        f"{row['circuit_window_seconds']:g} s, open for {row['circuit_rest_seconds']:g} s"
    )


def _scope(pause: Mapping[str, Any]) -> str:
    """Return the scope of a pause as text."""
    kind = pause["kind"] or "every kind"
    lane = "every lane" if pause["lane"] is None else pause["lane"] or "the default lane"
    return f"{pause['tenant']} × {kind} × {lane}"


async def _pause(
    tenant: str,
    kind: str | None,
    lane: str | None,
    reason: str,
    *,
    until: datetime | None,
    dsn: str | None,
) -> "PauseResult":
    from dueledger.audited_changes import pause_detail
    from dueledger.ledger.store.flows import FlowScope, pause_flows

    scope = FlowScope(tenant, kind, lane)
    async with persons_change(dsn) as change:
        paused = await pause_flows(
            change.connection, scope, reason=reason, actor_no=change.actor_no, until=until
        )
        if paused.pauses or paused.flows:
            detail = pause_detail(paused, until)
            await change.audit("pauseFlows", scope.path, [tenant], reason, **detail)
    return paused


async def _resume(
    tenant: str, kind: str | None, lane: str | None, rate: float | None, dsn: str | None
) -> "ResumeResult":
    from dueledger.audited_changes import resume_detail
    from dueledger.ledger.store.flows import FlowLimits, FlowScope, resume_flows, set_flow_limits

    scope = FlowScope(tenant, kind, lane)
    async with persons_change(dsn) as change:
        actor_no, limited = change.actor_no, list[dict[str, Any]]()
        if rate is not None:  # before any goes on
            limits = FlowLimits(rate_per_second=rate)
            limited = await set_flow_limits(change.connection, scope, limits, actor_no=actor_no)
        resumed = await resume_flows(change.connection, scope, actor_no=actor_no)
        if limited or resumed.pauses or resumed.flows:
            limit: dict[str, Any] = {} if rate is None else {"rate_per_second": rate}
            detail = resume_detail(resumed, limit, limited)
            await change.audit("resumeFlows", scope.path, [tenant], **detail)
    return resumed


async def _list(
    tenant: str | None, kind: str | None, lane: str | None, limit: int, dsn: str | None
) -> list[dict[str, Any]]:
    from dueledger.ledger.store.flows import list_flows

    async with ledger_connection(dsn) as connection:
        return await list_flows(connection, tenant=tenant, kind=kind, lane=lane, limit=limit)


async def _pauses(tenant: str | None, dsn: str | None) -> list[dict[str, Any]]:
    from dueledger.ledger.store.flows import list_pauses

    async with ledger_connection(dsn) as connection:
        return await list_pauses(connection, tenant)


async def _trigger(
    tenant: str, name: str, cycle: str | None, reason: str, dsn: str | None
) -> dict[str, Any]:
    from dataclasses import asdict

    from dueledger.definitions.trigger import trigger_definition

    async with persons_change(dsn) as change:
        triggered = await trigger_definition(
            change.connection,
            tenant,
            name,
            cycle=cycle,
            reason=reason,
            actor_no=change.actor_no,
        )
        if triggered.created:
            made = {"cycle": triggered.cycle, "item": triggered.id}
            target = f"definitions/{tenant}/{name}"
            await change.audit("triggerDefinition", target, [tenant], reason, **made)
    return asdict(triggered) | {"remedy": triggered.remedy}


async def _failing(
    tenant: str | None, kind: str | None, failures: int | None, limit: int, dsn: str | None
) -> list[dict[str, Any]]:
    from dueledger.ledger.store.flow_limits import list_streaks

    async with ledger_connection(dsn) as connection:
        return await list_streaks(
            connection, tenant=tenant, kind=kind, failures_min=failures, limit=limit
        )
