"""The claim rate with a growing backlog, and while a forgotten transaction holds a snapshot.

The allocator's transaction is timed: rows taken, claims recorded, committed. So is the query for
the next floors, as often as an allocator makes it. Claimed items are replaced at once, untimed, so
that the backlog is as large at the end as at the start.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Final, final

from bench.ledgers import Ledger, MeasurementFailed
from bench.measurements import open_snapshot
from bench.report import Goal, Measured
from bench.rig import APPLICATION, Rig
from bench.workload import DUE_AT, tenant_flows
from dueledger.ledger.claim_id import ClaimId, new_claim_id
from dueledger.ledger.flows.queue import FLOOR_RAISE_ITEMS
from dueledger.ledger.store import connect
from dueledger.ledger.store.claimed_rows import ClaimedRow
from dueledger.ledger.store.claims import (
    Claim,
    DueFlow,
    PendingFloor,
    claim_items,
    find_next_due,
    list_due_flows,
    next_fences,
    record_claims,
)

LEVELS: Final = (10_000, 1_000_000, 10_000_000)
FLAT: Final = 0.9
FLOWS_MAX: Final = 1000
CLAIMS_A_CYCLE: Final = 2
SMALL_CLAIMS_A_CYCLE: Final = 20
WARM_UP_CLAIMS: Final = 4
SMALL_BATCH: Final = 1000
QUIET_ITEMS: Final = 50_000


@final
@dataclass(frozen=True, slots=True)
class BacklogOptions:
    """The sizes of the backlog, one measurement each; the items of one claim, and of all claims.

    The snapshot is held while `hold_items` are claimed and replaced, spread over `hold_seconds`.
    """

    pending: tuple[int, ...] = LEVELS
    batches: tuple[int, ...] = (4000, 100)
    items: int = 200_000
    hold_pending_max: int = 1_000_000
    hold_seconds: float = 300.0
    hold_items: int = 2_000_000


def pending_levels(pending_max: int) -> tuple[int, ...]:
    """Return the sizes of the backlog, from ten thousand to the largest."""
    return tuple(sorted({*(level for level in LEVELS if level < pending_max), pending_max}))


async def bench_backlog(rig: Rig, options: BacklogOptions) -> Measured:
    """Measure with a growing backlog, then while a snapshot is held."""
    levels = sorted(options.pending)
    held_at = max(level for level in levels if level <= max(options.hold_pending_max, levels[0]))
    rates: dict[int, dict[int, int]] = {}
    held: dict[int, int] = {}
    meter = rig.meter()
    usage = meter.read()
    async with rig.ledger() as ledger:
        backlog = _Backlog(rig, ledger)
        for level in levels:
            await backlog.fill(level)
            meter = rig.meter()
            rates[level] = {
                batch: await backlog.measure(batch, _share(options, batch))
                for batch in options.batches
            }
            usage = meter.read()
            if level == held_at:
                held = await _measure_held(rig, backlog, options)
        await ledger.require_balance(all_completed=False)
    goals = [*_flat_goals(rates, options), *_held_goals(rates[held_at], held)]
    figures = {
        "items_per_second_by_pending": {
            str(level): {f"at {batch}": rate for batch, rate in by_batch.items()}
            for level, by_batch in rates.items()
        },
        "with_a_snapshot_held": {f"at {batch}": rate for batch, rate in held.items()},
        "list_due_flows_milliseconds": backlog.list_milliseconds,
    }
    return Measured(goals, figures, usage)


@final
class _Backlog:
    """The pending items of one ledger, and one claimer that claims as an allocator does."""

    def __init__(self, rig: Rig, ledger: Ledger) -> None:
        self.dsn = ledger.dsn
        self._rig = rig
        self._ledger = ledger
        self._flows: list[DueFlow] = []
        self._floors: dict[int, PendingFloor] = {}
        self._taken: Counter[int] = Counter()  # since the floor was read
        self._waiting = 0
        self._loads = 0
        self.list_milliseconds: dict[str, float] = {}

    async def fill(self, level: int) -> None:
        """Load items until `level` are pending."""
        await self._load(level - self._waiting)
        await self._ledger.rest()
        began = perf_counter()
        self._flows = await list_due_flows(self._ledger.connection, FLOWS_MAX)
        self.list_milliseconds[str(level)] = round((perf_counter() - began) * 1e3, 2)
        self._floors = {flow.flow_no: flow.floor for flow in self._flows}
        self._taken.clear()

    async def measure(self, batch: int, items: int) -> int:
        """Claim `items` items, `batch` at a time; return items/s over the time of the claims."""
        self._rig.say(f"claiming {items:,} items, {batch:,} at a time, {self._waiting:,} waiting")
        a_cycle = batch * (CLAIMS_A_CYCLE if batch >= SMALL_BATCH else SMALL_CLAIMS_A_CYCLE)
        await self._cycle(batch, batch * WARM_UP_CLAIMS)
        claimed, seconds = 0, 0.0
        while claimed < items:
            taken, spent = await self._cycle(batch, a_cycle)
            claimed += taken
            seconds += spent
        return round(claimed / seconds)

    async def churn(self, batch: int, items: int, over_seconds: float) -> None:
        """Claim and replace items, spread over a time."""
        began, claimed = monotonic(), 0
        while claimed < items:
            taken, _ = await self._cycle(batch, batch * CLAIMS_A_CYCLE)
            claimed += taken
            ahead = claimed / items * over_seconds - (monotonic() - began)
            await asyncio.sleep(max(ahead, 0.0))

    async def _cycle(self, batch: int, items: int) -> tuple[int, float]:
        """Claim up to `items`, timed, then replace them; return how many and how long."""
        items = min(items, self._waiting)
        claimed = 0
        began = perf_counter()
        while claimed < items:
            taken = await self._claim(min(batch, items - claimed))
            if not taken:
                raise MeasurementFailed(f"nothing could be claimed, with {self._waiting:,} waiting")
            claimed += taken
        seconds = perf_counter() - began
        self._waiting -= claimed
        await self._load(claimed)
        return claimed, seconds

    async def _claim(self, batch: int) -> int:
        """Take a share from each flow and record a claim a topic, in one transaction."""
        connection = self._ledger.connection
        quota, rest = divmod(batch, len(self._flows))
        quotas = [quota + (place < rest) for place in range(len(self._flows))]
        async with connection.transaction():
            flow_nos = [flow.flow_no for flow in self._flows]
            rows = await claim_items(connection, flow_nos, quotas, list(self._floors.values()))
            (fence,) = await next_fences(connection, 1)
            await record_claims(
                connection, [self._record(new_claim_id(fence, rows.claimed_at), rows.items())]
            )
        self._taken.update(row.flow_no for row in rows.items())
        await self._raise_floors()
        return len(rows)

    async def _raise_floors(self) -> None:
        flooded = [flow_no for flow_no, taken in self._taken.items() if taken >= FLOOR_RAISE_ITEMS]
        if not flooded:
            return
        floors = [self._floors[flow_no] for flow_no in flooded]
        for due in await find_next_due(
            self._ledger.connection, flooded, floors, [0.0] * len(flooded)
        ):
            self._floors[due.flow_no] = due.floor
            self._taken[due.flow_no] = 0

    def _record(self, claim_id: ClaimId, rows: Sequence[ClaimedRow]) -> Claim:
        flow = self._flows[0]
        return Claim(
            id=claim_id,
            allocator_no=self._ledger.actor_no,
            topic=flow.topic,
            partition=0,
            item_nos=[row.item_no for row in rows],
            effective_dates=[row.effective_date for row in rows],
            attempts=[row.attempt + 1 for row in rows],
            starts=[row.starts + 1 for row in rows],
            queue_seconds=flow.queue_seconds,
            dispatch_seconds=flow.dispatch_seconds,
        )

    async def _load(self, items: int) -> None:
        if items <= 0:
            return
        self._loads += 1
        await self._ledger.load(
            items,
            flows=tenant_flows(self._ledger.kind),
            prefix=f"B{self._loads}-",
            due_at=DUE_AT,
            quiet=items < QUIET_ITEMS,
        )
        self._waiting += items


async def _measure_held(rig: Rig, backlog: _Backlog, options: BacklogOptions) -> dict[int, int]:
    """Measure after many items were claimed while a transaction stays open."""
    rig.say(f"holding a snapshot for {options.hold_seconds:g} s")
    sleeper = await connect(backlog.dsn, application_name=APPLICATION)
    try:
        async with open_snapshot(sleeper):
            await backlog.churn(max(options.batches), options.hold_items, options.hold_seconds)
            return {
                batch: await backlog.measure(batch, _share(options, batch))
                for batch in options.batches
            }
    finally:
        await sleeper.close()


def _share(options: BacklogOptions, batch: int) -> int:
    """Claim fewer items with small claims: the time is about the same."""
    return options.items if batch >= SMALL_BATCH else max(options.items // 10, batch)


def _flat_goals(rates: dict[int, dict[int, int]], options: BacklogOptions) -> list[Goal]:
    low, high = min(rates), max(rates)
    goals: list[Goal] = []
    for batch in options.batches:
        of_batch = [by_batch[batch] for by_batch in rates.values()]
        says = f"flat within {1 - FLAT:.0%} from {low:,} to {high:,} pending, {batch:,} a claim"
        goals.append(Goal(says, round(min(of_batch) / max(of_batch), 3), FLAT, "×"))
    return goals


def _held_goals(free: dict[int, int], held: dict[int, int]) -> list[Goal]:
    return [
        Goal(
            f"at least {FLAT:.0%} with a snapshot held, {batch:,} a claim",
            round(held[batch] / free[batch], 3),
            FLAT,
            "×",
        )
        for batch in held
    ]
