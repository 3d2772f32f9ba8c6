"""Claims for pull workers: claimed, recorded with a token, and started in one transaction."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, final

from dueledger.ledger.claim_id import ClaimId, new_claim_id
from dueledger.ledger.definitions.model import PAYLOAD_BYTES_MAX
from dueledger.ledger.flows.admission import ANY_WINDOW, admit_shares, spend_allowances
from dueledger.ledger.flows.shares import FlowShare, ShareResult, served_share
from dueledger.ledger.store.claimed_rows import ClaimedRow
from dueledger.ledger.store.claims import (
    DueFlow,
    claim_serial_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.direct_claims import (
    DirectRun,
    claim_and_start_items,
    direct_claim,
    run_of_rows,
)
from dueledger.ledger.store.runs import RunId, Settlement, settle_runs, start_runs
from dueledger.workers.verdict_outcomes import released

FLOWS_LISTED_MAX: Final = 20_000
RESPONSE_LOST: Final = released("the client was gone before it had the response")

_FLOW_NO: Final = attrgetter("flow.flow_no")
_END: Final = attrgetter("flow.run_seconds")


class PulledRun(NamedTuple):
    """A run that the ledger started for a pull worker: its items as columns, and their flows.

    `positions` are those that were not withdrawn at the start.
    """

    id: RunId
    claim_id: ClaimId
    lease_seconds: float
    columns: DirectRun
    positions: Sequence[int]
    flows: Mapping[int, DueFlow]

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield what a pull worker is given of each item; payloads are bytes of JSON."""
        columns = self.columns
        for position in self.positions:
            index = position - 1
            flow = self.flows[columns.flow_nos[index]]
            yield {
                "item": columns.ids[index],
                "fence": self.claim_id.fence,
                "token": self.claim_id.token_text,
                "position": position,
                "lease_seconds": self.lease_seconds,
                "tenant": flow.tenant,
                "kind": flow.kind,
                "lane": flow.lane,
                "business_key": columns.business_keys[index],
                "cycle": columns.cycles[index],
                "effective_date": columns.effective_dates[index],
                "due_at": columns.due_ats[index],
                "attempt": columns.attempts[index],
                "traceparent": columns.traceparents[index] if columns.traceparents else None,
                "payload": columns.payloads[index],
            }


@final
@dataclass(slots=True)
class PullResult:
    """The runs that were started, and the result of each share by its key."""

    runs: list[PulledRun] = field(default_factory=list[PulledRun])
    results: dict[int, ShareResult] = field(default_factory=dict[int, ShareResult])


async def list_pull_flows(
    connection: Connection, kinds: Sequence[str], horizon_seconds: float
) -> list[DueFlow]:
    """List the flows of these kinds, of any tenant, with rows available within the horizon."""
    return await list_due_flows(
        connection, FLOWS_LISTED_MAX, kinds, horizon_seconds=horizon_seconds
    )


async def claim_shares(
    connection: Connection,
    shares: Sequence[FlowShare],
    *,
    key_no: int,
    lease_seconds: float | None,
    tenants: Sequence[str] | None,
    bytes_max: int,
) -> PullResult:
    """Claim shares for the actor of a key, in the caller's transaction, and start them.

    Without `lease_seconds`, the shortest lease of their kinds. Flows of others than `tenants` are
    left out. Payloads have `bytes_max` bytes at most; items beyond stay as they are. Raises
    UnseenPartition: then the transaction must be rolled back, and a new one finds the partition.
    """
    lease = lease_seconds or min(share.flow.lease_seconds for share in shares)
    claims = _Claims(
        connection, key_no=key_no, lease_seconds=lease, tenants=tenants, bytes_max=bytes_max
    )
    apart = [share for share in shares if share.needs_own_claim]
    if apart:
        await claims.take_apart(apart)
    shared = [share for share in shares if not share.needs_own_claim]
    if shared:
        await claims.take(shared)
    return claims.result


async def release_runs(connection: Connection, runs: Sequence[PulledRun], key_no: int) -> None:
    """Release the items of runs that nobody received; one that ended since stays as it is."""
    settlements = [
        Settlement(
            run.id,
            [
                RESPONSE_LOST if position in run.positions else None
                for position in range(1, len(run.columns.ids) + 1)
            ],
        )
        for run in runs
        if run.positions
    ]
    await settle_runs(connection, settlements, key_no)


@final
class _Claims:
    """The claims of one transaction."""

    def __init__(
        self,
        connection: Connection,
        *,
        key_no: int,
        lease_seconds: float,
        tenants: Sequence[str] | None,
        bytes_max: int,
    ) -> None:
        self.result = PullResult()
        self._bytes_left = bytes_max
        self._connection = connection
        self._key_no = key_no
        self._lease_seconds = lease_seconds
        self._tenants = tenants

    async def take_apart(self, shares: Sequence[FlowShare]) -> None:
        """Claim from limited flows, within their allowances, and serial items."""
        admission = await admit_shares(self._connection, shares, ANY_WINDOW, estimate_first=True)
        self.result.results.update(admission.refused)
        # First, because it also reads items that it does not claim, and sees new partitions.
        serial = [share for share in admission.shares if share.serial]
        if serial:
            await self._take_serial(serial)
        plain = [share for share in admission.shares if not share.serial]
        if plain:
            await self.take(plain, limited=True)
        taken: Counter[int] = Counter()
        for share in admission.shares:
            if share.key in self.result.results:
                taken[share.flow.flow_no] += self.result.results[share.key].taken
        await spend_allowances(self._connection, admission, taken)

    async def take(self, shares: Sequence[FlowShare], *, limited: bool = False) -> None:
        """Claim plain items: a claim and run for each hard end, or each limited flow.

        A flow's suspects are claimed by themselves, fewer each time, if nothing else is due first.
        """
        shares = sorted(shares, key=_FLOW_NO)
        numbers = {end: number for number, end in enumerate(dict.fromkeys(map(_END, shares)))}
        groups = range(len(shares)) if limited else [numbers[_END(share)] for share in shares]
        flows = {share.flow.flow_no: share.flow for share in shares}
        taken, with_suspects, cut = await self._claim(shares, groups, flows, limited=limited)
        for share in with_suspects:
            left = share.quota - taken[share.flow.flow_no]
            if left > 0:
                suspects = [share._replace(quota=left)]
                more, _, _ = await self._claim(suspects, [0], flows, limited=limited, suspects=True)
                taken.update(more)
        for share in shares:
            found = self.result.results.get(share.key)
            if found is not None:
                count = taken[share.flow.flow_no]
                has_more = found.has_more or (share in with_suspects and count > 0)
                found = found._replace(taken=count, has_more=has_more)
                if share in cut:  # what was left is where it was: nothing moves the floor past it
                    found = found._replace(has_more=True, floor=None)
                self.result.results[share.key] = found

    async def _claim(
        self,
        shares: Sequence[FlowShare],
        groups: Sequence[int],
        flows: Mapping[int, DueFlow],
        *,
        limited: bool,
        suspects: bool = False,
    ) -> tuple[Counter[int], list[FlowShare], list[FlowShare]]:
        """Return how many items each flow had, the shares with suspects, and those cut short."""
        claimed = await claim_and_start_items(
            self._connection,
            [share.flow.flow_no for share in shares],
            [share.quota for share in shares],
            group_nos=groups,
            apart=[False] * len(shares),
            floors=[share.floor for share in shares],
            run_seconds=[share.flow.run_seconds for share in shares],
            worker_no=self._key_no,
            lease_seconds=self._lease_seconds,
            limited=limited,
            suspects=suspects,
            with_token=True,
            tenants=self._tenants,
            bytes_max=self._bytes_left,
        )
        taken: Counter[int] = Counter()
        for run in claimed.runs:
            taken.update(run.flow_nos)
            run_id = RunId(run.run_no, run.started_at, run.started_at)
            self._add(run_id, run, run.lease_seconds, run.withdrawn, flows)
        scans = {scan.flow_no: scan for scan in claimed.scans}
        if not suspects:
            for share in shares:
                if (scan := scans.get(share.flow.flow_no)) is not None:
                    self.result.results[share.key] = served_share(share, scan, 0)
        found = [share for share in shares if share.flow.flow_no in scans]
        with_suspects = [share for share in found if scans[share.flow.flow_no].has_suspects]
        cut = [
            share
            for share in found
            if share not in with_suspects
            and taken[share.flow.flow_no] < scans[share.flow.flow_no].seen
        ]
        return taken, with_suspects, cut

    async def _take_serial(self, shares: Sequence[FlowShare]) -> None:
        """Claim items whose keys are free, one claim a flow, and start each as one run.

        So many as have room whatever their payloads are: these are not known before.
        """
        fitting = max(1, self._bytes_left // PAYLOAD_BYTES_MAX)
        for share in shares[fitting:]:
            self.result.results[share.key] = ShareResult(0, has_more=True)
        shares = shares[:fitting]
        quotas = [min(share.quota, fitting // len(shares)) for share in shares]
        claimed = await claim_serial_items(
            self._connection,
            [share.flow.flow_no for share in shares],
            quotas,
            self._key_no,
            floors=[share.floor for share in shares],
            measured=[share.flow.is_limited for share in shares],
            tenants=self._tenants,
        )
        rows = claimed.items()
        flows = {share.flow.flow_no: share.flow for share in shares}
        batches = list(_batches(rows))
        fences = sorted(await next_fences(self._connection, len(batches)))
        claim_ids = [new_claim_id(fence, claimed.claimed_at) for fence in fences]
        if batches:
            await record_claims(
                self._connection,
                [
                    direct_claim(claim_id, batch, flows[batch[0].flow_no], self._key_no)
                    for claim_id, batch in zip(claim_ids, batches, strict=True)
                ],
            )
            await self._start(claim_ids, batches, flows)
        counts = Counter(row.flow_no for row in rows)
        for share, quota in zip(shares, quotas, strict=True):
            taken = counts[share.flow.flow_no]
            self.result.results[share.key] = ShareResult(taken, has_more=taken >= quota)

    async def _start(
        self,
        claim_ids: Sequence[ClaimId],
        batches: Sequence[Sequence[ClaimedRow]],
        flows: Mapping[int, DueFlow],
    ) -> None:
        starts = await start_runs(
            self._connection,
            claim_ids,
            [1] * len(batches),
            [len(batch) for batch in batches],
            worker_no=self._key_no,
            lease_seconds=self._lease_seconds,
        )
        for start, claim_id, batch in zip(starts, claim_ids, batches, strict=True):
            if start.run is not None and start.lease_seconds is not None:
                columns = run_of_rows(claim_id, batch)
                self._add(start.run, columns, start.lease_seconds, start.withdrawn, flows)

    def _add(
        self,
        run_id: RunId,
        columns: DirectRun,
        lease_seconds: float,
        withdrawn: Sequence[int],
        flows: Mapping[int, DueFlow],
    ) -> None:
        ended = frozenset(withdrawn)
        self._bytes_left -= sum(map(len, columns.payloads))
        positions = [each for each in range(1, len(columns.ids) + 1) if each not in ended]
        run = PulledRun(run_id, columns.claim_id, lease_seconds, columns, positions, flows)
        self.result.runs.append(run)


def _batches(rows: Sequence[ClaimedRow]) -> Iterator[list[ClaimedRow]]:
    """Yield the rows of each claim: of one flow, and of suspects as many as may run together."""

    def claim_of(row: ClaimedRow) -> tuple[int, int]:
        return row.flow_no, row.batch_max or 0

    for (_, batch_max), together in groupby(sorted(rows, key=claim_of), claim_of):
        batch = list(together)
        size = batch_max or len(batch)
        yield from (batch[at : at + size] for at in range(0, len(batch), size))
