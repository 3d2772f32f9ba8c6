"""Runs: who works which stretch of a claim, and how its items ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from asyncpg import BitString

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.counted import fetch_counted
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class StartResult:
    """The answer to one stretch asked for, or to one run of it.

    With `run_no`, these positions are the worker's, but for the `withdrawn` ones, which ended.
    `held_seconds` is how long the lease runs, from when the ledger was asked.
    Without, `started_to` says how far the claim was started; `closed` that nothing is left of it
    for this worker: it is over, or another's alone, which is recorded as `held`.
    """

    fence: int
    from_position: int
    to_position: int
    run_no: int | None
    started_to: int
    closed: bool
    withdrawn: tuple[int, ...]
    lease_seconds: float | None = None


class Outcome(NamedTuple):
    """How one item ended: completed, failed, snoozed, released or parked. A tuple: one an item.

    `detail` is JSON text; `after_seconds` delays what goes back to wait. Without it a failure backs
    off as its kind says, and a snooze is over at once. What is released was never worked: neither
    attempt nor start is counted.
    """

    event: TransitionEvent
    detail: str | None = None
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcomes of one run: one slot a position of the whole run, None where still running."""

    run_no: int
    outcomes: Sequence[Outcome | None]


class SettleRefusal(StrEnum):
    """Why a settlement changed nothing.

    STALE: the run is closed or another's; recorded. SETTLED: this worker had set these bits
    before, as after a lost COMMIT. CONTENDED: another write was under way; ask again.
    """

    STALE = "stale"
    SETTLED = "settled"
    CONTENDED = "contended"


@dataclass(frozen=True, slots=True)
class RefusedSettlement:
    """One settlement that was not accepted."""

    run_no: int
    reason: SettleRefusal


_ENDINGS: Final = frozenset(
    {
        TransitionEvent.COMPLETED,
        TransitionEvent.FAILED,
        TransitionEvent.SNOOZED,
        TransitionEvent.RELEASED,
        TransitionEvent.PARKED,
        TransitionEvent.CANCELLED,
    }
)


async def start_runs(
    connection: Connection,
    fences: Sequence[int],
    from_positions: Sequence[int],
    to_positions: Sequence[int],
    *,
    worker_no: int,
    lease_seconds: float,
    run_items_max: Sequence[int] | None = None,
) -> list[StartResult]:
    """Start one stretch of each claim; `fences` ascending and each once. Answers in input order.

    A stretch becomes one run, or runs of at most `run_items_max` items: as many answers then, by
    position. What settles an item each in a transaction of its own wants runs of one, or each
    would wait for the commit of the one before it.
    """
    sizes = [to - start + 1 for start, to in zip(from_positions, to_positions, strict=True)]
    rows = await connection.fetch(
        statement("start_runs"),
        fences,
        from_positions,
        to_positions,
        [max(1, size) for size in run_items_max or sizes],
        worker_no,
        lease_seconds,
    )
    return [
        StartResult(
            row["fence"],
            row["from_position"],
            row["to_position"],
            row["run_no"],
            row["started_to"],
            row["closed"],
            tuple(row["withdrawn"]),
            row["held_seconds"],
        )
        for row in rows
    ]


async def settle_runs(
    connection: Connection, settlements: Sequence[Settlement], worker_no: int
) -> list[RefusedSettlement]:
    """Record outcomes, each bit once; return what was refused, so an empty list is full success.

    Repeating a settlement whose COMMIT may have happened is harmless: it is answered SETTLED.
    A failure at the kind's cap of attempts or starts is parked in the same statement. Raises
    ValueError for an event that is no ending of a run, and for a run given twice; InvalidItem for
    evidence that jsonb cannot hold, and then records nothing.
    """
    if len({settlement.run_no for settlement in settlements}) != len(settlements):
        raise ValueError("a run is settled once in a call")
    masks: list[BitString] = []
    firsts: list[int] = []
    events: list[int | None] = []
    details: list[str | None] = []
    delays: list[float | None] = []
    for settlement in settlements:
        outcomes = settlement.outcomes
        firsts.append(len(events) + 1)
        masks.append(_mask(outcomes))
        events += [None if outcome is None else outcome[0] for outcome in outcomes]
        details += [None if outcome is None else outcome[1] for outcome in outcomes]
        delays += [None if outcome is None else outcome[2] for outcome in outcomes]
    for event in set(events):
        if event is not None and event not in _ENDINGS:
            raise ValueError(f"no run ends as {TransitionEvent(event).label}")
    with mapped_errors():
        rows = await fetch_counted(
            connection,
            "settle_runs",
            [settlement.run_no for settlement in settlements],
            masks,
            firsts,
            events,
            details,
            # What an array lacks is null, and most outcomes say no more than that it happened.
            delays if any(delay is not None for delay in delays) else [],
            worker_no,
        )
    return [RefusedSettlement(row["run_no"], SettleRefusal(row["reason"])) for row in rows]


def _mask(outcomes: Sequence[Outcome | None]) -> BitString:
    size = len(outcomes)
    padding = -size % 8
    if None not in outcomes:
        bits = ((1 << size) - 1) << padding
    else:
        bits = 0
        for outcome in outcomes:
            bits = bits << 1 | (outcome is not None)
        bits <<= padding
    return BitString.frombytes(bits.to_bytes((size + padding) // 8, "big"), bitlength=size)


async def extend_leases(
    connection: Connection, run_nos: Sequence[int], worker_no: int, lease_seconds: float
) -> dict[int, float | None]:
    """Extend this worker's open runs; a run that is missing in the answer is no longer held.

    The answer is how many seconds the lease runs from now, less than asked for where the kind sets
    a run a hard end. None stands for a run that keeps the lease it has, because a settlement of it
    is being committed: waiting for that would keep every other run's lease from being extended.
    """
    rows = await connection.fetch(statement("extend_leases"), run_nos, worker_no, lease_seconds)
    return {row["run_no"]: row["seconds"] for row in rows}
