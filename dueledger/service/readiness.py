"""Whether the service can answer, by a connection that no request waits for."""

import asyncio
from time import monotonic
from typing import Final

from dueledger.ledger.store import Pool
from dueledger.ledger.store.api_keys import check_readable

_SECONDS: Final = 1.0


class Readiness:
    """Asks Postgres at most once a second, however many ask: nobody needs a key for it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asking = asyncio.Lock()
        self._read_at = float("-inf")

    async def check(self) -> None:
        """Raise Unavailable, or what Postgres raises, if the ledger cannot be read."""
        async with self._asking:
            if monotonic() - self._read_at < _SECONDS:
                return
            async with self._pool.acquire() as connection:
                await check_readable(connection)
            self._read_at = monotonic()
