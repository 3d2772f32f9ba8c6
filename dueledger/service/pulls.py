"""Polls of pull workers, and what they ask for."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import DueFlow
from dueledger.workers.pull.claims import PulledRun

TENANTS_MAX: Final = 100
IDLE_SECONDS: Final = 1.0
"""Longest time between two lists of due flows; items that are emitted meanwhile wake the loop."""


class Subscription(NamedTuple):
    """What polls ask for. Without `tenants` or `lanes`, all."""

    tenants: frozenset[str] | None
    kinds: frozenset[str]
    lanes: frozenset[str] | None

    def admits(self, flow: DueFlow) -> bool:
        """Return whether it asks for the items of a flow."""
        return (
            flow.kind in self.kinds
            and (self.tenants is None or flow.tenant in self.tenants)
            and (self.lanes is None or flow.lane in self.lanes)
        )


def tenants_by_kind(subscriptions: Iterable[Subscription]) -> dict[str, list[str]]:
    """Return the tenants for whose items of a kind alone is asked, of kinds where that is so.

    Of a kind with more than TENANTS_MAX it is said that items of all are asked for.
    """
    of_all: set[str] = set()
    of_some: dict[str, set[str]] = {}
    for each in subscriptions:
        if each.tenants is None:
            of_all |= each.kinds
            continue
        for kind in each.kinds:
            of_some.setdefault(kind, set()).update(each.tenants)
    return {
        kind: sorted(tenants)
        for kind, tenants in of_some.items()
        if kind not in of_all and len(tenants) <= TENANTS_MAX
    }


class PullCall(Protocol):
    """What a claim has while it is made: a connection in a transaction, and for whom."""

    @property
    def connection(self) -> Connection:
        """The connection, under the role and in the name of the key."""
        ...

    @property
    def tenants(self) -> Sequence[str] | None:
        """The tenants to which the key is limited; None: all."""
        ...


@final
@dataclass(slots=True, eq=False)
class Pull:
    """One poll. `open` checks its key once more, and begins a transaction in its name.

    With `needs_list` it waits too briefly to be woken: what is due is listed for it.
    """

    subscription: Subscription
    items_max: int
    lease_seconds: float | None
    key_no: int
    open: Callable[[], AbstractAsyncContextManager[PullCall]]
    answered: asyncio.Future[list[PulledRun]]
    needs_list: bool = False
    is_served: bool = False
    is_over: bool = False


class Pulls(Protocol):
    """Where polls wait for items."""

    async def pull(
        self, pull: Pull, seconds: float, *, gone: "asyncio.Future[None]"
    ) -> list[PulledRun]:
        """Wait for runs, at most so long; of a client that is `gone`, release them.

        Raises what checking its key raises.
        """
        ...
