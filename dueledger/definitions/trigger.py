"""Trigger a schedule: owe one item of it now, by a person's decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidInput, NotFound, Problem, shown_value
from dueledger.ledger.identity import item_id
from dueledger.ledger.item_verbs import VERB_STATES, OperationVerb
from dueledger.ledger.rules.schedule_drafts import draft_triggered, local_time
from dueledger.ledger.schedule import cycle_of
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import (
    DefinitionRow,
    find_definition,
    find_triggered,
    lock_definition,
    record_triggered,
)
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import emit_items, show_item

WAITING: Final = frozenset(state.label for state in VERB_STATES[OperationVerb.TRIGGER])
"""The states, by name, of items that `dueledger trigger ITEM` can make available."""

_HAS_ENDED: Final = "it has ended; define it again without `ended`"
_SECOND: Final = "{at:%Y-%m-%dT%H:%M:%S}Z"
_DATE_CHARS: Final = 10
_OWN_NAME: Final = "a name not used yet, such as rerun-2, to run the schedule once more"


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """The item of a triggered occurrence. `created` is False if it was triggered before.

    `state` is the name of its state, None if the item is no longer kept.
    """

    id: UUID
    created: bool
    cycle: str
    state: str | None

    @property
    def remedy(self) -> str | None:
        """Return what to do if the occurrence was triggered before; None if it is new."""
        if self.created:
            return None
        if self.state in WAITING:
            return (
                f"`dueledger why {self.id}` shows what it waits for; "
                f"`dueledger trigger {self.id} --reason …` makes it available now"
            )
        return f"`dueledger show {self.id}` shows its history; {_OWN_NAME}"


async def trigger_definition(
    connection: Connection,
    tenant: str,
    name: str,
    *,
    cycle: str | None,
    reason: str,
    actor_no: int,
) -> TriggerResult:
    """Owe one item of the version in force, due now, beside the schedule's own occurrences.

    The same `cycle` again names the same item, on any day and under any version: it is returned,
    not started again. The default `cycle` is the current second. Raises NotFound if no version is
    in force; InvalidInput for an event rule, whose items come from events, and for a `cycle` that
    names an occurrence of the schedule.
    """
    async with connection.transaction():
        await lock_definition(connection, tenant, name)
        row, definition = await _schedule_in_force(connection, tenant, name)
        now = await read_now(connection)
        if cycle is not None:
            await _check_cycle(connection, definition, cycle)
        named = _SECOND.format(at=now) if cycle is None else cycle
        draft = draft_triggered(definition, named, now)
        item = await find_triggered(connection, tenant, name, draft.cycle)
        created = False
        if item is None:
            (emitted,) = await emit_items(
                connection, [draft], actor_no=actor_no, definition_no=row.definition_no
            )
            item, created = emitted.id, emitted.created
            await record_triggered(connection, tenant, name, draft.cycle, item)
        if created:
            await expedite_items(connection, [item], reason=reason, actor_no=actor_no)
    shown = await show_item(connection, item)
    state = None if shown is None else shown["state"]
    return TriggerResult(item, created, draft.cycle, state)


def trigger_refusal(in_force: Mapping[str, Any] | None) -> str | None:
    """Return why a definition is not triggered, by the document in force; None if it is."""
    if in_force is None:
        return "no version of it is in force; put one in force with `dueledger define`"
    if in_force.get("ended"):
        return _HAS_ENDED
    if in_force.get("event") is not None:
        return "it is an event rule: events owe its items"
    if in_force.get("when") is None:
        return "it declares a kind: services emit its items"
    return None


async def _schedule_in_force(
    connection: Connection, tenant: str, name: str
) -> tuple[DefinitionRow, Definition]:
    row = await find_definition(connection, tenant, name)
    refusal = trigger_refusal(None if row is None else row.document)
    if row is None or refusal == _HAS_ENDED:
        message = f"{name!r} of tenant {tenant!r} cannot be triggered: {refusal}"
        raise NotFound(message, tenant=tenant, definition=name)
    if refusal is not None:
        problem = Problem("definition", name, refusal, "`dueledger emit`")
        raise InvalidInput("The definition cannot be triggered:", [problem])
    definition = parse_definition(row.document, source=f"{tenant}/{name}", calendars=None)
    return row, definition


async def _check_cycle(connection: Connection, definition: Definition, cycle: str) -> None:
    """Raise InvalidInput if a cycle is empty or names an occurrence of the schedule.

    Otherwise a second item would run beside that occurrence, or the occurrence itself would run
    early without a person's name. The message names its item, if there is one, and what to do.
    """
    if not cycle:
        raise _unusable(cycle, "is empty", _OWN_NAME)
    spelled = cycle.removesuffix("#2")
    try:
        nominal = datetime.fromisoformat(spelled)
    except ValueError:
        return
    if len(spelled) <= _DATE_CHARS:
        return  # a date alone is not an occurrence
    if nominal.tzinfo is not None:
        nominal = local_time(definition, nominal)
    item = item_id(
        definition.tenant,
        definition.kind,
        definition.business_key or "",
        cycle_of(nominal) + cycle[len(spelled) :],
        nominal.date(),
    )
    shown = await show_item(connection, item)
    if shown is None:
        raise _unusable(cycle, "names an occurrence of the schedule", _OWN_NAME)
    state = shown["state"]
    accepted = _OWN_NAME
    if state in WAITING:
        accepted = f"`dueledger trigger {item} --reason …` to start it now, or {_OWN_NAME}"
    raise _unusable(
        cycle, f"names an occurrence of the schedule, item {item}, which is {state}", accepted
    )


def _unusable(cycle: str, reason: str, accepted: str) -> InvalidInput:
    problem = Problem("cycle", shown_value(cycle), reason, accepted)
    return InvalidInput("The item cannot be triggered:", [problem])
