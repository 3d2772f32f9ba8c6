"""Failed attempts to use a key, counted by address."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from time import monotonic
from typing import Final

from dueledger.ledger.errors import TooManyAttempts

FAILURES_MAX: Final = 20
WINDOW_SECONDS: Final = 60.0
ADDRESSES_MAX: Final = 10_000
_IPV6_PREFIX_BITS: Final = 64
"""What one customer of a provider has at least."""


@dataclass(slots=True)
class _Failures:
    began: float
    count: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class FailedAttempts:
    """Slows down addresses with too many wrong keys in a window of a minute.

    Many clients may have one address: their keys are compared one at a time then, a valid one is
    valid, and each further wrong one is TooManyAttempts. It forgets the addresses that failed first
    if there are too many.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncGenerator[None]:
        """Compare a key in the block, after those before it if there were too many wrong ones."""
        failures = self._failures.get(_network_of(address))
        if failures is None or not self._seconds_left(failures):
            yield
            return
        async with failures.lock:
            yield

    def count(self, address: str) -> None:
        """Count a wrong key. Raises TooManyAttempts if there were too many before."""
        network, now = _network_of(address), self._clock()
        failures = self._failures.setdefault(network, _Failures(now))
        if seconds := self._seconds_left(failures):
            message = "Too many requests with a wrong key from this address. Wait, and try again."
            raise TooManyAttempts(message, seconds=ceil(seconds))
        if now >= failures.began + WINDOW_SECONDS:
            failures.began, failures.count = now, 0
        failures.count += 1
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def _seconds_left(self, failures: _Failures) -> float:
        """Return how long keys are compared one at a time; 0 if they are not."""
        if failures.count < FAILURES_MAX:
            return 0.0
        return max(0.0, failures.began + WINDOW_SECONDS - self._clock())


def _network_of(address: str) -> str:
    """Return the address, or of IPv6 its network."""
    try:
        parsed = ip_address(address)
    except ValueError:  # as a proxy may send
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _IPV6_PREFIX_BITS), strict=False))
    return str(parsed)
