"""Direct claims: claimed, recorded and started in one transaction."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.flows.admission import (
    ANY_WINDOW,
    Admission,
    admit_shares,
    lag_flow_nos,
    limited_flows,
    spend_allowances,
)
from dueledger.ledger.flows.shares import FlowShare, ShareResult, served_share
from dueledger.ledger.store.claims import (
    FLOOR_MIN,
    claim_serial_items,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.direct_claims import (
    DirectRun,
    claim_and_start_items,
    direct_claim,
    run_of_rows,
)
from dueledger.ledger.store.runs import RunId, StartResult, start_runs
from dueledger.workers.direct.claimed_runs import ClaimedRun, ClaimResult, SuspectClaim
from dueledger.workers.direct.direct_item import DirectItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dueledger.ledger.store import Connection, Pool
    from dueledger.ledger.store.claimed_rows import ClaimedRow
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.workers.run.handler_pools import HandlerPools
    from dueledger.workers.run.listener import RunPool

_FLOW_NO: Final[Callable[[FlowShare], int]] = attrgetter("flow.flow_no")


@final
class DirectClaims:
    """Claims for one worker, each call in one transaction."""

    def __init__(
        self, pool: Pool, handler_pools: HandlerPools, *, worker_no: int, lease_seconds: float
    ) -> None:
        self._pool = pool
        self._handler_pools = handler_pools
        self._worker_no = worker_no
        self._lease_seconds = lease_seconds
        self._limited: frozenset[int] = frozenset()

    async def claim_shared(self, shares: Sequence[FlowShare]) -> ClaimResult:
        """Claim from flows that share claims: one claim and run for each pool and hard end.

        Kinds of two tenants may have the same name and different hard ends.
        """
        result = ClaimResult()
        shares = sorted(shares, key=_FLOW_NO)
        ends = [
            (self._handler_pools.key_of(share.flow), share.flow.run_seconds) for share in shares
        ]
        numbers = {end: number for number, end in enumerate(dict.fromkeys(ends))}
        async with self._pool.acquire() as connection:
            await self._take(connection, shares, [numbers[end] for end in ends], result)
        return result

    async def claim_apart(self, shares: Sequence[FlowShare]) -> ClaimResult:
        """Claim from limited flows, within their allowances, and serial items of all flows."""
        result = ClaimResult()
        async with self._pool.acquire() as connection, connection.transaction():
            admission = await _within_limits(connection, shares, result)
            # First, because it also reads items that it does not claim, and sees new partitions.
            serial = [share for share in admission.shares if share.serial]
            if serial:
                await self._take_serial(connection, serial, result)
            plain = sorted((share for share in admission.shares if not share.serial), key=_FLOW_NO)
            if plain:
                await self._take(connection, plain, range(len(plain)), result, limited=True)
            taken = await _spend(connection, admission, result)
            self._limited = limited_flows(self._limited, admission, taken)
        return result

    async def claim_suspects(self, flow: DueFlow, quota: int) -> ClaimResult:
        """Claim suspects of one flow, at most as many as may run together."""
        result = ClaimResult()
        share = FlowShare(flow, quota, FLOOR_MIN)
        async with self._pool.acquire() as connection, connection.transaction():
            admission = await _within_limits(connection, [share], result)
            if admission.shares:
                shares = admission.shares
                await self._take(connection, shares, [0], result, limited=True, suspects=True)
                await _spend(connection, admission, result)
        return result

    async def start_suspects(self, suspect_claims: Sequence[SuspectClaim]) -> list[ClaimedRun]:
        """Start suspect claims. Those whose deadline has passed have no run in the result."""
        async with self._pool.acquire() as connection:
            return await self._start(connection, suspect_claims)

    async def _take(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        group_nos: Sequence[int],
        result: ClaimResult,
        *,
        limited: bool = False,
        suspects: bool = False,
    ) -> None:
        pools = [self._handler_pools.pool_of(share.flow) for share in shares]
        taken = await claim_and_start_items(
            connection,
            [share.flow.flow_no for share in shares],
            [share.quota for share in shares],
            group_nos=group_nos,
            apart=[handler_pool.run_items_max == 1 for handler_pool in pools],
            floors=[share.floor for share in shares],
            run_seconds=[share.flow.run_seconds for share in shares],
            worker_no=self._worker_no,
            lease_seconds=self._lease_seconds,
            limited=limited,
            suspects=suspects,
            isolation=self._handler_pools.for_suspects(pools[0]).isolation if suspects else None,
            lag_flow_nos=[] if suspects else lag_flow_nos(shares, self._limited),
        )
        flows = {share.flow.flow_no: share.flow for share in shares}
        flow_of_group = {
            group_no: share.flow for group_no, share in zip(group_nos, shares, strict=True)
        }
        counts: Counter[int] = Counter()
        for run in taken.runs:
            start = StartResult(
                run.fence,
                1,
                len(run.ids),
                RunId(run.run_no, run.started_at, run.started_at),
                len(run.ids),
                closed=True,
                withdrawn=tuple(run.withdrawn),
                lease_seconds=run.lease_seconds,
            )
            flow = flow_of_group[run.group_no]
            flow_no = flow.flow_no if limited else None
            pool_key = self._handler_pools.key_of(flow)
            items = _items(run, flows)
            result.runs.append(
                ClaimedRun(pool_key, run.claim_id, start, items, run.batch_max, flow_no)
            )
            counts.update(run.flow_nos)
        scans = {scan.flow_no: scan for scan in taken.scans}
        for share in shares:
            scan = scans.get(share.flow.flow_no)
            if scan is not None:
                result.results[share.key] = served_share(share, scan, counts[scan.flow_no])
                if scan.has_suspects:
                    result.suspect_flow_nos.add(scan.flow_no)

    async def _take_serial(
        self, connection: Connection, shares: Sequence[FlowShare], result: ClaimResult
    ) -> None:
        """Claim items whose keys are free, one claim a flow; suspects are not started yet."""
        claimed = await claim_serial_items(
            connection,
            [share.flow.flow_no for share in shares],
            [share.quota for share in shares],
            self._worker_no,
            floors=[share.floor for share in shares],
            measured=[share.flow.is_limited for share in shares],
        )
        rows = claimed.items()
        flows = {share.flow.flow_no: share.flow for share in shares}
        claims_rows = self._group_into_claims(rows, flows)
        claim_ids = [
            new_claim_id(fence, claimed.claimed_at)
            for fence in sorted(await next_fences(connection, len(claims_rows)))
        ]
        await record_claims(
            connection,
            [
                direct_claim(claim_id, claim_rows, flows[claim_rows[0].flow_no], self._worker_no)
                for claim_id, claim_rows in zip(claim_ids, claims_rows, strict=True)
            ],
        )
        ordinary: list[SuspectClaim] = []
        for claim_id, claim_rows in zip(claim_ids, claims_rows, strict=True):
            flow = flows[claim_rows[0].flow_no]
            items = _items(run_of_rows(claim_id, claim_rows), flows)
            suspects_max = claim_rows[0].batch_max
            same_kind = ordinary if suspects_max is None else result.suspect_claims
            same_kind.append(SuspectClaim(flow, claim_id, items, suspects_max))
        result.runs += await self._start(connection, ordinary)
        counts = Counter(row.flow_no for row in rows)
        for share in shares:
            taken = counts[share.flow.flow_no]
            result.results[share.key] = ShareResult(taken, has_more=taken >= share.quota)

    async def _start(
        self, connection: Connection, claims: Sequence[SuspectClaim]
    ) -> list[ClaimedRun]:
        if not claims:
            return []
        pools = [self._pool_for(claim) for claim in claims]
        starts = await start_runs(
            connection,
            [claim.claim_id for claim in claims],
            [1] * len(claims),
            [len(claim.items) for claim in claims],
            worker_no=self._worker_no,
            lease_seconds=self._lease_seconds,
            run_items_max=[pool.run_items_max for pool in pools],
            isolations=[pool.isolation for pool in pools],
        )
        claim_of_fence = {claim.claim_id.fence: claim for claim in claims}
        return [
            ClaimedRun(
                self._handler_pools.key_of(claim_of_fence[start.fence].flow),
                claim_of_fence[start.fence].claim_id,
                start,
                claim_of_fence[start.fence].items[start.from_position - 1 : start.to_position],
                claim_of_fence[start.fence].suspects_max,
                claim_of_fence[start.fence].flow.flow_no,
            )
            for start in starts
            if start.run is not None
        ]

    def _pool_for(self, claim: SuspectClaim) -> RunPool:
        handler_pool = self._handler_pools.pool_of(claim.flow)
        if claim.suspects_max is None:
            return handler_pool
        return self._handler_pools.for_suspects(handler_pool)

    def _group_into_claims(
        self, rows: Iterable[ClaimedRow], flows: Mapping[int, DueFlow]
    ) -> list[list[ClaimedRow]]:
        """Group rows by claim; suspects by their `batch_max`, and by the size of the pool."""
        groups: dict[tuple[int, int | None], list[ClaimedRow]] = {}
        for row in rows:
            groups.setdefault((row.flow_no, row.batch_max), []).append(row)
        claims_rows: list[list[ClaimedRow]] = []
        for (flow_no, batch_max), group in groups.items():
            size = len(group)
            if batch_max is not None:
                handler_pool = self._handler_pools.pool_of(flows[flow_no])
                options = self._handler_pools.for_suspects(handler_pool).handler.options
                size = min(batch_max, options.concurrency * options.batch_max)
            claims_rows += [group[at : at + size] for at in range(0, len(group), size)]
        return claims_rows


async def _within_limits(
    connection: Connection, shares: Sequence[FlowShare], result: ClaimResult
) -> Admission:
    admission = await admit_shares(connection, shares, ANY_WINDOW, estimate_first=True)
    result.results.update(admission.refused)
    return admission


async def _spend(connection: Connection, admission: Admission, result: ClaimResult) -> Counter[int]:
    """Take what was claimed out of the token buckets; return how many items of each flow."""
    taken: Counter[int] = Counter()
    for share in admission.shares:
        if share.key in result.results:
            taken[share.flow.flow_no] += result.results[share.key].taken
    await spend_allowances(connection, admission, taken)
    return taken


def _items(run: DirectRun, flows: Mapping[int, DueFlow]) -> list[DirectItem]:
    return [DirectItem(run, position, flows) for position in range(1, len(run.ids) + 1)]
