"""The load of a ledger: its schedules in force, and pending items from other sources."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.schedule.when import DUE_END
from dueledger.ledger.store import Connection
from dueledger.ledger.store.pending_load import (
    PendingLoad,
    count_pending_load,
    list_put_off_occurrences,
)
from dueledger.planning.load_plan import WAITING_ROWS_MAX, too_many_waiting
from dueledger.planning.schedule_load import (
    QUARTER,
    SMEAR_MAX,
    DefinitionInForce,
    ScheduleLoad,
    expand_schedules,
)
from dueledger.reconciler.expect.versions import FailedVersion, read_version_spans


@dataclass(frozen=True, slots=True)
class LoadFilter:
    """Which definitions and items are planned; `service` is the value of that label."""

    tenant: str | None = None
    kind: str | None = None
    service: str | None = None

    def matches(self, definition: Definition) -> bool:
        """Return whether it owes such items. For an event rule each event names the service."""
        service = definition.labels.get("service")
        depends = service is not None and not definition.is_schedule
        return (
            self.tenant in {None, definition.tenant}
            and self.kind in {None, definition.kind}
            and (depends or self.service in {None, service})
        )


@dataclass(frozen=True, slots=True)
class LedgerLoad:
    """Schedules, other pending items, and the versions of definitions that cannot be parsed."""

    schedules: ScheduleLoad
    waiting: list[PendingLoad]
    failures: list[FailedVersion]


async def read_load(
    connection: Connection, wanted: LoadFilter, start: datetime, end: datetime, *, smear: timedelta
) -> LedgerLoad:
    """Expand the schedules in force in [start, end), then count pending items of other sources.

    An item that a person snoozed counts when it is available, and not when it is due.
    Raises as `expand_schedules` does.
    """
    versions, failures = await read_version_spans(connection)
    found = [
        DefinitionInForce(one.definition, one.effective_from, one.superseded_at or DUE_END)
        for one in versions
        if wanted.matches(one.definition)
    ]
    reach = start - SMEAR_MAX - QUARTER, end + QUARTER
    rows = await list_put_off_occurrences(connection, *reach, limit=WAITING_ROWS_MAX + 1)
    if len(rows) > WAITING_ROWS_MAX:
        raise too_many_waiting(start, end)
    put_off: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        put_off.setdefault(row[:2], set()).add(row[2])
    schedules = expand_schedules(found, start, end, smear=smear, put_off=put_off)
    waiting = await count_pending_load(
        connection,
        schedules.start,
        schedules.end,
        tenant=wanted.tenant,
        kind=wanted.kind,
        service=wanted.service,
        counted=schedules.counted,
        limit=WAITING_ROWS_MAX + 1,
    )
    return LedgerLoad(schedules, waiting, failures)
