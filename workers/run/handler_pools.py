"""Which crew works what: a kind's, or that of a topic of it which has places of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from dueledger.workers.run.handler_pool import HandlerPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.ledger.store import Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.run.listener import PoolListener


class PoolKey(NamedTuple):
    """What a crew works: a kind, of one topic or of all that have no crew of their own."""

    kind: str
    topic: str | None = None


class HasKindAndTopic(Protocol):
    """What is handed out: a flow, or a run. A kind's topics are its tenants'."""

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def topic(self) -> str:
        """What it comes by."""
        ...


@final
class HandlerPools:
    """A crew a handler. So what one endpoint keeps waiting takes no place of another's."""

    def __init__(
        self,
        handlers: Handlers,
        listener: PoolListener,
        *,
        worker_no: int,
        pool: Pool | None = None,
    ) -> None:
        self._by_key = {
            PoolKey(handler.kind, handler.topic): HandlerPool(
                handler, listener, worker_no=worker_no, pool=pool
            )
            for handler in handlers
        }

    def __iter__(self) -> Iterator[HandlerPool]:
        return iter(self._by_key.values())

    def __getitem__(self, key: PoolKey) -> HandlerPool:
        return self._by_key[key]

    def pool_keys(self) -> list[PoolKey]:
        """Return what its crews work."""
        return list(self._by_key)

    def key_of(self, flow_or_run: HasKindAndTopic) -> PoolKey:
        """Return which crew's something is, whether there is such a crew or not."""
        own = PoolKey(flow_or_run.kind, flow_or_run.topic)
        return own if own in self._by_key else PoolKey(flow_or_run.kind)

    def pool_of(self, flow_or_run: HasKindAndTopic) -> HandlerPool:
        """Return who works something. Raises KeyError where nobody does."""
        return self._by_key[self.key_of(flow_or_run)]

    def find(self, kind: str, topic: str) -> HandlerPool | None:
        """Return who works a kind out of a topic, or None where nobody does."""
        return self._by_key.get(PoolKey(kind, topic)) or self._by_key.get(PoolKey(kind))
