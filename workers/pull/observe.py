"""Metrics and spans of items that pull workers were given."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from dueledger.ledger.metrics import METRICS, Metric
from dueledger.ledger.runtime.tracing import TracedItem, is_tracing, record_spans
from dueledger.workers.pull.claims import PulledRun


def observe_starts(runs: Sequence[PulledRun], now: datetime | None, began_at: float) -> None:
    """Count start lags at the ledger's time `now`; record a span of each item that has a trace.

    `began_at` is when the claim began, monotonic.
    """
    for run in runs:
        columns = run.columns
        for position in run.positions if now is not None else ():
            lag = max(0.0, (now - columns.due_ats[position - 1]).total_seconds())
            METRICS.observe(Metric.START_LAG_SECONDS, lag, 1, _kind(run, position))
    if is_tracing():
        record_spans("claim", began_at, _traced(runs))


def _kind(run: PulledRun, position: int) -> str:
    return run.flows[run.columns.flow_nos[position - 1]].kind


def _traced(runs: Sequence[PulledRun]) -> Iterator[TracedItem]:
    for run in runs:
        traceparents = run.columns.traceparents
        for position in run.positions if traceparents is not None else ():
            attributes = {
                "dueledger.attempt": run.columns.attempts[position - 1],
                "dueledger.fence": run.claim_id.fence,
            }
            yield TracedItem(_kind(run, position), traceparents[position - 1], attributes)
