"""Reported outcomes: the items they name, and the record of refused ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


class OutcomeRefusal(StrEnum):
    """Why a reported outcome changed nothing.

    UNKNOWN: no claim has this fence, or its claim has fewer items. MISMATCH: another item has this
    position. WRONG_SETTLER: workers settle this kind. STALE: its claim or run was closed before.
    CONFLICT: the item ended differently under the same fence.
    """

    UNKNOWN = "unknown"
    MISMATCH = "mismatch"
    WRONG_SETTLER = "wrong_settler"
    STALE = "stale"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class TopicRun:
    """The run of a claim settled by topic. `open` until all items ended or its lease lapsed."""

    run_no: int
    from_position: int
    to_position: int
    lease_seconds: float
    open: bool


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """The item at a position of a claim, and how it ended if it `has_ended` in the claim's run."""

    item_no: int
    attempt: int
    backoff_base_seconds: float
    backoff_cap_seconds: float
    has_ended: bool = False
    ended_as: TransitionEvent | None = None
    ended_detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OutcomeTarget:
    """The claim, item and run that a fence, a position and an item id name.

    `size` None: no claim has that fence. `topic_actor_no` None: workers settle it. `item` None: the
    position has another item or none. `run` None: its topic never started it; `waiting` is then
    whether its claim is open.
    """

    size: int | None
    topic_actor_no: int | None
    item: ClaimedItem | None
    run: TopicRun | None
    waiting: bool


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


async def start_topic_runs(
    connection: Connection, fences: Sequence[int], positions: Sequence[int], items: Sequence[UUID]
) -> dict[int, int]:
    """Start claims settled by topic whose outcomes came before the acknowledgement was marked.

    Returns run numbers by fence. An outcome starts a claim only if it names the item at that
    position.
    """
    rows = await connection.fetch(statement("start_topic_runs"), fences, positions, items)
    return {row["fence"]: row["run_no"] for row in rows}


async def lock_topic_runs(connection: Connection, fences: Sequence[int]) -> None:
    """Lock the open runs of these claims, so that the next read of them stays valid."""
    await connection.fetch(statement("lock_topic_runs"), fences)


async def find_outcome_targets(
    connection: Connection, fences: Sequence[int], positions: Sequence[int], items: Sequence[UUID]
) -> list[OutcomeTarget]:
    """Find the target of each reported outcome, in input order. Call it after the lock."""
    rows = await connection.fetch(statement("find_outcome_targets"), fences, positions, items)
    return [_target(row) for row in rows]


def _target(row: Record) -> OutcomeTarget:
    return OutcomeTarget(
        row["size"],
        row["topic_actor_no"],
        _item(row) if row["matches"] else None,
        _run(row) if row["run_no"] is not None else None,
        row["waiting"],
    )


def _item(row: Record) -> ClaimedItem:
    event = row["ended_event"]
    return ClaimedItem(
        row["item_no"],
        row["attempt"],
        row["backoff_base_seconds"],
        row["backoff_cap_seconds"],
        row["ended"],
        None if event is None else TransitionEvent(event),
        row["ended_detail"],
    )


def _run(row: Record) -> TopicRun:
    return TopicRun(
        row["run_no"], row["from_position"], row["to_position"], row["lease_seconds"], row["open"]
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
