"""Claims of a worker's own: taken, recorded and started in one transaction."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.store.claims import (
    FLOOR_MIN,
    Claim,
    claim_serial_items,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.direct_claims import (
    DIRECT_PARTITION,
    DIRECT_TOPIC,
    DirectRun,
    FlowScan,
    claim_and_start_items,
)
from dueledger.ledger.store.flow_limits import (
    estimate_allowances,
    lock_limited_flows,
    measure_allowances,
    spend_tokens,
)
from dueledger.ledger.store.runs import StartResult, start_runs
from dueledger.workers.direct.claimed_runs import ClaimedRun, ClaimResult, SuspectClaim
from dueledger.workers.direct.direct_item import DirectItem
from dueledger.workers.direct.flow_queue import FlowPart, Share, ShareResult
from dueledger.workers.handlers import HandlerForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dueledger.ledger.store import Connection, Pool, Record
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.workers.run.handler_pools import HandlerPools

ANY_WINDOW: Final = 2**31 - 1  # what is settled by topic elsewhere waits in none here
FLOOD_ITEMS: Final = 1000
_FLOW_NO: Final[Callable[[Share], int]] = attrgetter("flow.flow_no")


@final
class DirectClaims:
    """Claims for one worker, each call in one transaction."""

    def __init__(
        self, pool: Pool, crews: HandlerPools, *, worker_no: int, lease_seconds: float
    ) -> None:
        self._pool = pool
        self._crews = crews
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds

    async def claim_shared(self, shares: Sequence[Share]) -> ClaimResult:
        """Take of flows that share claims: one claim and run a crew and hard end.

        A kind's name says nothing of its tenant, and one tenant's hard end is not another's.
        """
        lots = ClaimResult()
        shares = sorted(shares, key=_FLOW_NO)
        ends = [(self._crews.key_of(share.flow), share.flow.run_seconds) for share in shares]
        numbers = {end: number for number, end in enumerate(dict.fromkeys(ends))}
        async with self._pool.acquire() as connection:
            await self._take(connection, shares, [numbers[end] for end in ends], lots)
        return lots

    async def claim_apart(self, shares: Sequence[Share]) -> ClaimResult:
        """Take of limited flows, within what their limits leave, and serial items of any."""
        lots = ClaimResult()
        async with self._pool.acquire() as connection, connection.transaction():
            within = await _within_limits(connection, shares, lots)
            plain = sorted((share for share in within if not share.key.serial), key=_FLOW_NO)
            if plain:
                await self._take(connection, plain, range(len(plain)), lots, limited=True)
            serial = [share for share in within if share.key.serial]
            if serial:
                await self._take_serial(connection, serial, lots)
            await _spend(connection, within, lots)
        return lots

    async def claim_suspects(self, flow: DueFlow, quota: int) -> ClaimResult:
        """Take suspects of one flow, no more than may be together."""
        lots = ClaimResult()
        share = Share(FlowPart(flow.flow_no, serial=False), flow, quota, FLOOR_MIN)
        async with self._pool.acquire() as connection, connection.transaction():
            within = await _within_limits(connection, [share], lots)
            if within:
                await self._take(connection, within, [0], lots, limited=True, suspects=True)
                await _spend(connection, within, lots)
        return lots

    async def start_suspects(self, withheld: SuspectClaim) -> list[ClaimedRun]:
        """Start suspects that were withheld; none where their claim's deadline has passed."""
        async with self._pool.acquire() as connection:
            return await self._start(connection, [withheld], is_alone=True)

    async def _take(
        self,
        connection: Connection,
        shares: Sequence[Share],
        crews: Sequence[int],
        lots: ClaimResult,
        *,
        limited: bool = False,
        suspects: bool = False,
    ) -> None:
        handlers = [self._crews.pool_of(share.flow).handler for share in shares]
        taken = await claim_and_start_items(
            connection,
            [share.flow.flow_no for share in shares],
            [share.quota for share in shares],
            crews=crews,
            apart=[handler.form is HandlerForm.TRANSACTION for handler in handlers],
            floors=[share.floor for share in shares],
            run_seconds=[share.flow.run_seconds for share in shares],
            worker_no=self._worker_no,
            lease_seconds=self._lease_seconds,
            limited=limited,
            suspects=suspects,
        )
        flows = {share.flow.flow_no: share.flow for share in shares}
        of_crews = {crew: share.flow for crew, share in zip(crews, shares, strict=True)}
        counts: Counter[int] = Counter()
        for run in taken.runs:
            start = StartResult(
                run.fence,
                1,
                len(run.ids),
                run.run_no,
                len(run.ids),
                closed=True,
                withdrawn=tuple(run.withdrawn),
                lease_seconds=run.lease_seconds,
            )
            flow = of_crews[run.group_no]
            flow_no = flow.flow_no if limited else None
            post = self._crews.key_of(flow)
            lots.runs.append(ClaimedRun(post, start, _items(run, flows), suspects, flow_no))
            counts.update(run.flow_nos)
        looks = {look.flow_no: look for look in taken.scans}
        for share in shares:
            look = looks.get(share.flow.flow_no)
            if look is not None:
                lots.results[share.key] = _served(share, look, counts[look.flow_no])
                if look.has_suspects:
                    lots.suspect_flow_nos.add(look.flow_no)

    async def _take_serial(
        self, connection: Connection, shares: Sequence[Share], lots: ClaimResult
    ) -> None:
        """Take items whose keys are free, a claim for each flow; suspects are not started yet."""
        rows = await claim_serial_items(
            connection,
            [share.flow.flow_no for share in shares],
            [share.quota for share in shares],
            self._worker_no,
            floors=[share.floor for share in shares],
            measured=[share.flow.is_limited for share in shares],
        )
        flows = {share.flow.flow_no: share.flow for share in shares}
        parts = self._group_into_claims(rows, flows)
        fences = sorted(await next_fences(connection, len(parts)))
        await record_claims(
            connection,
            [
                self._claim(fence, part, flows[part[0]["flow_no"]])
                for fence, part in zip(fences, parts, strict=True)
            ],
        )
        ordinary: list[SuspectClaim] = []
        for fence, part in zip(fences, parts, strict=True):
            flow = flows[part[0]["flow_no"]]
            items = _items(_run_of_rows(fence, part), flows)
            to = ordinary if part[0]["batch_max"] is None else lots.suspect_claims
            to.append(SuspectClaim(flow, fence, items))
        lots.runs += await self._start(connection, ordinary)
        counts = Counter(row["flow_no"] for row in rows)
        for share in shares:
            taken = counts[share.flow.flow_no]
            lots.results[share.key] = ShareResult(taken, has_more=taken >= share.quota)

    async def _start(
        self, connection: Connection, claims: Sequence[SuspectClaim], *, is_alone: bool = False
    ) -> list[ClaimedRun]:
        if not claims:
            return []
        starts = await start_runs(
            connection,
            [claim.fence for claim in claims],
            [1] * len(claims),
            [len(claim.items) for claim in claims],
            worker_no=self._worker_no,
            lease_seconds=self._lease_seconds,
            run_items_max=[self._crews.pool_of(claim.flow).run_items_max for claim in claims],
        )
        of_fences = {claim.fence: claim for claim in claims}
        return [
            ClaimedRun(
                self._crews.key_of(of_fences[start.fence].flow),
                start,
                of_fences[start.fence].items[start.from_position - 1 : start.to_position],
                is_alone,
                of_fences[start.fence].flow.flow_no,
            )
            for start in starts
            if start.run_no is not None
        ]

    def _group_into_claims(
        self, rows: Iterable[Record], flows: Mapping[int, DueFlow]
    ) -> list[list[Record]]:
        """Group rows by claim; suspects no more together than may be, and than the crew has."""
        groups: dict[tuple[int, int | None], list[Record]] = {}
        for row in rows:
            groups.setdefault((row["flow_no"], row["batch_max"]), []).append(row)
        parts: list[list[Record]] = []
        for (flow_no, batch_max), group in groups.items():
            options = self._crews.pool_of(flows[flow_no]).handler.options
            crew_size = options.concurrency * options.batch_max
            size = len(group) if batch_max is None else min(batch_max, crew_size)
            parts += [group[at : at + size] for at in range(0, len(group), size)]
        return parts

    def _claim(self, fence: int, part: Sequence[Record], flow: DueFlow) -> Claim:
        return Claim(
            fence=fence,
            allocator_no=self._worker_no,
            topic=DIRECT_TOPIC,
            partition=DIRECT_PARTITION,
            item_nos=[row["item_no"] for row in part],
            effective_dates=[row["effective_date"] for row in part],
            attempts=[row["attempt"] + 1 for row in part],
            starts=[row["starts"] + 1 for row in part],
            batch_max=part[0]["batch_max"],
            queue_seconds=flow.queue_seconds,
            dispatch_seconds=flow.dispatch_seconds,
            run_seconds=flow.run_seconds,
            flow_no=flow.flow_no if flow.is_limited else None,
        )


async def _within_limits(
    connection: Connection, shares: Sequence[Share], lots: ClaimResult
) -> list[Share]:
    """Lock the limited flows and cut shares to what they may have; what may have none is left out.

    Those that seem to have nothing left are not locked, which would be a write; those that another
    worker or an allocator measures now are left out, too.
    """
    limited = {share.flow.flow_no for share in shares if share.flow.is_limited}
    if not limited:
        return list(shares)
    foreseen = await estimate_allowances(connection, sorted(limited), ANY_WINDOW)
    open_nos = [flow_no for flow_no, seen in foreseen.items() if seen.items > 0]
    left: dict[int, int] = {}
    if open_nos:
        locked = await lock_limited_flows(connection, sorted(open_nos))
        left = await measure_allowances(connection, list(locked), ANY_WINDOW)
    within: list[Share] = []
    for share in shares:
        flow_no, quota = share.flow.flow_no, share.quota
        if share.flow.is_limited:
            quota = min(quota, left.get(flow_no, 0))
            left[flow_no] = left.get(flow_no, 0) - quota
        if quota > 0:
            within.append(share._replace(quota=quota))
        else:
            again = foreseen[flow_no].retry_seconds if flow_no in foreseen else None
            lots.results[share.key] = ShareResult(0, next_seconds=again)
    return within


async def _spend(connection: Connection, shares: Sequence[Share], lots: ClaimResult) -> None:
    spent: Counter[int] = Counter()
    for share in shares:
        if share.flow.is_limited and share.key in lots.results:
            spent[share.flow.flow_no] += lots.results[share.key].taken
    spent = +spent
    if spent:
        await spend_tokens(connection, list(spent), list(spent.values()))


def _served(share: Share, look: FlowScan, taken: int) -> ShareResult:
    has_more = look.seen >= share.quota
    # Below a floor that moved only what commits late can lie; lists, which begin at the bottom,
    # find it. A flow that has little is looked at from where it was last listed.
    moved = share.floor._replace(at=look.floor.at, block=look.floor.block)
    floor = moved if has_more and look.seen >= FLOOD_ITEMS else None
    return ShareResult(taken, has_more, look.due_seconds, floor)


def _items(run: DirectRun, flows: Mapping[int, DueFlow]) -> list[DirectItem]:
    return [DirectItem(run, position, flows) for position in range(1, len(run.ids) + 1)]


def _run_of_rows(fence: int, rows: Sequence[Record]) -> DirectRun:
    """Return rows of `claim_serial_items` as columns; which run they are in is not known yet."""
    return DirectRun(
        run_no=0,
        fence=fence,
        group_no=0,
        lease_seconds=0.0,
        withdrawn=(),
        attempts=[row["attempt"] + 1 for row in rows],
        ids=[row["id"] for row in rows],
        flow_nos=[row["flow_no"] for row in rows],
        business_keys=[row["business_key"] for row in rows],
        cycles=[row["cycle"] for row in rows],
        effective_dates=[row["effective_date"] for row in rows],
        due_ats=[row["due_at"] for row in rows],
        payloads=[row["payload"].encode() for row in rows],
        traceparents=[row["traceparent"] for row in rows],
    )
