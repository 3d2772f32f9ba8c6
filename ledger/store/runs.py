"""Runs: starting claim slices, settling outcomes, and extending leases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import accumulate, chain
from typing import Final, NamedTuple

from asyncpg import BitString

from dueledger.ledger.claim_id import ClaimId, first_and_last
from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.counted import fetch_counted
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement

_SEPARATOR: Final = "\x1f"
"""No JSON text contains it."""


class RunId(NamedTuple):
    """A run, and when its claim was made. With both times a look-up reads two table partitions."""

    run_no: int
    started_at: datetime
    claimed_at: datetime


class RunIsolation(StrEnum):
    """Where the suspects of a run are, apart from other items.

    PROCESS: in a process of their own, so that the end of their worker proves nothing. SLOT: one
    at a time in their worker's process, so that its end makes them the likely cause.
    """

    PROCESS = "process"
    SLOT = "slot"


class StartRefusal(StrEnum):
    """Why a start changed nothing and was recorded.

    MISMATCH: no claim has this fence, time and token; the record is of commits that a restored
    ledger lost, of another ledger, or forged.
    WRONG_SETTLER: only another worker, or the consumers of its topic, may work the claim. STALE:
    the claim was closed before these positions were started.
    """

    MISMATCH = "mismatch"
    WRONG_SETTLER = "wrong_settler"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class StartResult:
    """The result for one claim slice, or for one run of it.

    With `run` the worker has these positions, without the `withdrawn` ones, which ended.
    `lease_seconds` is the length of the lease from the request on.
    Without `run`, `started_to` is the last started position of the claim. `closed` means that this
    worker can start nothing more of it: the claim is closed, or the start was recorded as refused.
    """

    fence: int
    from_position: int
    to_position: int
    run: RunId | None
    started_to: int
    closed: bool
    withdrawn: tuple[int, ...]
    lease_seconds: float | None = None
    refusal: StartRefusal | None = None

    @property
    def run_no(self) -> int | None:
        """The number of the run, if one was started."""
        return None if self.run is None else self.run.run_no


class Outcome(NamedTuple):
    """How one item ended: completed, failed, snoozed, released or parked. A tuple: one an item.

    `detail` is JSON text; `after_seconds` delays an item that becomes pending again. Without it the
    kind's backoff applies to a failure, and a snooze ends at once. A released item was never
    worked: neither attempt nor start is counted.
    """

    event: TransitionEvent
    detail: str | None = None
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcomes of one run, one per position of the run; None for items still running."""

    run: RunId
    outcomes: Sequence[Outcome | None]


class SettleRefusal(StrEnum):
    """Why a settlement changed nothing.

    STALE: the run is closed or another worker's; this is recorded. SETTLED: this worker set these
    bits before, as after a lost COMMIT. CONTENDED: another write was in progress; repeat it.
    """

    STALE = "stale"
    SETTLED = "settled"
    CONTENDED = "contended"


@dataclass(frozen=True, slots=True)
class RefusedSettlement:
    """One settlement that was not accepted."""

    run_no: int
    reason: SettleRefusal


_OUTCOME_EVENTS: Final = frozenset(
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
    claim_ids: Sequence[ClaimId],
    from_positions: Sequence[int],
    to_positions: Sequence[int],
    *,
    worker_no: int,
    lease_seconds: float,
    run_items_max: Sequence[int] | None = None,
    isolations: Sequence[RunIsolation | None] | None = None,
) -> list[StartResult]:
    """Start one slice of each claim; return results in input order. Fences ascend, each once.

    A slice becomes one run, or several of at most `run_items_max` items, with one result each, by
    position. A handler that settles each item in its own transaction needs runs of one item:
    otherwise each commit would wait for the previous one.

    Slices without withdrawn items are started by a statement of their own, which takes less; those
    that it leaves, by a second one.
    """
    sizes = [to - start + 1 for start, to in zip(from_positions, to_positions, strict=True)]
    slices = list(
        zip(
            claim_ids,
            from_positions,
            to_positions,
            [max(1, size) for size in run_items_max or sizes],
            isolations or [None] * len(sizes),
            strict=True,
        )
    )
    arguments = (connection, worker_no, lease_seconds)
    rows = await _fetch_starts(statement("start_plain_runs"), slices, *arguments)
    plain = {row["fence"] for row in rows}
    others = [each for each in slices if each[0].fence not in plain]
    claimed_at = {claim_id.fence: claim_id.claimed_at for claim_id in claim_ids}
    results = [_plain_result(row, claimed_at[row["fence"]]) for row in rows]
    if others:
        rows = await _fetch_starts(statement("start_runs"), others, *arguments)
        results += [_start_result(row, claimed_at[row["fence"]]) for row in rows]
        results.sort(key=lambda result: (result.fence, result.from_position))
    return results


async def _fetch_starts(
    query: str,
    slices: Sequence[tuple[ClaimId, int, int, int, RunIsolation | None]],
    connection: Connection,
    worker_no: int,
    lease_seconds: float,
) -> list[Record]:
    claimed_ats = [each[0].claimed_at for each in slices]
    return await connection.fetch(
        query,
        [each[0].fence for each in slices],
        claimed_ats,
        [each[0].token for each in slices],
        [each[1] for each in slices],
        [each[2] for each in slices],
        [each[3] for each in slices],
        worker_no,
        lease_seconds,
        *first_and_last(claimed_ats),
        [each[4] for each in slices],
    )


def _plain_result(row: Record, claimed_at: datetime) -> StartResult:
    to_position = row["to_position"]
    return StartResult(
        row["fence"],
        row["from_position"],
        to_position,
        RunId(row["run_no"], row["started_at"], claimed_at),
        to_position,
        closed=False,
        withdrawn=(),
        lease_seconds=row["lease_seconds_left"],
    )


def _start_result(row: Record, claimed_at: datetime) -> StartResult:
    run_no, refusal = row["run_no"], row["refusal"]
    return StartResult(
        row["fence"],
        row["from_position"],
        row["to_position"],
        None if run_no is None else RunId(run_no, row["started_at"], claimed_at),
        row["started_to"],
        row["closed"],
        tuple(row["withdrawn"]),
        row["lease_seconds_left"],
        None if refusal is None else StartRefusal(refusal),
    )


async def settle_runs(
    connection: Connection,
    settlements: Sequence[Settlement],
    worker_no: int,
    *,
    actor_no: int | None = None,
) -> list[RefusedSettlement]:
    """Record outcomes, each item once; return the refused settlements. An empty list is success.

    The runs are those of `worker_no`; the journal names `actor_no`, or else the worker.

    A settlement whose COMMIT may have happened can be repeated: the result is SETTLED. A failure
    at the kind's limit of attempts or starts is parked in the same statement. Raises ValueError
    for an event that is not an outcome, and for a run that occurs twice; InvalidItem for evidence
    that jsonb cannot store, and then records nothing of these runs.

    Where no item ended otherwise than completed, a shorter statement records it, and leaves the
    runs that it does not accept to the other one. Where it is one run of one item, as of handlers
    with a transaction, that statement is the shortest.
    """
    runs = [settlement.run for settlement in settlements]
    if len({run.run_no for run in runs}) != len(runs):
        raise ValueError("a run is settled once in a call")
    by = worker_no, worker_no if actor_no is None else actor_no
    events = {each[0] for each in _outcomes(settlements) if each is not None}
    for event in events:
        if event not in _OUTCOME_EVENTS:
            raise ValueError(f"no run ends as {TransitionEvent(event).label}")
    with mapped_errors():
        if events <= {TransitionEvent.COMPLETED}:
            accepted = await _settle_completed(connection, settlements, *by)
            settlements = [each for each in settlements if each.run.run_no not in accepted]
            if not settlements:
                return []
        outcomes = _outcomes(settlements)
        delays = [None if each is None else each[2] for each in outcomes]
        rows = await fetch_counted(
            connection,
            "settle_runs",
            *_settle_arguments(settlements, *by),
            [None if each is None else each[0] for each in outcomes],
            delays if any(delay is not None for delay in delays) else [],
        )
    return [RefusedSettlement(row["run_no"], SettleRefusal(row["reason"])) for row in rows]


async def _settle_completed(
    connection: Connection, settlements: Sequence[Settlement], worker_no: int, actor_no: int
) -> set[int]:
    """Record items as completed; return the numbers of the runs that were accepted."""
    match settlements:
        case [Settlement(run, [Outcome(_, detail)])]:
            arguments = (*run, detail, worker_no, actor_no, False)
            rows = await fetch_counted(connection, "settle_completed_run", *arguments)
            return {row["run_no"] for row in rows}
        case _:
            arguments = (*_settle_arguments(settlements, worker_no, actor_no), False)
            (row,) = await fetch_counted(connection, "settle_completed_runs", *arguments)
            return set(row["run_nos"] or ())


def _outcomes(settlements: Iterable[Settlement]) -> list[Outcome | None]:
    return list(chain.from_iterable(settlement.outcomes for settlement in settlements))


def _settle_arguments(
    settlements: Sequence[Settlement], worker_no: int, actor_no: int
) -> tuple[object, ...]:
    """Return the arguments that both statements have."""
    runs = [settlement.run for settlement in settlements]
    started_ats = [run.started_at for run in runs]
    sizes = [len(settlement.outcomes) for settlement in settlements]
    details = [None if each is None else each[1] for each in _outcomes(settlements)]
    return (
        [run.run_no for run in runs],
        started_ats,
        [_mask(settlement.outcomes) for settlement in settlements],
        [end - size + 1 for end, size in zip(accumulate(sizes), sizes, strict=True)],
        join_details(details),
        worker_no,
        *first_and_last(started_ats),
        *first_and_last(run.claimed_at for run in runs),
        actor_no,
    )


def join_details(details: Sequence[str | None]) -> str:
    """Return details as one text: of an array asyncpg examines each element.

    An empty text means null. Raises InvalidItem for a text that cannot be JSON.
    """
    if not any(details):
        return ""
    joined = _SEPARATOR.join([detail or "" for detail in details])
    if joined.count(_SEPARATOR) != len(details) - 1:
        raise InvalidItem("evidence: it is not JSON", field="evidence")
    return joined


async def report_overruns(
    connection: Connection, overruns: Mapping[RunId, Sequence[bool]], worker_no: int
) -> None:
    """Record which items of a worker's open runs were with their handlers at the hard end.

    They are blamed when the run is reaped. Runs that are not at their hard end stay as they are.
    """
    started_ats = [run.started_at for run in overruns]
    await connection.execute(
        statement("report_overruns"),
        [run.run_no for run in overruns],
        started_ats,
        [_bits(bits) for bits in overruns.values()],
        worker_no,
        *first_and_last(started_ats),
    )


def _mask(outcomes: Sequence[Outcome | None]) -> BitString:
    size = len(outcomes)
    if None in outcomes:
        return _bits([outcome is not None for outcome in outcomes])
    padding = -size % 8
    bits = ((1 << size) - 1) << padding
    return BitString.frombytes(bits.to_bytes((size + padding) // 8, "big"), bitlength=size)


def _bits(values: Sequence[bool]) -> BitString:
    size = len(values)
    padding = -size % 8
    bits = 0
    for value in values:
        bits = bits << 1 | value
    bits <<= padding
    return BitString.frombytes(bits.to_bytes((size + padding) // 8, "big"), bitlength=size)


async def extend_leases(
    connection: Connection, runs: Sequence[RunId], worker_no: int, lease_seconds: float
) -> dict[int, float | None]:
    """Extend the leases of this worker's open runs. Runs missing in the result lost their lease.

    Returns the seconds of each lease from now, less than requested if the kind sets runs a hard
    end. None means that the run keeps its lease because a settlement of it is being committed:
    waiting for it would delay the extension of all other leases.
    """
    started_ats = [run.started_at for run in runs]
    rows = await connection.fetch(
        statement("extend_leases"),
        [run.run_no for run in runs],
        started_ats,
        worker_no,
        lease_seconds,
        *first_and_last(started_ats),
    )
    return {row["run_no"]: row["seconds"] for row in rows}
