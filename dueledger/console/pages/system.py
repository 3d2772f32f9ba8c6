"""The system: alerts, processes, topics, checks of the ledger, settings."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final

from fastapi import Depends, Request, Response

from dueledger.alerts.open_alerts import list_open_alerts
from dueledger.console.cells import count_of
from dueledger.console.firing_alerts import sentence_of
from dueledger.console.forms import form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import UNPAGED_ROWS_MAX, CurrentView, View
from dueledger.ledger.errors import NotPermitted
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.clock import read_machine_now
from dueledger.ledger.store.passes import list_watermarks, read_last_pass
from dueledger.ledger.store.processes import (
    DrainResult,
    ProcessRow,
    ProcessStatus,
    count_leases,
    list_processes,
)
from dueledger.ledger.store.topic_partitions import list_topic_partitions, list_topics
from dueledger.ledger_checks import Health
from dueledger.refusals import drain_refusal
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes import system
from dueledger.service.routes.fields import Key, Text
from dueledger.service.routes.system import LEASES_MAX, DrainRequest, shown_settings
from dueledger.time_spans import brief_span

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

PROCESSES_MAX: Final = 200
TOPICS_MAX: Final = 100
PARTITIONS_MAX: Final = 500
_MINUTE: Final = 60.0


class DrainForm(DrainRequest):
    """A process to drain, and why."""

    name: Key


def _require_all_tenants(call: ApiCall) -> None:
    if call.tenants is not None:
        raise NotPermitted("The page is of the whole ledger. Sign in by a key for all tenants.")


async def _call_of_all(call: CurrentCall) -> ApiCall:
    """Return the call, before its form is read, if it is of a caller for all tenants."""
    _require_all_tenants(call)
    return call


@read.page("/system")
async def show_system(call: CurrentCall, view: CurrentView, request: Request) -> Response:
    """Show alerts, processes, those that do not live first, topics, health, and settings."""
    _require_all_tenants(call)
    # Processes, topics and alerts have the machine's time, which is not that of a simulated clock.
    now, business = await read_machine_now(call.connection), view.clock
    view = replace(view, clock=replace(view.clock, now=now))
    checks = await system.check_all(call)
    alerts = await list_open_alerts(call.connection, None)
    topics = await list_topics(call.connection, view.rows_max(TOPICS_MAX) + 1)
    processes = await list_processes(call.connection, view.rows_max(PROCESSES_MAX) + 1)
    listed = processes[: view.rows_max(PROCESSES_MAX)]
    leases = await count_leases(call.connection, LEASES_MAX)
    known = {each.process_no for each in processes}
    return view.page(
        "system.html",
        title="System",
        pulled=sum(held for number, (held, _) in leases.items() if number not in known),
        last_pass=await read_last_pass(call.connection),
        business=business,
        least_complete=next(iter(await list_watermarks(call.connection, limit=1)), None),
        passes=_list_passes(view, listed),
        bad=[each for each in checks if each.health is not Health.OK],
        alerts=_list(
            "Firing alerts",
            _alert_columns(view),
            [{**each, "summary": sentence_of(each)} for each in alerts],
            "No alert fires. Without `dueledger alert`, Prometheus evaluates the rules.",
        ),
        topics=_list(
            "Topics",
            _topic_columns(view),
            topics[: view.rows_max(TOPICS_MAX)],
            "No kind has a topic yet. The first item of a kind makes one.",
            order="largest lag first",
            note=view.cut_note(topics, TOPICS_MAX),
        ),
        checks=_list(
            "Checks of the ledger",
            _CHECK_COLUMNS,
            [
                {
                    "name": each.name.replace("_", " "),
                    "health": each.health,
                    "text": each.text,
                    "remedy": each.remedy,
                }
                for each in checks
            ],
            "",
        ),
        settings=_list(
            "Settings of this process",
            _SETTING_COLUMNS,
            [
                {**each, "is_set": "yes" if each["is_set"] else None}
                for each in shown_settings(request.app.state.settings)
            ],
            "",
        ),
        listing=Listing(
            caption="Processes",
            order="longest without a sign of life first, those that live by role",
            columns=_process_columns(view),
            rows=[
                {
                    "name": each.name,
                    "role": each.role.label,
                    "status": _status(each),
                    "seen_at": each.seen_at,
                    "host": each.host,
                    "version": each.version,
                    "started_at": each.started_at,
                    "leases": held,
                    "leases_capped": is_capped,
                    "failure": each.failure,
                    "failing_since": each.failing_since,
                    "certificate_expires_at": each.certificate_expires_at,
                }
                for each in listed
                for held, is_capped in [leases.get(each.process_no, (0, False))]
            ],
            empty="No process runs. `dueledger allocate` claims what is due.",
            note=view.cut_note(processes, PROCESSES_MAX),
        ),
    )


@read.page("/system/process")
async def show_process(
    call: CurrentCall, view: CurrentView, name: Annotated[str, Text] = ""
) -> Response:
    """Show a process, and whether it drains."""
    _require_all_tenants(call)
    now = await read_machine_now(call.connection)
    view = replace(view, clock=replace(view.clock, now=now))
    rows = await list_processes(call.connection, UNPAGED_ROWS_MAX)
    found = next((each for each in rows if each.name == name), None)
    refusal = None if found is None else drain_refusal(_drain_result(found))
    leases = {} if found is None else await count_leases(call.connection, LEASES_MAX)
    held, is_capped = leases.get(0 if found is None else found.process_no, (0, False))
    return view.page(
        "process.html",
        title=name or "Process",
        process=found,
        status=None if found is None else _status(found),
        took="" if found is None else _took(found.tick_seconds),
        refusal=refusal,
        leases=held,
        leases_capped=is_capped,
        may_drain=found is not None and view.may(Scope.OPERATE),
    )


@operate.action("/system/drain", "drainProcess")
async def drain(
    call: Annotated[ApiCall, Depends(_call_of_all)],
    view: CurrentView,
    form: Annotated[DrainForm, Depends(form_of(DrainForm))],
) -> Response:
    """Ask a process to drain and stop."""
    await system.drain(call, form.name, DrainRequest(reason=form.reason))
    return view.done("It is asked to drain and stop.", "/system/process", name=form.name)


@read.page("/system/topic")
async def show_topic(
    call: CurrentCall, view: CurrentView, name: Annotated[str, Text] = ""
) -> Response:
    """Show how far the consumers of a topic are behind, by partition."""
    _require_all_tenants(call)
    rows = await list_topic_partitions(call.connection, name, view.rows_max(PARTITIONS_MAX) + 1)
    return view.page(
        "topic.html",
        title=name or "Topic",
        listing=Listing(
            caption="Partitions",
            order="largest lag first",
            columns=_PARTITION_COLUMNS,
            rows=rows[: view.rows_max(PARTITIONS_MAX)],
            empty="No published item waits in its partitions: all were started.",
            note=view.cut_note(rows, PARTITIONS_MAX),
        ),
    )


def _status(process: ProcessRow) -> str:
    """Return the status of a process as people see it: of one that lives, whether it drains."""
    is_draining = process.draining_since is not None and process.status is ProcessStatus.LIVE
    return "draining" if is_draining else process.status


def _drain_result(process: ProcessRow) -> str:
    """Return what `request_drain` would answer about a process as it is now."""
    if process.status is ProcessStatus.GONE:
        return DrainResult.GONE
    return DrainResult.DONE if process.drains else DrainResult.UNABLE


def _process_columns(view: View) -> Sequence[Column]:
    def address(row: Row) -> str:
        return view.url("/system/process", name=row["name"])

    def running(row: Row) -> str:
        return view.url("/items", worker=row["name"])

    return (
        Column("name", "Process", "text", address),
        Column("role", "Role"),
        Column("status", "Status", "status"),
        Column("seen_at", "Last seen", "time"),
        Column("host", "Host"),
        Column("version", "Version"),
        Column("started_at", "Started", "time"),
        Column("leases", "Leases", "count", running, "leases_capped"),
        Column("failure", "Cannot take work", "prose"),
        Column("failing_since", "Since", "time"),
        Column("certificate_expires_at", "Certificate until", "time"),
    )


def _list_passes(view: View, processes: Sequence[ProcessRow]) -> Listing:
    """Return the last passes of allocators, reconcilers and relays as a list."""

    def address(row: Row) -> str:
        return view.url("/system/process", name=row["name"])

    return Listing(
        caption="Last passes",
        columns=(
            Column("name", "Process", "text", address),
            Column("ticked_at", "Last pass ended", "time"),
            Column("took", "Took", by="tick_seconds"),
            Column("outbox", "Outbox rows", by="outbox_items"),
        ),
        rows=[
            {
                "name": each.name,
                "ticked_at": each.ticked_at,
                "took": _took(each.tick_seconds),
                "tick_seconds": each.tick_seconds,
                "outbox": _outbox(each),
                "outbox_items": each.outbox_items,
            }
            for each in processes
            if each.ticked_at is not None
        ],
        empty="No allocator, reconciler or relay has ended a pass yet.",
    )


def _outbox(process: ProcessRow) -> str | None:
    if process.outbox_items is None:
        return None
    return count_of(process.outbox_items, capped=process.outbox_capped)


def _took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds < _MINUTE else brief_span(timedelta(seconds=seconds))


def _list(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    empty: str,
    *,
    order: str | None = None,
    note: str | None = None,
) -> Listing:
    return Listing(caption=caption, columns=columns, rows=rows, empty=empty, order=order, note=note)


def _topic_columns(view: View) -> Sequence[Column]:
    def partitions(row: Row) -> str:
        return view.url("/system/topic", name=row["topic"])

    return (
        Column("topic", "Topic", "code", partitions),
        Column("kinds", "Kinds", "count"),
        Column("dispatch", "Dispatch"),
        Column("items", "Lag", "count", partitions),
        Column("oldest_at", "Oldest claim", "time"),
        Column("workers", "Workers", "count"),
        Column("granted", "Asked for by workers", "count"),
        Column("silent_since", "Silent since", "time"),
        Column("stalled_partitions", "Stalled partitions", "count"),
        Column("unavailable", "Cannot be published to", "prose"),
    )


def _alert_columns(view: View) -> Sequence[Column]:
    def address(row: Row) -> str:
        return f"{view.url('/runbook')}#{row['alert'].lower()}"

    return (
        Column("alert", "Alert"),
        Column("severity", "Severity", "status"),
        Column("summary", "What is wrong", "prose"),
        Column("since", "Since", "time"),
        Column("runbook", "What to do", "action", address),
    )


_PARTITION_COLUMNS: Final[Sequence[Column]] = (
    Column("partition", "Partition", "id"),
    Column("items", "Lag", "count"),
    Column("oldest_at", "Oldest claim", "time"),
    Column("next_offset", "Next offset"),
    Column("end_offset", "End offset"),
    Column("stalled_at", "Stalled since", "time"),
    Column("expirations", "Expired in a row", "count"),
    Column("backs_off_until", "Waits until", "time"),
)
_CHECK_COLUMNS: Final[Sequence[Column]] = (
    Column("name", "Check"),
    Column("health", "Health", "status"),
    Column("text", "Found", "prose"),
    Column("remedy", "What to do", "prose"),
)
_SETTING_COLUMNS: Final[Sequence[Column]] = (
    Column("variable", "Setting", "code"),
    Column("value", "Value", "prose"),
    Column("is_set", "Set"),
    Column("description", "What it is", "prose"),
)
