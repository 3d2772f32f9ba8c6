"""Operations: what a person asks for all items of a filter, and its progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final
from uuid import UUID

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.states import State
from dueledger.ledger.store.applied_verbs import apply_verb
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.items import ItemRequestResult, RequestResult
from dueledger.ledger.store.statements import statement

SLICE_ITEMS: Final = 1_000
"""Items that one transaction moves."""
EXAMINED_MAX: Final = 20_000
"""Open items that one transaction examines to find them."""
COUNTED_MAX: Final = 10_000
COUNT_EXAMINED_MAX: Final = 20_000
"""Open items of the flows of a filter that are examined to count those that match."""
OPEN_READ_MAX: Final = 100
MEASURED_MAX: Final = 100
"""Newest operations of a tenant of which those with a verb are measured."""
MEASURED_ITEMS_MIN: Final = SLICE_ITEMS
"""Fewer items than one step moves say little about how long many take."""


_STATE_OF: Final = {state.label: state for state in State}
STATES: Final = (State.SCHEDULED, State.RETRYABLE_FAILURE, State.MANUAL_REVIEW)
"""States of items that a filter may name: those in which items are not handed out."""


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items are meant; None means all. An empty lane is the default one.

    `parked_reason`: parked for exactly this reason. `error`: class of the last error of an attempt.
    `since`: in their state since then or later. `state`: one of STATES. `due_from` is contained,
    `due_before` is not.
    """

    tenant: str | None = None
    kind: str | None = None
    lane: str | None = None
    parked_reason: str | None = None
    error: str | None = None
    since: datetime | None = None
    state: State | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None

    @property
    def names_state(self) -> bool:
        """Return whether it asks in which state items are, or how they came into it."""
        of_state = self.parked_reason, self.error, self.since, self.state
        return any(each is not None for each in of_state)


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """Items of one flow and state that match: since when at earliest and latest, and 20 keys."""

    tenant: str
    kind: str
    lane: str
    state: str
    items: int
    oldest_at: datetime
    newest_at: datetime
    business_keys: list[str]


@dataclass(frozen=True, slots=True)
class OperationPreview:
    """What an operation would move now. `capped`: counting stopped, there may be more.

    `approval_above`: of more items than these it waits for a second person, by the policies of
    their kinds; None: of no number.
    """

    groups: list[MatchedGroup]
    capped: bool
    approval_above: int | None

    @property
    def items(self) -> int:
        """Count the items of all groups."""
        return sum(group.items for group in self.groups)

    @property
    def states(self) -> set[State]:
        """Return the states of the items."""
        return {_STATE_OF[group.state] for group in self.groups}

    @property
    def needs_approval(self) -> bool:
        """Return whether it would wait for a second person, if it counts up to the same limits."""
        above = self.approval_above
        return above is not None and (self.capped or self.items > above)


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """How far an operation has got after a slice: items moved and requested, of `matched`.

    `matched_capped`: counting stopped, there may be more.
    """

    operation_no: int
    verb: OperationVerb
    matched: int
    matched_capped: bool
    done: int
    requested: int
    is_ended: bool
    is_paused: bool = False
    awaits_approval: bool = False


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """An operation that has not ended, and what it waits for."""

    operation_no: int
    verb: OperationVerb
    is_paused: bool
    awaits_approval: bool


async def find_operation_of_item(connection: Connection, item_no: int) -> OperationProgress | None:
    """Find an open operation that is still to move an item, among the OPEN_READ_MAX first ones."""
    row = await connection.fetchrow(statement("find_operation_of_item"), item_no, OPEN_READ_MAX)
    if row is None:
        return None
    return OperationProgress(**{**row, "verb": OperationVerb(row["verb"])})


async def preview_operation(
    connection: Connection,
    verb: OperationVerb,
    items: ItemFilter,
    *,
    until: datetime | None = None,
    examined_max: int = COUNT_EXAMINED_MAX,
    counted_max: int = COUNTED_MAX,
) -> OperationPreview:
    """Count the items that an operation would move now, up to a limit. It changes nothing.

    `until` is of snooze: those that wait as long anyway are not counted; None counts all.
    """
    values = _filter_values(verb, items, until)
    rows = await connection.fetch(
        statement("preview_operation"), *values, examined_max, counted_max
    )
    columns = MatchedGroup.__dataclass_fields__
    groups = [MatchedGroup(**{name: row[name] for name in columns}) for row in rows if row["items"]]
    return OperationPreview(groups, rows[0]["is_capped"], rows[0]["approval_above"])


async def record_operation(
    connection: Connection,
    verb: OperationVerb,
    items: ItemFilter,
    *,
    reason: str,
    actor_no: int,
    until: datetime | None = None,
) -> int | None:
    """Record an operation for upkeep to carry out; return its number, None if no item matches.

    Its bounds are those of this moment: the highest number of an open item, the time, and what is
    committed. Items that are emitted later, or come into their state later, are left alone.
    It awaits approval if more items match than a policy of their kinds allows one person.
    `until` is of snooze alone, which needs it.
    """
    return await connection.fetchval(
        statement("record_operation"),
        *_filter_values(verb, items, until),
        COUNT_EXAMINED_MAX,
        COUNTED_MAX,
        reason,
        actor_no,
    )


async def estimate_seconds(
    connection: Connection, verb: OperationVerb, tenant: str, items: int
) -> float | None:
    """Estimate how long an operation on so many items takes, by the tenant's last ones.

    None if those with the verb have moved too few items to say so.
    """
    row = await connection.fetchrow(statement("measure_operations"), tenant, verb, MEASURED_MAX)
    if row is None or row["items"] < MEASURED_ITEMS_MIN:
        return None
    return items * row["seconds"] / row["items"]


async def list_operations(
    connection: Connection,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    after_no: int | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    awaits_approval: bool = False,
    oldest_first: bool = False,
) -> list[dict[str, Any]]:
    """List operations, newest or oldest first, after the one of a number; with `tenants`, theirs.

    With `awaits_approval`, those alone that do; with a `kind`, those that may reach it.
    """
    values = limit, tenants, after_no, tenant, awaits_approval, kind
    if oldest_first:
        rows = await connection.fetch(statement("list_oldest_operations"), *values)
    else:
        rows = await connection.fetch(statement("list_operations"), None, *values)
    return [dict(row) for row in rows]


async def list_open_operations(connection: Connection, limit: int) -> list[OpenOperation]:
    """List operations that have not ended, the first one first."""
    rows = await connection.fetch(statement("list_open_operations"), limit)
    return [OpenOperation(**{**row, "verb": OperationVerb(row["verb"])}) for row in rows]


async def show_operation(
    connection: Connection, operation_no: int, *, tenants: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Read one operation; None if there is none of this number, or of these tenants."""
    values = operation_no, 1, tenants, None, None, False, None
    row = await connection.fetchrow(statement("list_operations"), *values)
    return dict(row) if row else None


@dataclass(frozen=True, slots=True)
class ChangedOperation:
    """The status of an operation that was paused, resumed or aborted, and what it was before."""

    status: str
    was: Mapping[str, str]


async def abort_operation(
    connection: Connection,
    operation_no: int,
    *,
    reason: str,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> ChangedOperation | None:
    """End an open operation after what it has moved; None if it has ended or does not exist.

    With `tenants`, one of another tenant, or of all, does not exist.
    """
    values = operation_no, reason, actor_no, tenants
    was = await connection.fetchval(statement("abort_operation"), *values)
    return None if was is None else ChangedOperation("aborted", {"status": was})


async def approve_operation(
    connection: Connection,
    operation_no: int,
    *,
    reason: str,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> str:
    """Approve an operation that awaits it, unless this actor asked for it; return what came of it.

    That is `done`, or what `dueledger.refusals` has in words. With `tenants`, one of another
    tenant, or of all, is unknown.
    """
    values = operation_no, reason, actor_no, tenants
    return await connection.fetchval(statement("approve_operation"), *values)


async def pause_operation(
    connection: Connection,
    operation_no: int,
    *,
    reason: str,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> ChangedOperation | None:
    """Pause an open operation: after this, no item is moved. It waits for a slice under way.

    None if it has ended, is paused already or does not exist, as for `abort_operation`.
    """
    values = operation_no, reason, actor_no, tenants
    was = await connection.fetchval(statement("pause_operation"), *values)
    return None if was is None else ChangedOperation("paused", {"status": was})


async def resume_operation(
    connection: Connection, operation_no: int, *, tenants: Sequence[str] | None = None
) -> ChangedOperation | None:
    """Let a paused operation go on; None if it is not paused, has ended or does not exist."""
    row = await connection.fetchrow(statement("resume_operation"), operation_no, tenants)
    if row is None:
        return None
    was = {"status": "paused", "paused_by": row["paused_by"], "pause_reason": row["pause_reason"]}
    return ChangedOperation(row["status"], was)


async def find_open_operation(connection: Connection, after_operation_no: int) -> int | None:
    """Find the open operation of the next number, or the first; None if there is none."""
    return await connection.fetchval(statement("find_open_operation"), after_operation_no)


async def advance_operation(connection: Connection, operation_no: int) -> OperationProgress | None:
    """Move the next SLICE_ITEMS of an operation and record the progress, in one transaction.

    None if it has ended, is paused, awaits approval, or another process advances it. The journal
    names the person who asked.
    """
    began_at = monotonic()
    async with connection.transaction():
        taken = await connection.fetchrow(statement("take_operation"), operation_no)
        if taken is None:
            return None
        verb = OperationVerb(taken["verb"])
        ids, reached_item_no = await _choose_items(connection, operation_no)
        results = await apply_verb(
            connection,
            verb,
            ids,
            reason=taken["reason"],
            actor_no=taken["actor_no"],
            until=taken["until"],
        )
        crash_point("operation.applied")
        progress = await connection.fetchrow(
            statement("record_operation_progress"),
            operation_no,
            taken["reached_item_no"],
            reached_item_no,
            _count(results, RequestResult.DONE),
            _count(results, RequestResult.REQUESTED),
            monotonic() - began_at,
        )
    crash_point("operation.advanced")
    return OperationProgress(**dict(progress) | {"verb": verb})


async def _choose_items(connection: Connection, operation_no: int) -> tuple[list[UUID], int | None]:
    """Lock the next items; return their ids and the number reached, None if no item is left."""
    row = await connection.fetchrow(
        statement("choose_operation_items"), operation_no, EXAMINED_MAX, SLICE_ITEMS
    )
    return row["ids"], row["reached_item_no"]


def _filter_values(verb: OperationVerb, items: ItemFilter, until: datetime | None) -> list[object]:
    in_flight = verb is OperationVerb.CANCEL and not items.names_state
    return [
        verb,
        items.tenant,
        items.kind,
        items.lane,
        items.parked_reason,
        items.error,
        items.since,
        in_flight,
        items.state,
        items.due_from,
        items.due_before,
        until,
    ]


def _count(results: Sequence[ItemRequestResult], result: RequestResult) -> int:
    return sum(one.result is result for one in results)
