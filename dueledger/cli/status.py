"""The command `status`: what is late, for whom, and why, on one screen."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    KindOption,
    LaneOption,
    LimitOption,
    TenantOption,
)
from dueledger.cli.output import (
    CappedCount,
    count_text,
    mark_capped,
    open_console,
    print_document,
    print_text,
)
from dueledger.cli.session import ledger_connection, run
from dueledger.ledger.visible_text import visible

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console, Group
    from rich.table import Table

    from dueledger.flow_status import FlowGroup, LedgerStatus

WATCH_SECONDS: Final = 2.0

app = typer.Typer(rich_markup_mode=None)
_COLUMNS: Final = (
    *(("due", 7), ("oldest due", 13), ("blocked", 7), ("running", 7), ("retrying", 8)),
    ("parked", 7),
)
_FLOW_WIDTH_MIN: Final = 24
_FLOW_WIDTH_MAX: Final = 80


@app.command()
def status(
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Read it again every two seconds, until Ctrl-C.")
    ] = False,
    limit: LimitOption = 30,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show what is late, for whom, and why, on one screen: flows by what hinders them."""
    run(_status(dsn, (tenant, kind, lane), limit, watch=watch, as_json=json_))


async def _status(
    dsn: str | None,
    scope: tuple[str | None, str | None, str | None],
    limit: int,
    *,
    watch: bool,
    as_json: bool,
) -> None:
    readings = _read(dsn, scope, limit, watch=watch)
    if as_json:
        async for reading in readings:
            print_document(reading.document())
        return
    console = open_console(stderr=False)
    if not watch:
        async for reading in readings:
            console.print(make_screen(reading, console))
        return
    if not console.is_terminal:
        async for reading in readings:
            print_text("".join(f"{line}\n" for line in make_lines(reading)))
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        async for reading in readings:
            live.update(make_screen(reading, console), refresh=True)


async def _read(
    dsn: str | None,
    scope: tuple[str | None, str | None, str | None],
    limit: int,
    *,
    watch: bool,
) -> "AsyncGenerator[LedgerStatus]":
    """Read the status once, or every two seconds over one connection until a signal.

    A signal ends the pause, not a read: a statement that is cancelled as its answer arrives may
    lose the cancellation. Raises KeyboardInterrupt.
    """
    from dueledger.flow_status import make_status
    from dueledger.ledger.runtime.service import Stop
    from dueledger.ledger.store.clock import read_now
    from dueledger.ledger.store.flows import read_status
    from dueledger.ledger.store.processes import read_roles

    tenant, kind, lane = scope
    stop = Stop()
    if watch:
        stop.on_signals()
    async with ledger_connection(dsn) as connection:
        while True:
            flows = await read_status(connection, tenant=tenant, kind=kind, lane=lane, limit=limit)
            roles = await read_roles(connection)
            yield make_status(await read_now(connection), flows, roles)
            if not watch:
                return
            if await stop.wait(WATCH_SECONDS):
                raise KeyboardInterrupt


def make_screen(status: "LedgerStatus", console: "Console") -> "Group":
    """Return the screen: a line about all flows, and a table for each hindrance."""
    from rich.console import Group
    from rich.text import Text

    from dueledger.flow_status import describe_processes

    others = sum(width + 1 for _, width in _COLUMNS)
    flow_width = min(max(console.width - others, _FLOW_WIDTH_MIN), _FLOW_WIDTH_MAX)
    parts: list[Text | Table] = [Text(_heading(status), style="bold")]
    parts += [Text(visible(line)) for line in describe_processes(status.roles)]
    for group in status.groups:
        parts += [Text(), Text(_sentence(group), style="bold"), _table(group, status, flow_width)]
    if any(flow["is_past_sla"] for group in status.groups for flow in group.flows):
        parts += [Text(), Text("! past its SLA")]
    return Group(*parts)


def _heading(status: "LedgerStatus") -> str:
    due, parked = (
        count_text(CappedCount(count) if is_capped else count)
        for count, is_capped in (
            (status.due, status.due_capped),
            (status.parked, status.parked_capped),
        )
    )
    counts = f"{status.now:%Y-%m-%d %H:%M:%S} UTC  {due} due, {parked} parked"
    if not status.groups:
        return f"{counts}: no flow has open items"
    shown, flows = status.shown_count, status.flow_count
    if shown < flows:
        return f"{counts}; {shown:,} of {flows:,} flows (--limit)"
    return f"{counts}, in {flows:,} {'flow' if flows == 1 else 'flows'}"


def _sentence(group: "FlowGroup") -> str:
    from dueledger.hindrance_texts import TEXTS

    return f"{group.code}  {TEXTS[group.code].of_flow}"


def _table(group: "FlowGroup", status: "LedgerStatus", flow_width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("tenant, kind, lane", width=flow_width, overflow="fold")
    for name, width in _COLUMNS:
        table.add_column(name, width=width, justify="right", no_wrap=True)
    for flow in group.flows:
        table.add_row(Text(_name(flow)), *(Text(cell) for cell in _cells(flow, status.now)))
    return table


def _name(flow: Mapping[str, Any]) -> str:
    return visible(" ".join(part for part in (flow["tenant"], flow["kind"], flow["lane"]) if part))


def _cells(flow: Mapping[str, Any], now: "datetime") -> list[str]:
    from dueledger.time_spans import brief_span

    row = mark_capped(flow)
    oldest = flow["oldest_due_at"]
    age = "" if oldest is None else brief_span(now - oldest)
    started = flow["started"]
    due, blocked, retrying, parked = (
        count_text(row[name]) for name in ("due", "blocked", "retrying", "parked")
    )
    running = "many" if started is None else count_text(started)
    return [
        due,
        f"{age} !".strip() if flow["is_past_sla"] else age,
        blocked,
        running,
        retrying,
        parked,
    ]


def make_lines(status: "LedgerStatus") -> list[str]:
    """Return the status as lines, one a flow, for a log or a pipe."""
    from dueledger.flow_status import describe_processes

    lines = [_heading(status), *map(visible, describe_processes(status.roles))]
    for group in status.groups:
        for flow in group.flows:
            due, age, blocked, running, retrying, parked = _cells(flow, status.now)
            oldest = f" (the oldest for {age})" if flow["oldest_due_at"] else ""
            lines.append(
                f"{status.now:%H:%M:%S}  {group.code}  {_name(flow)}: due {due}{oldest}, blocked "
                f"{blocked}, running {running}, retrying {retrying}, parked {parked}"
            )
    return lines
