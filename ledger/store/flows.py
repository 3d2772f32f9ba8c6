"""Operators' commands for flows: pauses, limits, and expediting items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.errors import InvalidInput, InvalidItem, Problem
from dueledger.ledger.flow_bounds import FLOW_BOUNDS
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.items import ItemRequestResult, former_results_of
from dueledger.ledger.store.statements import statement

TOPIC_WINDOW_ITEMS: Final = 1_000  # window of a flow settled by topic that sets none
SAMPLE_MAX: Final = 100  # due items of a flow whose due times are read
COUNTED_MAX: Final = 10_000  # pending items counted of a flow; more are shown as this number


@dataclass(frozen=True, slots=True)
class FlowScope:
    """The flows of a tenant, or of one of its kinds, or of one lane ('' is the default lane)."""

    tenant: str
    kind: str | None = None
    lane: str | None = None

    @property
    def path(self) -> str:
        """Return the scope as the audit names it.

        An empty last segment is the default lane, an empty one before it all kinds.
        """
        kind = "" if self.kind is None and self.lane is not None else self.kind
        parts = ("flows", self.tenant, kind, self.lane)
        return "/".join(each for each in parts if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """Changes of flow limits. None keeps the stored limit.

    `weight` is a share among flows; `rate_per_second` fills a token bucket of one second;
    `concurrency_max` limits items handed out and running; `window_items` items handed out and not
    started; `retry_share` is the part of each claim for retries. A circuit opens when
    `circuit_failure_ratio` of at least `circuit_calls_min` outcomes within
    `circuit_window_seconds` failed, and lets a probe through after `circuit_rest_seconds`. While
    items start later than `lag_target_seconds` after they could be claimed, floods of other flows
    are claimed more slowly.
    `cleared` names limits to remove: rate_per_second, concurrency_max, window_items,
    circuit_failure_ratio, lag_target_seconds.

    Raises InvalidItem for a limit outside `FLOW_BOUNDS`.
    """

    weight: int | None = None
    rate_per_second: float | None = None
    concurrency_max: int | None = None
    window_items: int | None = None
    retry_share: float | None = None
    circuit_failure_ratio: float | None = None
    circuit_calls_min: int | None = None
    circuit_window_seconds: float | None = None
    circuit_rest_seconds: float | None = None
    lag_target_seconds: float | None = None
    cleared: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Reject a limit outside its bounds."""
        problems = [
            Problem(name, f"{number:g}", f"it must be {bounds.text}")
            for name, bounds in FLOW_BOUNDS.items()
            if (number := getattr(self, name)) is not None and not bounds.contains(number)
        ]
        if problems:
            raise InvalidItem(
                "The limits of the flow are invalid:", problems, field=problems[0].field
            )


@dataclass(frozen=True, slots=True)
class ResumedFlow:
    """A flow whose pause ended. With `still_paused` a wider pause covers it, with its reason."""

    tenant: str
    kind: str
    lane: str
    still_paused: bool
    pause_reason: str | None


@dataclass(frozen=True, slots=True)
class PauseResult:
    """What a pause changed: the pause, if it is new or has another end, and the flows paused by it.

    A pause has tenant, kind, lane, reason and paused_until; a flow tenant, kind and lane. Null
    means all, and of paused_until that a person ends it. `was` is the pause in force before, with
    until, reason and paused_by.
    """

    pauses: list[dict[str, Any]]
    flows: list[dict[str, Any]]
    was: dict[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ResumeResult:
    """What a resume changed: the pauses that ended, and the flows that were paused.

    `was` has of each pause kind, lane, paused_by, paused_at, until and reason.
    """

    pauses: list[dict[str, Any]]
    flows: list[ResumedFlow]
    was: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], compare=False)


class FlowPlace(NamedTuple):
    """The last flow of the page before."""

    tenant: str
    kind: str
    lane: str


class PausePlace(NamedTuple):
    """The last pause of the page before, in the order of the list."""

    paused_at: datetime
    pause_no: int


async def list_flows(
    connection: Connection,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int = 1000,
    tenants: Sequence[str] | None = None,
    after: FlowPlace | None = None,
    count_max: int = COUNTED_MAX,
) -> list[dict[str, Any]]:
    """List flows with limits and pending items: due, later, retries, serial, up to `count_max`.

    By tenant, kind and lane; with `tenants`, theirs alone. `available_since`: since when the item
    that waits longest may be claimed. `in_flight` is None of a flow whose limits do not count it.
    """
    rows = await connection.fetch(
        statement("list_flows"),
        *(tenant, kind, lane, count_max, limit, tenants),
        *(after or (None, None, None)),
    )
    return [dict(row) for row in rows]


async def read_status(
    connection: Connection,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    flows: Sequence[tuple[str, str, str]] | None = None,
    topic_window_items: int = TOPIC_WINDOW_ITEMS,
    limit: int = 100,
    tenants: Sequence[str] | None = None,
    count_max: int = COUNTED_MAX,
    sample_max: int = SAMPLE_MAX,
) -> list[dict[str, Any]]:
    """Read what each flow with open items owes and what may hinder it, the longest due first.

    With `flows`, of these alone, by tenant, kind and lane; with `tenants`, of theirs alone.
    `due`, `blocked`, `retrying` and `parked` stop at `count_max` or earlier: then `due_capped` and
    so on are true. `claimed` and `started` are None while too many items are in flight to be
    counted; `handed_out` and `running` are counted for flows with limits alone. `flows`,
    `all_due`, `all_parked` and `all_in_flight` are totals beyond `limit`. `oldest_due_at` is of the
    due items that have waited longest, of which `sample_max` first attempts and as many retries are
    read. `is_past_sla`: one of these, or of a few others that are open, is late; the one that was
    due first, at `late_due_at`, is `late_wait`: due, retrying, blocked, parked or in_flight.
    """
    names = (None,) * 3 if flows is None else [[flow[part] for flow in flows] for part in range(3)]
    rows = await connection.fetch(
        statement("read_status"),
        *(tenant, kind, lane, topic_window_items, sample_max, limit, tenants, count_max, *names),
    )
    return [dict(row) for row in rows]


async def list_next_due(
    connection: Connection, *, tenants: Sequence[str] | None = None, limit: int = 5
) -> list[dict[str, Any]]:
    """List when the next item of each flow is available that is not due yet, the first first."""
    rows = await connection.fetch(statement("list_next_due"), tenants, limit)
    return [dict(row) for row in rows]


async def find_flow_next_due(
    connection: Connection, tenant: str, kind: str, lane: str
) -> datetime | None:
    """Return when the next item of a flow is available that is not due yet; None without one."""
    return await connection.fetchval(statement("find_flow_next_due"), tenant, kind, lane)


async def count_flow_coming(
    connection: Connection, flow: tuple[str, str, str], until: datetime, *, count_max: int
) -> int:
    """Count the items of a flow that fall due from now until an instant.

    `count_max` + 1 means that more than `count_max` do.
    """
    return await connection.fetchval(statement("count_flow_coming"), *flow, until, count_max)


async def count_fell_due(
    connection: Connection, scope: FlowScope, since: datetime, until: datetime, *, read_max: int
) -> tuple[int, bool]:
    """Count the items that wait and fell due in a span; return whether there may be more.

    `read_max` items are read of those that may be claimed since the span began.
    """
    names = scope.tenant, scope.kind, scope.lane
    row = await connection.fetchrow(statement("count_fell_due"), *names, since, until, read_max)
    assert row is not None  # noqa: S101 - it counts
    return row["items"], row["is_capped"]


async def list_pauses(
    connection: Connection,
    tenant: str | None = None,
    *,
    tenants: Sequence[str] | None = None,
    kind: str | None = None,
    lane: str | None = None,
    limit: int = 1000,
    after: PausePlace | None = None,
) -> list[dict[str, Any]]:
    """List the pauses in force, the oldest first; with `tenants`, theirs alone.

    With `kind` or `lane` those that cover flows of it, wider ones, too.
    """
    place = after or (None, None)
    rows = await connection.fetch(
        statement("list_pauses"), tenant, tenants, limit, *place, kind, lane
    )
    return [dict(row) for row in rows]


async def pause_flows(
    connection: Connection,
    scope: FlowScope,
    *,
    reason: str,
    actor_no: int,
    until: datetime | None = None,
) -> PauseResult:
    """Pause the scope's flows, present and future. Flows already paused do not change.

    Upkeep ends it at `until` on the ledger's clock; None: a person does. Items handed out go on.
    Repeating it changes nothing; with another `until` it moves the end, and keeps the first reason.
    Raises InvalidInput for an end that is past.
    """
    scope_names = (scope.tenant, scope.kind, scope.lane)
    [row] = await connection.fetch(statement("pause_flows"), *scope_names, reason, actor_no, until)
    if row["is_over"]:
        problem = Problem("/until", f"{until}", "it is past by the ledger's clock", "a later time")
        raise InvalidInput("The pause would end before it begins.", [problem])
    return PauseResult(row["pauses"], row["flows"], row["was"])


async def resume_flows(connection: Connection, scope: FlowScope, *, actor_no: int) -> ResumeResult:
    """End the pause of this scope and all narrower pauses."""
    [row] = await connection.fetch(
        statement("resume_flows"), scope.tenant, scope.kind, scope.lane, actor_no
    )
    resumed = [ResumedFlow(**flow) for flow in row["flows"]]
    return ResumeResult(row["pauses"], resumed, row["was"])


async def end_pauses(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """End the pauses whose own end has come; return their tenant, kind, lane and paused_until.

    Their flows stay paused until `reapply_pauses`.
    """
    return [dict(row) for row in await connection.fetch(statement("end_pauses"), limit)]


async def reapply_pauses(connection: Connection) -> int:
    """Apply the pauses in force to every flow; return how many flows changed.

    A pause and a flow of concurrent transactions do not see each other; this call sees both.
    """
    return len(await connection.fetch(statement("reapply_pauses")))


async def ensure_flow(connection: Connection, tenant: str, kind: str, lane: str) -> int:
    """Return the number of a flow; create the flow if it has no item yet."""
    with mapped_errors():
        return await connection.fetchval(statement("ensure_flow"), tenant, kind, lane)


async def set_flow_limits(
    connection: Connection, scope: FlowScope, limits: FlowLimits, *, actor_no: int
) -> list[dict[str, Any]]:
    """Change the limits of the scope's flows; return the flows, each with its limits before: `was`.

    The limits are in force at the allocators' next tick.
    """
    values = [getattr(limits, each.name) for each in fields(limits)]
    with mapped_errors():
        rows = await connection.fetch(
            statement("set_flow_limits"), scope.tenant, scope.kind, scope.lane, *values, actor_no
        )
    return [dict(row) for row in rows]


async def lock_flow_limits(
    connection: Connection, tenant: str, kind: str, lane: str
) -> dict[str, Any] | None:
    """Lock a flow until the transaction ends, and read its limits; None if there is none."""
    row = await connection.fetchrow(statement("lock_flow_limits"), tenant, kind, lane)
    return dict(row) if row else None


async def expedite_items(
    connection: Connection, ids: Sequence[UUID], *, reason: str, actor_no: int
) -> list[ItemRequestResult]:
    """Make pending items available now, in a person's name. ILLEGAL if an item is not delayed."""
    rows = await connection.fetch(statement("expedite_items"), ids, reason, actor_no)
    return former_results_of(rows)


async def snooze_items(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    reason: str,
    actor_no: int,
    until: datetime | None,
) -> list[ItemRequestResult]:
    """Let pending items wait until a later time, in a person's name. Their due times stay.

    ILLEGAL if an item waits as long anyway, or for its key, or where there is no time to come.
    """
    rows = await connection.fetch(statement("snooze_items"), ids, reason, actor_no, until)
    return former_results_of(rows)


async def find_blockers(
    connection: Connection, item_no: int, *, topic_window_items: int = TOPIC_WINDOW_ITEMS
) -> dict[str, Any] | None:
    """Find what prevents a claim of a pending item, other than its time; None if not pending."""
    row = await connection.fetchrow(
        statement("find_blockers"), item_no, topic_window_items, COUNTED_MAX
    )
    return dict(row) if row else None


async def find_handed_out(connection: Connection, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find the claim and run of an item that `show_item` returned; None if it is not handed out."""
    names = ("fence", "claimed_at", "position", "run_no", "started_at")
    row = await connection.fetchrow(statement("find_handed_out"), *map(item.__getitem__, names))
    return dict(row) if row else None
