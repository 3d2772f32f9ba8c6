"""The due item of direct mode: a DueItem that reads the columns of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from dueledger.ledger.kafka.envelope import CONTENT_TYPE_JSON, WorkHeaders
from dueledger.workers.item import DueItem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dueledger.ledger.store.claims import DueFlow
    from dueledger.ledger.store.direct_claims import DirectRun


@final
class DirectItem(DueItem):
    """One item of a direct run. Its values are read from the run's columns on first use."""

    __slots__ = ("_flows", "_run")

    def __init__(self, run: DirectRun, position: int, flows: Mapping[int, DueFlow]) -> None:
        self._run = run
        self._flows = flows
        self._headers_cache = None
        self.fence = run.fence
        self.position = position

    @property
    def retries(self) -> int:
        """The number of earlier attempts."""
        return self._run.attempts[self.position - 1] - 1

    @property
    def payload(self) -> bytes:
        """The payload that was emitted with the item, byte for byte."""
        return self._run.payloads[self.position - 1]

    def _headers(self) -> WorkHeaders:
        if self._headers_cache is None:
            run, index = self._run, self.position - 1
            flow = self._flows[run.flow_nos[index]]
            self._headers_cache = WorkHeaders(
                claim_id=run.claim_id,
                position=self.position,
                kind=flow.kind,
                tenant=flow.tenant,
                business_key=run.business_keys[index],
                cycle=run.cycles[index],
                effective_date=run.effective_dates[index],
                due_at=run.due_ats[index],
                item=run.ids[index],
                attempt=run.attempts[index],
                content_type=CONTENT_TYPE_JSON.decode(),
                traceparent=run.traceparents[index] if run.traceparents else None,
            )
        return self._headers_cache
