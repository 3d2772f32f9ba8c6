"""Counts outcomes and lags of items: a few steps for a run or a batch, whatever its size."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.metrics import METRICS, Metric
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome
from dueledger.workers.item import DueItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.presence import Presence
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.verdict_outcomes import ItemOutcome

_EVENT: Final = attrgetter("event")
_COMPLETED: Final = Outcome(TransitionEvent.COMPLETED, None, None)


@final
class ItemMetrics:
    """The metrics of a worker's items. Times are the ledger's, as the process last read it."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def count_start(self, run: OpenRun) -> None:
        """Count the start of a run's items."""
        self._observe(Metric.START_LAG_SECONDS, run, len(run.items))

    def count_outcomes(self, run: OpenRun, outcomes: Sequence[ItemOutcome | None]) -> None:
        """Count what was recorded, one entry an item; None is an item without an outcome."""
        completed = outcomes.count(_COMPLETED)
        if completed < len(outcomes):
            given = [each for each in outcomes if isinstance(each, Outcome)]
            counted = Counter(map(_EVENT, given))
            snoozed = len(outcomes) - outcomes.count(None) - len(given)
            for event, count in counted.items():
                self._count(run, event, count)
            if snoozed:
                self._count(run, TransitionEvent.SNOOZED, snoozed)
            completed = counted[TransitionEvent.COMPLETED]
        elif completed:
            self._count(run, TransitionEvent.COMPLETED, completed)
        if completed:
            self._observe(Metric.COMPLETION_LAG_SECONDS, run, completed)

    def count_completed(self, run: OpenRun, count: int) -> None:
        """Count items that completed in the transaction of their handler."""
        self._count(run, TransitionEvent.COMPLETED, count)
        self._observe(Metric.COMPLETION_LAG_SECONDS, run, count)

    def _count(self, run: OpenRun, event: TransitionEvent, count: int) -> None:
        METRICS.add(Metric.OUTCOMES, count, METRICS.kind_label(run.kind), event.label)

    def _observe(self, metric: Metric, run: OpenRun, count: int) -> None:
        """Count so many items with the lags of the run's first and last one."""
        now = self._presence.ledger_now()
        ends = {id(item): item for item in (run.items[0], run.items[-1])}
        for item in ends.values():
            if now is not None and isinstance(item, DueItem):
                with suppress(InvalidHeader):
                    lag = max(0.0, (now - item.due_at).total_seconds())
                    METRICS.observe(metric, lag, count / len(ends), run.kind)
