"""The protocol of a worker's source: Kafka, or the ledger itself in direct mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dueledger.ledger.metrics import Sample
    from dueledger.ledger.runtime.service import Tick
    from dueledger.workers.open_run import OpenRun


class Service(NamedTuple):
    """A loop of the worker, and its pause after a tick without counts."""

    name: str
    tick: Tick
    idle_seconds: float | Callable[[], Awaitable[float]] = 0.0
    is_cancelled_by_drain: bool = False


class WorkSource(Protocol):
    """Opens runs for a worker, which calls it back about them.

    A source must have the first three methods; the others do nothing where it has none.
    """

    def input_services(self) -> Sequence[Service]:
        """Return the services that open runs. A drain stops them first."""
        ...

    def background_services(self) -> Sequence[Service]:
        """Return the services that run from before `open` until everything is settled."""
        ...

    async def is_idle(self) -> bool:
        """Return whether nothing is due. It is called while no run is open."""
        ...

    async def open(self) -> None:
        """Connect. Raises Unavailable."""

    def samples(self) -> Iterable[Sample]:
        """Return its metrics, in any thread."""
        return ()

    def on_call_ended(self) -> None:
        """Start more items: a handler pool has capacity."""

    def on_items_ended(self, run: OpenRun) -> None:
        """Count items that ended, whatever their outcome."""

    def on_items_settled(self) -> None:
        """Take note that outcomes were recorded in the ledger."""

    def on_run_finished(self, run: OpenRun) -> None:
        """Forget a run that is settled or was abandoned."""

    async def stop_taking(self) -> None:
        """Open no more runs: the worker drains. It may be called again."""

    async def release_unstarted(self) -> None:
        """Release claims that were not started. The input services have ended."""

    async def commit(self) -> None:
        """Commit what is settled, at the end of the drain."""

    async def close(self) -> None:
        """Disconnect."""
