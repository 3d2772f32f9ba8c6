"""Dueledger and its peers with the same no-op jobs on the same server, rounds interleaved."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final, final

from bench import peer_systems as peers
from bench.draining import WARM_UP_ITEMS, Drained, ProcessSet, drain
from bench.peer_systems import PEERS, PeerRound, PeerUnavailable
from bench.report import Goal, Measured, usage_fields
from bench.rig import Rig
from bench.usage import bound_by
from bench.workload import WARM_ITEMS
from dueledger.ledger.errors import DueledgerError

PIPELINE: Final = "dueledger pipeline"
DIRECT: Final = "dueledger direct"
GOALS: Final = (
    (PIPELINE, "graphile-worker", 1.4),
    (PIPELINE, "pg-boss", 1.2),
    (PIPELINE, "river", 2.5),
    (PIPELINE, "pgqueuer", 2.5),
    (DIRECT, "graphile-worker", 2.2),
)

BenchRound = Drained | PeerRound
Contestant = Callable[[], Awaitable[BenchRound]]


@final
@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How many jobs a round, how many rounds, and which contestants: none means all.

    `warm_items` go through Kafka before a round of the pipeline: its broker has just started, and
    compiles its code. Postgres, which all contestants share, does not.
    """

    items: int = 100_000
    rounds: int = 3
    only: tuple[str, ...] = ()
    warm_items: int = WARM_ITEMS


async def bench_compare(rig: Rig, options: CompareOptions) -> Measured:
    """Run the rounds; one that cannot run is an entry with the reason."""
    contestants: dict[str, Contestant] = {
        PIPELINE: partial(_ours, rig, options.items, ProcessSet(), options.warm_items),
        DIRECT: partial(
            _ours, rig, options.items, ProcessSet(workers=2, direct=True), WARM_UP_ITEMS
        ),
    }
    errors: dict[str, str] = {}
    for peer in PEERS:
        if options.only and peer.name not in options.only:
            continue
        try:
            folder = await peers.install(peer, rig)
        except PeerUnavailable as error:
            errors[peer.name] = error.message
            continue
        contestants[peer.name] = partial(
            peers.work, peer, folder, rig, items=options.items, warm_up=WARM_UP_ITEMS
        )
    rounds: dict[str, list[BenchRound]] = {name: [] for name in contestants}
    for number in range(1, options.rounds + 1):
        rig.say(f"round {number} of {options.rounds}")
        for name, contestant in contestants.items():
            if name in errors:
                continue
            try:
                rounds[name].append(await contestant())
            except DueledgerError as error:
                errors[name] = error.message
    return _measured(rounds, errors)


async def _ours(rig: Rig, items: int, processes: ProcessSet, warm_items: int) -> Drained:
    async with rig.ledger() as ledger:
        rig.say(f"dueledger: {'direct' if processes.direct else 'pipeline'}")
        return await drain(rig, ledger, items, processes, warm_items=warm_items)


def _measured(rounds: dict[str, list[BenchRound]], errors: dict[str, str]) -> Measured:
    medians = {
        name: median(one.items_per_second for one in done) for name, done in rounds.items() if done
    }
    ours = [name for name in (PIPELINE, DIRECT) if name in medians]
    if not ours:
        raise DueledgerError("; ".join(f"{name}: {error}" for name, error in errors.items()))
    goals = [
        Goal(f"{mine} at {bound} × {theirs}", _ratio(medians, mine, theirs), bound, "×")
        for mine, theirs, bound in GOALS
    ]
    ratios = {
        mine: {theirs: _ratio(medians, mine, theirs) for theirs in medians if theirs not in ours}
        for mine in ours
    }
    figures = {
        "medians": medians,
        "ratios": ratios,
        "contestants": {name: _fields(done) for name, done in rounds.items() if done},
        "errors": errors,
    }
    last = rounds[ours[0]][-1]
    return Measured(goals, figures, last.usage, last.items)


def _ratio(medians: dict[str, float], mine: str, theirs: str) -> float | None:
    """Return the ratio of the rates; None if one of them could not run."""
    if mine not in medians or theirs not in medians:
        return None
    return round(medians[mine] / medians[theirs], 2)


def _fields(done: list[BenchRound]) -> dict[str, Any]:
    last = done[-1]
    return {
        "items_per_second": [one.items_per_second for one in done],
        **usage_fields(last.usage, last.items),
        "bound_by": bound_by(last.usage),
    }
