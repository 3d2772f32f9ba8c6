"""Metrics and spans of reported outcomes, once they are recorded."""

from collections import Counter

from dueledger.ledger.metrics import METRICS, Metric
from dueledger.ledger.runtime.tracing import TracedItem, record_spans
from dueledger.ledger.states import TransitionEvent
from dueledger.workers.outcomes.decide import OutcomeDecisions


def observe_ends(decisions: OutcomeDecisions, began_at: float) -> None:
    """Count outcomes and completion lags; record a span of each item that has a trace.

    `began_at` is when recording began, monotonic.
    """
    for (kind, event), count in Counter(
        (end.item.kind, end.event) for end in decisions.ends
    ).items():
        METRICS.add(Metric.OUTCOMES, count, METRICS.kind_label(kind), event.label)
    for item, event in decisions.ends:
        if event is TransitionEvent.COMPLETED:
            lag = max(0.0, (decisions.now - item.due_at).total_seconds())
            METRICS.observe(Metric.COMPLETION_LAG_SECONDS, lag, 1, item.kind)
    record_spans(
        "settle",
        began_at,
        (
            TracedItem(item.kind, item.traceparent, {"dueledger.outcome": event.label})
            for item, event in decisions.ends
        ),
    )
