"""Kinds: their work policies, and those that are sent by HTTP."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.lock_wait import conflict_on_lock_timeout
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """The work policy of a kind. None keeps the stored value, or the default.

    With a `dispatch` the policy is complete: None then removes `http`, `run_seconds`,
    `total_seconds`, `outcome_topic`, `operation_approval_above` (an operation on more items waits
    for a second person) and `compression` (none, gzip or lz4). `dispatch` is kafka, direct or http
    (`http` has the endpoint); `settled_by` is worker or topic; `queue_late` and `run_late` are
    retry or park; `ordering` is none or key. `run_seconds` is the hard end of a run. No item is
    retried later than `total_seconds` after its due_at.
    """

    tenant: str
    kind: str
    topic: str | None = None
    queue_seconds: int | None = None
    lease_seconds: int | None = None
    attempt_max: int | None = None
    start_max: int | None = None
    backoff_base_seconds: float | None = None
    backoff_cap_seconds: float | None = None
    grace_seconds: int | None = None
    dispatch: str | None = None
    http: dict[str, Any] | None = None
    settled_by: str | None = None
    dispatch_seconds: int | None = None
    run_seconds: float | None = None
    total_seconds: float | None = None
    queue_late: str | None = None
    run_late: str | None = None
    ordering: str | None = None
    failure_holds: bool | None = None
    streak_max: int | None = None
    outcome_topic: str | None = None
    no_replay: bool | None = None
    compression: str | None = None
    redacted_fields: Sequence[str] | None = None
    operation_approval_above: int | None = None


class PutPolicy(NamedTuple):
    """The number of a kind whose policy was put, and what protected it before."""

    kind_no: int
    redacted_before: list[str]
    approval_above_before: int | None


@dataclass(frozen=True, slots=True)
class HttpKind:
    """A kind that is sent to an HTTP endpoint. `http` is this part of its definition."""

    tenant: str
    kind: str
    topic: str
    http: dict[str, Any]
    backoff_base_seconds: float
    backoff_cap_seconds: float


@dataclass(frozen=True, slots=True)
class ReplayRule:
    """The topic of a kind, and whether no item of it may be worked twice.

    `is_direct`: its items never go through Kafka.
    """

    topic: str | None = None
    no_replay: bool = False
    is_direct: bool = False


async def lock_reordered_flows(connection: Connection, policies: Iterable[KindPolicy]) -> None:
    """Lock the flows of kinds whose ordering these policies change, before the first is put.

    Raises Conflict if the limit of `limit_lock_wait` is exceeded.
    """
    given = list(policies)
    with conflict_on_lock_timeout("a kind that gets another ordering"):
        await connection.execute(
            statement("lock_reordered_flows"),
            [policy.tenant for policy in given],
            [policy.kind for policy in given],
            [policy.ordering for policy in given],
        )


async def put_kind_policy(connection: Connection, policy: KindPolicy) -> PutPolicy:
    """Store a kind's work policy.

    A kind that does not exist yet gets the defaults of its columns. Raises Conflict if
    the limit of `limit_lock_wait` is exceeded.
    """
    with conflict_on_lock_timeout(f"the kind {policy.tenant}/{policy.kind}"):
        # Not one statement: its values for a new kind would repeat the defaults of the columns.
        await connection.execute(statement("add_kind"), policy.tenant, policy.kind)
        row = await connection.fetchrow(
            statement("put_kind_policy"),
            policy.tenant,
            policy.kind,
            policy.topic,
            policy.queue_seconds,
            policy.lease_seconds,
            policy.attempt_max,
            policy.start_max,
            policy.backoff_base_seconds,
            policy.backoff_cap_seconds,
            policy.grace_seconds,
            policy.dispatch,
            policy.http,
            policy.settled_by,
            policy.dispatch_seconds,
            policy.run_seconds,
            policy.total_seconds,
            policy.queue_late,
            policy.run_late,
            policy.ordering,
            policy.failure_holds,
            policy.streak_max,
            policy.outcome_topic,
            policy.no_replay,
            policy.compression,
            policy.redacted_fields,
            policy.operation_approval_above,
        )
    if row is None:
        message = f"the kind {policy.tenant}/{policy.kind} is gone"
        raise RuntimeError(message)
    return PutPolicy(**row)


async def list_kinds(
    connection: Connection, limit: int, *, tenants: Sequence[str] | None = None
) -> list[Record]:
    """List kinds with their tenants, in order of both; with `tenants`, theirs alone."""
    return await connection.fetch(statement("list_kinds"), tenants, limit)


async def list_kind_policies(
    connection: Connection, tenant: str, kind: str, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """List the work policies of a kind in definitions of other names than `names`.

    One definition name for each policy: its parts `dispatch` (without the partition key), `retry`,
    `deadlines`, `order`, `operations` and `redacted_fields`; None for a document that is older than
    these parts.
    """
    rows = await connection.fetch(statement("list_kind_policies"), tenant, kind, names)
    return {row["name"]: row["policy"] for row in rows}


async def list_replay_rules(connection: Connection) -> dict[tuple[str, str], ReplayRule]:
    """List the replay rule of each kind."""
    rows = await connection.fetch(statement("list_replay_rules"))
    return {
        (row["tenant"], row["kind"]): ReplayRule(row["topic"], row["no_replay"], row["is_direct"])
        for row in rows
    }


async def list_redacted_fields(connection: Connection) -> dict[tuple[str, str], list[str]]:
    """List the fields of payloads that kinds redact, of those that redact any."""
    rows = await connection.fetch(statement("list_redacted_fields"))
    return {(row["tenant"], row["kind"]): row["redacted_fields"] for row in rows}


async def find_redacted_fields(
    connection: Connection, kinds: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Find the fields of payloads that these kinds redact, of those that redact any."""
    named = sorted(set(kinds))
    rows = await connection.fetch(
        statement("find_redacted_fields"),
        [tenant for tenant, _ in named],
        [kind for _, kind in named],
    )
    return {(row["tenant"], row["kind"]): row["redacted_fields"] for row in rows}


async def list_http_kinds(connection: Connection, limit: int) -> list[HttpKind]:
    """List the kinds that are sent to an HTTP endpoint."""
    rows = await connection.fetch(statement("list_http_kinds"), limit)
    return [HttpKind(**row) for row in rows]


async def list_outcome_topics(connection: Connection) -> list[str]:
    """List the topics that definitions name for the outcomes of their kinds."""
    rows = await connection.fetch(statement("list_outcome_topics"))
    return [row["outcome_topic"] for row in rows]


async def lock_topics(connection: Connection, topics: Iterable[str]) -> None:
    """Lock names of topics until the transaction ends: one at a time decides who shares them.

    Raises Conflict if the limit of `limit_lock_wait` is exceeded.
    """
    in_order = sorted(set(topics))  # so that two sessions cannot deadlock
    with conflict_on_lock_timeout(f"a topic of {', '.join(in_order)}"):
        await connection.fetch(statement("lock_topics"), in_order)


async def find_topic_uses(
    connection: Connection, work_topics: Sequence[str], outcome_topics: Sequence[str]
) -> dict[str, str]:
    """Find topics that kinds use for something else; return each with one of these kinds.

    A work topic may not have outcomes, and a topic of outcomes may not have work.
    """
    rows = await connection.fetch(statement("find_topic_uses"), work_topics, outcome_topics)
    return {row["topic"]: row["kind"] for row in rows}


async def find_mixed_compressions(
    connection: Connection, topics: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Find topics whose kinds name different codecs; return each with two of these kinds."""
    rows = await connection.fetch(statement("find_mixed_compressions"), topics)
    return {row["topic"]: (row["kind"], row["other"]) for row in rows}
