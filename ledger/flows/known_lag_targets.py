"""The lag targets of the flows that had items a moment ago. Pure."""

from collections.abc import Callable
from typing import Final, final

from dueledger.ledger.rules.flood_pace import LagTargets
from dueledger.ledger.store.claims import DueFlow

KNOWN_SECONDS: Final = 10.0
"""So long after a flow was listed floods are slowed for its next item."""


@final
class KnownLagTargets:
    """The lag targets of listed flows, and when each was listed. Times are monotonic."""

    def __init__(self) -> None:
        self._targets: dict[int, tuple[float, float]] = {}

    def update(self, flow: DueFlow, listed_at: float) -> None:
        """Remember the target of a listed flow, or forget it if the flow has none."""
        if flow.lag_target_seconds is not None:
            self._targets[flow.flow_no] = flow.lag_target_seconds, listed_at
        elif self._targets:
            self._targets.pop(flow.flow_no, None)

    def of_light_flows(self, now: float, is_heavy: Callable[[int], bool]) -> LagTargets | None:
        """Return the targets of flows listed within the last ten seconds that are no floods."""
        targets = [
            seconds
            for flow_no, (seconds, listed_at) in self._targets.items()
            if listed_at > now - KNOWN_SECONDS and not is_heavy(flow_no)
        ]
        return LagTargets(min(targets), max(targets)) if targets else None
