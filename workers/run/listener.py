"""The protocols of a worker's pools, and by which it is called back about runs and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.store.runs import RunIsolation
    from dueledger.workers.handlers import Handler
    from dueledger.workers.open_run import OpenRun


class RunPool(Protocol):
    """Runs a handler for the items of open runs: a handler pool, or one for its suspects."""

    @property
    def handler(self) -> Handler:
        """The handler."""
        ...

    @property
    def isolation(self) -> RunIsolation | None:
        """Where its items run apart from others, if they do."""
        ...

    @property
    def free_items(self) -> int:
        """How many more items may be started."""
        ...

    @property
    def run_items_max(self) -> int:
        """How many items a run may have."""
        ...

    def reserve(self, count: int) -> None:
        """Reserve the capacity for `count` items of one slice."""
        ...

    def release(self, count: int) -> None:
        """Release the capacity of a slice that was not started."""
        ...

    def start_run(self, run: OpenRun) -> None:
        """Call the handler for a run. Capacity for all its items must be reserved."""
        ...


class RunListener(Protocol):
    """Takes over a run that was started."""

    def on_run_opened(self, run: OpenRun, handler_pool: RunPool) -> None:
        """Keep the run's lease and work it; capacity is reserved for all its items."""
        ...


class PoolListener(Protocol):
    """Is called by a handler pool when items or calls end."""

    def on_items_ended(self, run: OpenRun) -> None:
        """Settle the items of the run that have ended."""
        ...

    def on_items_completed(self, run: OpenRun, indexes: Sequence[int]) -> None:
        """Count items that completed in the transaction of their handler."""
        ...

    def on_call_ended(self) -> None:
        """Start more calls: the pool has capacity."""
        ...
