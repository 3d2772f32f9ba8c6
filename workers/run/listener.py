"""The protocols by which a worker is called back about its runs and handler calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dueledger.ledger.states import TransitionEvent
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.handler_pool import HandlerPool


class RunListener(Protocol):
    """Takes over a run that was started."""

    def on_run_opened(self, run: OpenRun, handler_pool: HandlerPool) -> None:
        """Keep the run's lease and work it; capacity is reserved for all its items."""
        ...


class PoolListener(Protocol):
    """Is called by a handler pool when items or calls end."""

    def on_items_ended(self, run: OpenRun) -> None:
        """Settle the items of the run that have ended."""
        ...

    def on_item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        """Count an item that was settled in its own transaction."""
        ...

    def on_call_ended(self) -> None:
        """Start more calls: the pool has capacity."""
        ...
