"""The handler pools of a worker, by kind, or by kind and topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from dueledger.ledger.store.runs import RunIsolation
from dueledger.workers.handlers import UNKNOWN_KIND_HANDLER, in_one_slot
from dueledger.workers.run.handler_pool import HandlerPool
from dueledger.workers.run.isolated_pool import IsolatedPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.ledger.store import Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.run.isolated_pool import IsolatedCalls
    from dueledger.workers.run.listener import PoolListener, RunPool


class PoolKey(NamedTuple):
    """The key of a pool: a kind, of one topic or of all topics without a pool of their own."""

    kind: str
    topic: str | None = None


class HasKindAndTopic(Protocol):
    """A flow or a run. Tenants may have topics of their own for a kind."""

    @property
    def kind(self) -> str:
        """The kind of its items."""
        ...

    @property
    def topic(self) -> str:
        """The topic of its items."""
        ...


@final
class HandlerPools:
    """One pool for each handler, so that a slow endpoint takes no slot of another one.

    `unknown_kind`, which is not listed, parks the items of kinds that have no handler.
    """

    def __init__(
        self,
        handlers: Handlers,
        listener: PoolListener,
        *,
        worker_no: int,
        pool: Pool | None = None,
        isolated: IsolatedCalls | None = None,
    ) -> None:
        """`isolated` runs suspects; without it each handler has one slot for them."""
        self._by_key = {
            PoolKey(handler.kind, handler.topic): HandlerPool(
                handler, listener, worker_no=worker_no, pool=pool
            )
            for handler in handlers
        }
        self.unknown_kind = HandlerPool(UNKNOWN_KIND_HANDLER, listener, worker_no=worker_no)
        self._of_suspects: dict[HandlerPool, RunPool] = {}
        if not handlers.may_end_process:
            return
        for handler_pool in self._by_key.values():
            self._of_suspects[handler_pool] = (
                HandlerPool(
                    in_one_slot(handler_pool.handler),
                    listener,
                    worker_no=worker_no,
                    pool=pool,
                    isolation=RunIsolation.SLOT,
                )
                if isolated is None
                else IsolatedPool(handler_pool, isolated)
            )

    def __iter__(self) -> Iterator[HandlerPool]:
        return iter(self._by_key.values())

    def __getitem__(self, key: PoolKey) -> HandlerPool:
        return self._by_key[key]

    def pool_keys(self) -> list[PoolKey]:
        """Return the keys of all pools."""
        return list(self._by_key)

    def key_of(self, flow_or_run: HasKindAndTopic) -> PoolKey:
        """Return the key of the pool for a flow or run; the pool need not exist."""
        own = PoolKey(flow_or_run.kind, flow_or_run.topic)
        return own if own in self._by_key else PoolKey(flow_or_run.kind)

    def pool_of(self, flow_or_run: HasKindAndTopic) -> HandlerPool:
        """Return the pool for a flow or run. Raises KeyError if there is none."""
        return self._by_key[self.key_of(flow_or_run)]

    def in_this_process(self) -> list[HandlerPool]:
        """Return the pools that can be stuck: all, and those with a slot for suspects."""
        slots = [pool for pool in self._of_suspects.values() if isinstance(pool, HandlerPool)]
        return [*self, *slots]

    def for_suspects(self, handler_pool: HandlerPool) -> RunPool:
        """Return the pool for the suspects of a handler; the same one if it can end no process."""
        return self._of_suspects.get(handler_pool, handler_pool)

    def find(self, kind: str, topic: str) -> HandlerPool:
        """Return the pool for a kind's items of a topic; `unknown_kind` if there is none."""
        return (
            self._by_key.get(PoolKey(kind, topic))
            or self._by_key.get(PoolKey(kind))
            or self.unknown_kind
        )
