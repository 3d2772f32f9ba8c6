"""Claims due items of the chosen flows, and records the claims in the same transaction."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final, final

from dueledger.allocator.admission_group import AdmissionGroup
from dueledger.allocator.claim.claim_batches import ClaimBatch, ClaimBatchBuilder
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.flows.admission import (
    admit_shares,
    lag_flow_nos,
    limited_flows,
    spend_allowances,
)
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.queued_flow import SERIAL_ITEMS_MAX
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ScannedFlows
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claimed_rows import ClaimedRows, columns_getter
from dueledger.ledger.store.claims import (
    claim_items,
    claim_serial_items,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.few_claims import claim_few_items

FEW_ITEMS_MAX: Final = 16
"""So many plain items are claimed by one statement instead of four."""
_FEW_KEY_BYTES_MAX: Final = 8_192
"""That statement hashes the keys: of so many bytes in half a millisecond, what it saves."""
_FEW_FLOWS_MAX: Final = 16
_SECRET_BYTES: Final = 16
_RECORD_BYTES: Final = 8_192
"""The most that a record has beside its payload."""
_FLOW_NO: Final = columns_getter("flow_no")


@final
class ItemClaimer:
    """Makes the claims of one load, light or heavy, for one allocator."""

    def __init__(
        self,
        load: FlowLoad,
        batch_builder: ClaimBatchBuilder,
        flow_queue: FlowQueue[AdmissionGroup],
        deliveries: DeliveryBuffer,
        *,
        allocator_no: int,
        topic_window_items: int,
        batch_bytes_max: int,
    ) -> None:
        """Claims of which it is certain that they are not sent are added to `deliveries`."""
        self._load = load
        self._batch_builder = batch_builder
        self._flow_queue = flow_queue
        self._deliveries = deliveries
        self._allocator_no = allocator_no
        self._topic_window_items = topic_window_items
        self._few_bytes_max = batch_bytes_max - FEW_ITEMS_MAX * _RECORD_BYTES
        self._expects_few = load is FlowLoad.LIGHT
        self._limited: frozenset[int] = frozenset()
        self._log = get_logger("allocator")

    async def claim(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        partitions: Mapping[str, int],
        taken: Counter[int],
        scanned: ScannedFlows,
    ) -> list[ClaimBatch]:
        """Claim; after UnseenPartition, claim each flow once more by itself. Count items by flow.

        `scanned` is given what the claim says of its flows beside the items.

        A flow that is refused again is deferred, so that it does not block the others. A pending
        row without an item causes that; only a manual change in the database leaves one.
        """
        try:
            return await self._claim_once(connection, shares, partitions, taken, scanned)
        except UnseenPartition:
            batches: list[ClaimBatch] = []
            for share in shares:
                try:
                    batches += await self._claim_once(
                        connection, [share], partitions, taken, scanned
                    )
                except UnseenPartition as error:
                    self._log.warning(
                        LogEvent.CLAIM_REFUSED, flow_no=share.flow.flow_no, message=error.message
                    )
                    self._flow_queue.defer_limited([share.flow.flow_no], now=monotonic())
                except BaseException:  # the claims before it are recorded and certainly not sent
                    self._deliveries.add_unsent([batch.claim.id for batch in batches])
                    raise
            return batches

    async def _claim_once(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        partitions: Mapping[str, int],
        taken: Counter[int],
        scanned: ScannedFlows,
    ) -> list[ClaimBatch]:
        """Claim rows and record their claims; count the claimed items by flow."""
        if self._expects_few and _are_plain(shares):
            few = await self._claim_few(connection, shares, partitions, taken, scanned)
            if few is not None:
                return few
            self._expects_few = False
        batches: list[ClaimBatch] = []
        try:
            async with connection.transaction():
                admission = await admit_shares(connection, shares, self._topic_window_items)
                asked_at = monotonic()
                rows = await self._take(connection, admission.shares)
                for flow_no, seconds in rows.due_seconds.items():
                    scanned.due_ats[flow_no] = asked_at + seconds
                scanned.last_rows.update(rows.last_rows)
                taken.update(map(_FLOW_NO, rows))
                if rows:
                    crash_point("allocator.claimed")
                    await spend_allowances(connection, admission, taken)
                    flows = {share.flow.flow_no: share.flow for share in admission.shares}
                    batches = await self._batch_builder.build(
                        rows, flows, partitions, lambda count: next_fences(connection, count)
                    )
                    await record_claims(connection, [batch.claim for batch in batches])
        except BaseException:
            # If the connection was lost, the commit may have happened; nothing was published.
            self._deliveries.add_unsent([batch.claim.id for batch in batches])
            raise
        self._limited = limited_flows(self._limited, admission, taken)
        self._flow_queue.defer_limited(admission.exhausted_flows(taken), now=monotonic())
        self._expects_few = self._load is FlowLoad.LIGHT and 2 * len(rows) <= FEW_ITEMS_MAX
        return batches

    async def _claim_few(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        partitions: Mapping[str, int],
        taken: Counter[int],
        scanned: ScannedFlows,
    ) -> list[ClaimBatch] | None:
        """Claim and record in one statement. None if it cannot claim them."""
        asked_at = monotonic()
        flows = [share.flow for share in shares]
        secret = secrets.token_hex(_SECRET_BYTES)
        try:
            rows = await claim_few_items(
                connection,
                flows,
                [min(share.quota, FEW_ITEMS_MAX + 1) for share in shares],
                [share.floor for share in shares],
                partitions,
                allocator_no=self._allocator_no,
                items_max=FEW_ITEMS_MAX,
                bytes_max=self._few_bytes_max,
                key_bytes_max=_FEW_KEY_BYTES_MAX,
                secret=secret,
                lag_flow_nos=lag_flow_nos(shares, self._limited),
            )
            if rows is None:
                return None
            batches = self._batch_builder.write(rows, {flow.flow_no: flow for flow in flows})
        except BaseException:
            # If the connection was lost, the commit may have happened; nothing was published.
            self._deliveries.add_unanswered(secret)
            raise
        for flow_no, seconds in rows.due_seconds.items():
            scanned.due_ats[flow_no] = asked_at + seconds
        taken.update(map(_FLOW_NO, rows))
        return batches

    async def _take(self, connection: Connection, shares: Sequence[FlowShare]) -> ClaimedRows:
        """Claim rows: serial ones first, since few of them may be free, then plain ones."""
        rows = ClaimedRows()
        left = {share.flow.flow_no: share.quota for share in shares}
        serial = [share for share in shares if share.flow.has_serial]
        if serial:
            rows = await claim_serial_items(
                connection,
                [share.flow.flow_no for share in serial],
                _serial_quotas(serial),
                self._allocator_no,
                floors=[share.floor for share in serial],
                measured=[share.flow.is_limited for share in serial],
                with_fences=not any(share.flow.has_plain for share in shares),
            )
            for flow_no, items in Counter(map(_FLOW_NO, rows)).items():
                left[flow_no] -= items
        plain = [share for share in shares if share.flow.has_plain and left[share.flow.flow_no] > 0]
        if plain:
            rows.add(
                await claim_items(
                    connection,
                    [share.flow.flow_no for share in plain],
                    [left[share.flow.flow_no] for share in plain],
                    [share.floor for share in plain],
                    [share.flow.is_limited for share in plain],
                    mosts=[left[share.flow.flow_no] + share.spare for share in plain],
                    with_fences=self._load is FlowLoad.LIGHT,
                    lag_flow_nos=lag_flow_nos(plain, self._limited),
                )
            )
        return rows


def _serial_quotas(shares: Sequence[FlowShare]) -> list[int]:
    """Bound the rows that one statement reads; a flow with plain rows gets half its quota."""
    most = max(1, SERIAL_ITEMS_MAX // len(shares))
    return [
        min(most, -(-share.quota // 2) if share.flow.has_plain else share.quota) for share in shares
    ]


def _are_plain(shares: Sequence[FlowShare]) -> bool:
    """Return whether one statement may claim them: few flows, without order or limits."""
    return len(shares) <= _FEW_FLOWS_MAX and not any(
        share.flow.has_serial or share.flow.is_limited or share.flow.settled_by_topic
        for share in shares
    )
