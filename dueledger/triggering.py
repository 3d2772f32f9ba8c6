"""A schedule's item owed now, by a person's decision and under an identity like any other's."""

from typing import Final
from zoneinfo import ZoneInfo

from ledger.definitions import parse_definition
from ledger.errors import InvalidInput, NotFound, Problem
from ledger.scheduled import draft_triggered
from ledger.store import Connection
from ledger.store.clock import read_now
from ledger.store.definitions import find_definition
from ledger.store.flows import expedite_items
from ledger.store.items import Emitted, emit_items

_CYCLE: Final = "manual-{at:%Y-%m-%dT%H:%M:%S}Z"


async def trigger_definition(
    connection: Connection,
    tenant: str,
    name: str,
    *,
    cycle: str | None,
    reason: str,
    actor_no: int,
) -> Emitted:
    """Owe one item of the version in force, due now; the same `cycle` again is the same item.

    Without a `cycle` it is named for this second, so that no scheduled round is ever taken. Raises
    NotFound where no version is in force, InvalidInput for an event rule: its items come of events.
    """
    row = await find_definition(connection, tenant, name)
    if row is None:
        raise NotFound(
            f"no version of {name!r} is in force for tenant {tenant!r}; "
            "`dueledger define` puts one in force",
            tenant=tenant,
            definition=name,
        )
    definition = parse_definition(row.document, source=f"{tenant}/{name}", calendars=None)
    if not definition.is_schedule:
        problem = Problem(
            "definition", name, "owes its items to events", "`dueledger emit`, or the event itself"
        )
        raise InvalidInput("An event rule cannot be triggered:", [problem])
    async with connection.transaction():
        now = await read_now(connection)
        zone = ZoneInfo(getattr(definition.when, "timezone", "UTC"))
        draft = draft_triggered(
            definition,
            cycle=cycle or _CYCLE.format(at=now.astimezone(ZoneInfo("UTC"))),
            at=now,
            effective_date=now.astimezone(zone).date(),
        )
        (emitted,) = await emit_items(
            connection, [draft], actor_no=actor_no, definition_no=row.definition_no
        )
        if emitted.created:
            await expedite_items(connection, [emitted.id], reason=reason, actor_no=actor_no)
    return emitted
