"""Reported outcomes: the items they name, and the record of refused ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.claim_id import ClaimId, first_and_last
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.runs import RunId
from dueledger.ledger.store.statements import statement

NO_CLAIM: Final = ClaimId(0, datetime(1970, 1, 1, tzinfo=UTC), "")
"""The claim of an outcome without a token: no claim has this fence."""


class OutcomeRefusal(StrEnum):
    """Why a reported outcome changed nothing.

    UNKNOWN: its claim has fewer items. MISMATCH: no claim has this fence, time and token, or
    another item has this position. WRONG_SETTLER: the claim is another worker's.
    WRONG_TOPIC: the kind names another topic for outcomes. STALE: its claim or run was
    closed before. CONFLICT: the item ended differently under the same fence.
    """

    UNKNOWN = "unknown"
    MISMATCH = "mismatch"
    WRONG_SETTLER = "wrong_settler"
    WRONG_TOPIC = "wrong_topic"
    STALE = "stale"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class TopicRun:
    """The one run of a claim. `open` until all items ended or its lease lapsed."""

    id: RunId
    from_position: int
    to_position: int
    lease_seconds: float
    open: bool


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """The item at a position of a claim, and how it ended if it `has_ended` in the claim's run."""

    item_no: int
    kind: str
    due_at: datetime
    traceparent: str | None
    attempt: int
    backoff_base_seconds: float
    backoff_cap_seconds: float
    has_ended: bool = False
    ended_as: TransitionEvent | None = None
    ended_detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OutcomeTarget:
    """The claim, item and run that a claim's id, a position and an item id name.

    `size` None: no claim has that id. `settler_no` is the actor of its topic, or who `pulled` it;
    None: workers settle it. `item` None: the position has another item or none, or one of another
    tenant. `run` None: its topic never started it; `waiting` is then whether its
    claim is open. `outcome_topic` is the one that the item's kind names, None for that of the
    settings.
    """

    size: int | None
    settler_no: int | None
    pulled: bool
    item: ClaimedItem | None
    run: TopicRun | None
    waiting: bool
    outcome_topic: str | None


@dataclass(frozen=True, slots=True)
class RefusedOutcome:
    """A reported outcome to record as refused; `detail` is JSON text."""

    reason: OutcomeRefusal
    actor_no: int
    fence: int
    position: int
    run_no: int | None
    item_no: int | None
    detail: str


class ReportedPlace(NamedTuple):
    """What a reported outcome names: a position of a claim, and the item there.

    `outcome_topic` is where it was reported, None for the topic of the settings.
    """

    claim_id: ClaimId
    position: int
    item: UUID
    outcome_topic: str | None = None


async def start_topic_runs(
    connection: Connection,
    places: Sequence[ReportedPlace],
    *,
    any_topic: bool = False,
    tenants: Sequence[str] | None = None,
) -> dict[int, int]:
    """Start claims settled by topic whose outcomes came before the acknowledgement was marked.

    Returns run numbers by fence. An outcome starts a claim only if it names the item at that
    position, of one of the tenants, and with `any_topic` wherever it was reported.
    """
    rows = await connection.fetch(
        statement("start_topic_runs"),
        *_columns(places),
        *_claimed_between(places),
        *_items_between(places),
        [place.outcome_topic for place in places],
        any_topic,
        tenants,
    )
    return {row["fence"]: row["run_no"] for row in rows}


async def lock_topic_runs(connection: Connection, places: Sequence[ReportedPlace]) -> None:
    """Lock the open runs of these claims, so that the next read of them stays valid.

    Claims settled by topic, and claims of pull workers.
    """
    fences, claimed_ats, tokens, *_ = _columns(places)
    await connection.fetch(
        statement("lock_topic_runs"), fences, claimed_ats, tokens, *_claimed_between(places)
    )


async def find_outcome_targets(
    connection: Connection,
    places: Sequence[ReportedPlace],
    *,
    tenants: Sequence[str] | None = None,
) -> list[OutcomeTarget]:
    """Find the target of each reported outcome, in input order. Call it after the lock.

    Items of others than `tenants` are as unknown as those that do not exist.
    """
    rows = await connection.fetch(
        statement("find_outcome_targets"),
        *_columns(places),
        *_claimed_between(places),
        *_items_between(places),
        tenants,
    )
    return [_target(row) for row in rows]


def _columns(
    places: Sequence[ReportedPlace],
) -> tuple[list[int], list[datetime], list[str], list[int], list[UUID]]:
    return (
        [place.claim_id.fence for place in places],
        [place.claim_id.claimed_at for place in places],
        [place.claim_id.token for place in places],
        [place.position for place in places],
        [place.item for place in places],
    )


def _claimed_between(places: Sequence[ReportedPlace]) -> tuple[datetime, datetime]:
    return first_and_last(
        place.claim_id.claimed_at for place in places if place.claim_id != NO_CLAIM
    )


def _items_between(places: Sequence[ReportedPlace]) -> tuple[UUID, UUID]:
    """Return the bounds of the ids, which begin with the effective date."""
    items = [place.item for place in places]
    return min(items), max(items)


def _target(row: Record) -> OutcomeTarget:
    return OutcomeTarget(
        row["size"],
        row["settler_no"],
        bool(row["pulled"]),
        _item(row) if row["matches"] else None,
        _run(row) if row["run_no"] is not None else None,
        row["waiting"],
        row["outcome_topic"],
    )


def _item(row: Record) -> ClaimedItem:
    event = row["ended_event"]
    return ClaimedItem(
        row["item_no"],
        row["kind"],
        row["due_at"],
        row["traceparent"],
        row["attempt"],
        row["backoff_base_seconds"],
        row["backoff_cap_seconds"],
        row["ended"],
        None if event is None else TransitionEvent(event),
        row["ended_detail"],
    )


def _run(row: Record) -> TopicRun:
    return TopicRun(
        RunId(row["run_no"], row["started_at"], row["claimed_at"]),
        row["from_position"],
        row["to_position"],
        row["lease_seconds"],
        row["open"],
    )


async def clear_silent_topics(connection: Connection, topic_actor_nos: Sequence[int]) -> None:
    """Record that these topics are no longer silent: an outcome was reported."""
    await connection.execute(statement("clear_silent_topics"), topic_actor_nos)


async def record_refused_outcomes(
    connection: Connection, refused: Sequence[RefusedOutcome]
) -> None:
    """Record refused outcomes. Raises InvalidItem if a detail cannot be stored."""
    with mapped_errors():
        await connection.execute(
            statement("record_refused_outcomes"),
            [each.reason for each in refused],
            [each.actor_no for each in refused],
            [each.fence for each in refused],
            [each.position for each in refused],
            [each.run_no for each in refused],
            [each.item_no for each in refused],
            [each.detail for each in refused],
        )
