"""A transactional handler while Postgres ends connections of its worker, with Kafka and without."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, final

from dueledger import Completed, Connection, DueItem, Handlers, Verdict

ITEMS: Final = 60
KILLS_IN_CALLS: Final = 5
KILLS_AT_ANY_TIME: Final = 20

KILL: Final = """
    select coalesce(bool_or(pg_terminate_backend(pid)), false) from pg_stat_activity
    where datname = current_database() and application_name like 'worker:%'
"""
OUTCOMES: Final = """
    select e.name, t.attempt, count(*) as outcomes
    from ledger.transition t join ledger.transition_event e using (event) group by 1, 2
"""

T = TypeVar("T")


class Eventually(Protocol):
    """The fixture that polls until something is true."""

    async def __call__(self, question: Callable[[], Awaitable[T | None]], /) -> T: ...


@final
class KilledConnections:
    """Ends all connections of the worker: while its handlers are called, and at any time."""

    def __init__(self, kind: str, connection: Connection, eventually: Eventually) -> None:
        self._kind = kind
        self._connection = connection
        self._eventually = eventually
        self._called, self._may_return = asyncio.Event(), asyncio.Event()

    def handlers(self) -> Handlers:
        """Return a handler that leaves a row in the transaction of its item."""
        handlers = Handlers()

        @handlers.on_transaction(self._kind, concurrency=8)
        async def work(item: DueItem, connection: Connection) -> Verdict:
            await connection.execute("insert into public.effect (item) values ($1)", item.id)
            self._called.set()
            await self._may_return.wait()
            return Completed()

        return handlers

    async def until_completed(self, allocate: Callable[[], Awaitable[object]]) -> None:
        """Kill until every item is completed; hold that nothing failed, and nothing counted."""

        async def is_called() -> bool:
            await allocate()
            return self._called.is_set()

        for _ in range(KILLS_IN_CALLS):
            await self._eventually(is_called)
            assert await self._connection.fetchval(KILL)
            self._may_return.set()  # those that wait return; the next ones wait again
            self._may_return.clear()
            self._called.clear()
        self._may_return.set()
        kills = 0

        async def are_completed() -> bool:
            nonlocal kills
            await allocate()
            if kills < KILLS_AT_ANY_TIME:
                kills += await self._connection.fetchval(KILL)
            return await self._connection.fetchval("select count(*) from public.effect") == ITEMS

        await self._eventually(are_completed)
        outcomes = {
            (row["name"], row["attempt"]): row["outcomes"]
            for row in await self._connection.fetch(OUTCOMES)
        }
        assert outcomes.keys() == {("released", 1), ("completed", 1)}
        assert outcomes["completed", 1] == ITEMS
        assert outcomes["released", 1] >= KILLS_IN_CALLS
