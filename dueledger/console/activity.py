"""What has changed in the ledger, for all open pages by one query a second.

A page is sent names of tables with a digest each, which says that rows were written and nothing
else. It loads itself again when one of its own has changed, as often as the number of open pages
permits.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, final

import orjson

from dueledger.ledger.runtime.service import Signals
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store import Connection
from dueledger.ledger.store.activity import read_activity

READ_SECONDS: Final = 1.0
PING_SECONDS: Final = 15.0
"""Without news: proxies close what is silent."""
RELOAD_SECONDS_MIN: Final = 2.0
_RELOAD_CPU_SECONDS: Final = 0.015
_RELOAD_SHARE: Final = 0.25
"""Part of a core that all open pages may use together to load themselves again."""
_DIGEST_BYTES: Final = 6
_UNSHOWN: Final = frozenset({"api_answer", "api_key", "console_session", "leader", "overview_flow"})

Lend = Callable[[], AbstractAsyncContextManager[Connection]]


@final
class LedgerActivity:
    """Reads which tables changed, once for all pages that are open."""

    def __init__(self, lend: Lend) -> None:
        self.lend = lend
        self._secret = secrets.token_bytes(16)
        self._digests: Mapping[str, str] = {}
        self._news = asyncio.Event()
        self._wanted = asyncio.Event()
        self._open = 0
        self._version = 0
        self._is_closed = False
        self.signals = Signals()

    @property
    def open_pages(self) -> int:
        """Return how many pages listen."""
        return self._open

    @property
    def reload_seconds(self) -> float:
        """Return how long a page waits before it loads itself again."""
        return max(RELOAD_SECONDS_MIN, self._open * _RELOAD_CPU_SECONDS / _RELOAD_SHARE)

    @property
    def is_closed(self) -> bool:
        """Return whether the process stops."""
        return self._is_closed

    async def wait_open(self) -> None:
        """Wait until a page is open, or the process stops."""
        await self._wanted.wait()

    def close(self) -> None:
        """End all streams: the process stops."""
        self._is_closed = True
        self._wanted.set()
        self._announce()

    async def tick(self) -> dict[str, int]:
        """Read once, and announce what changed to all pages; wait while none is open."""
        await self.wait_open()
        if self._is_closed:
            return {}
        async with self.lend() as connection:
            rows = await read_activity(connection)
        digests = {
            name: self._digest(name, count) for name, count in rows.items() if name not in _UNSHOWN
        }
        if digests != self._digests:
            self._digests = digests
            self._version += 1
            self._announce()
        return {}

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield the events of a page: first all digests, then those that change."""
        self._open += 1
        self._wanted.set()
        sent: Mapping[str, str] = {}
        version = 0
        try:
            yield b": open\n\n"
            while not self._is_closed:
                news = self._news
                if version != self._version:
                    version, digests = self._version, self._digests
                    changed = {
                        name: each for name, each in digests.items() if sent.get(name) != each
                    }
                    sent = digests
                    yield self._event(version, changed)
                elif not await wait_for_event(news, PING_SECONDS):
                    yield b": ping\n\n"
        finally:
            self._open -= 1
            if not self._open and not self._is_closed:
                self._wanted.clear()

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
        self.signals.emit("activity.changed")

    def _event(self, version: int, news: Mapping[str, str]) -> bytes:
        document = orjson.dumps({"every": self.reload_seconds, "tables": news})
        return b"id: %d\ndata: %s\n\n" % (version, document)

    def _digest(self, name: str, count: int) -> str:
        given = f"{name} {count}".encode()
        return hashlib.blake2b(given, key=self._secret, digest_size=_DIGEST_BYTES).hexdigest()
