"""The system: alerts, processes, topics, checks of the ledger, settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response
from pydantic import SecretStr

from dueledger.alerts.open_alerts import list_open_alerts
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView
from dueledger.ledger.errors import NotPermitted
from dueledger.ledger.runtime.kafka_settings import variable_of
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.processes import list_processes
from dueledger.ledger.store.topic_partitions import list_topics
from dueledger.ledger_checks import Health, check_ledger, check_machine
from dueledger.service.calls import CurrentCall
from dueledger.service.settings import ServiceSettings

read = PageRoutes(Scope.READ, "console")

PROCESSES_MAX: Final = 200
TOPICS_MAX: Final = 100


@read.page("/system")
async def show_system(call: CurrentCall, view: CurrentView, request: Request) -> Response:
    """Show alerts, processes by their last sign of life, topics, health, and settings."""
    if call.tenants is not None:
        raise NotPermitted("The page is of the whole ledger. Sign in by a key for all tenants.")
    settings: ServiceSettings = request.app.state.settings
    checks = [*check_machine(), *[each async for each in check_ledger(call.connection)]]
    alerts = await list_open_alerts(call.connection, None)
    topics = await list_topics(call.connection, TOPICS_MAX + 1)
    processes = await list_processes(call.connection, PROCESSES_MAX + 1)
    return view.page(
        "system.html",
        title="System",
        bad=[each for each in checks if each.health is not Health.OK],
        alerts=_list(
            "Alerts that stand",
            _ALERT_COLUMNS,
            alerts,
            "No alert stands that `dueledger alert` knows. Without it, Prometheus has the rules.",
        ),
        topics=_list(
            "Topics",
            _TOPIC_COLUMNS,
            topics[:TOPICS_MAX],
            "No kind has a topic yet. The first item of a kind makes one.",
            note="Those with the most items." if len(topics) > TOPICS_MAX else None,
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
        settings=_list("Settings of this process", _SETTING_COLUMNS, list(_settings(settings)), ""),
        listing=Listing(
            caption="Processes",
            columns=_PROCESS_COLUMNS,
            rows=[
                {
                    "name": each.name,
                    "role": each.role.label,
                    "status": each.status,
                    "seen_at": each.seen_at,
                    "host": each.host,
                    "version": each.version,
                    "started_at": each.started_at,
                    "failure": each.failure,
                    "failing_since": each.failing_since,
                }
                for each in processes[:PROCESSES_MAX]
            ],
            empty="No process runs. `dueledger allocate` claims what is due.",
            note="The first ones by role." if len(processes) > PROCESSES_MAX else None,
        ),
    )


def _list(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    empty: str,
    *,
    note: str | None = None,
) -> Listing:
    return Listing(
        caption=caption, columns=columns, rows=rows, empty=empty, note=note, downloads=False
    )


def _settings(settings: ServiceSettings) -> Iterator[Mapping[str, object]]:
    """Yield the settings of the process; of a secret, only whether it is set."""
    for name, field in type(settings).model_fields.items():
        value: Any = getattr(settings, name)
        is_set = name in settings.model_fields_set
        if isinstance(value, SecretStr):
            shown = "secret"
        else:
            shown = str(value) if value not in (None, (), {}) else None
        yield {
            "variable": variable_of(name),
            "value": shown,
            "is_set": is_set,
            "description": field.description,
        }


_ALERT_COLUMNS: Final[Sequence[Column]] = (
    Column("alert", "Alert"),
    Column("severity", "Severity", "status"),
    Column("summary", "What is wrong", "prose"),
    Column("since", "Since", "time"),
    Column("runbook", "What to do", "code"),
)
_PROCESS_COLUMNS: Final[Sequence[Column]] = (
    Column("name", "Process"),
    Column("role", "Role"),
    Column("status", "Status", "status"),
    Column("seen_at", "Last sign of life", "time"),
    Column("host", "Host"),
    Column("version", "Version"),
    Column("started_at", "Started", "time"),
    Column("failure", "Cannot take work", "prose"),
    Column("failing_since", "Since", "time"),
)
_TOPIC_COLUMNS: Final[Sequence[Column]] = (
    Column("topic", "Topic", "code"),
    Column("kinds", "Kinds", "count"),
    Column("dispatch", "Dispatch"),
    Column("items", "Not started", "count"),
    Column("oldest_at", "Oldest claim", "time"),
    Column("workers", "Workers", "count"),
    Column("granted", "Wanted", "count"),
    Column("silent_since", "Silent since", "time"),
    Column("stalled_partitions", "Stalled partitions", "count"),
    Column("unavailable", "Unavailable", "prose"),
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
    Column("is_set", "Set", "flag"),
    Column("description", "What it is", "prose"),
)
