"""Failed attempts to use a key, counted by address."""

from collections import OrderedDict
from collections.abc import Callable
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


class FailedAttempts:
    """Refuses addresses with too many wrong keys in a window of a minute.

    It forgets those that failed first if there are too many addresses.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise TooManyAttempts for an address whose keys are not compared at present."""
        began, failures = self._failures.get(_network_of(address), (0.0, 0))
        seconds = began + WINDOW_SECONDS - self._clock()
        if failures >= FAILURES_MAX and seconds > 0:
            message = "Too many requests with a wrong key from this address. Wait, and try again."
            raise TooManyAttempts(message, seconds=ceil(seconds))

    def count(self, address: str) -> None:
        """Count a wrong key."""
        network, now = _network_of(address), self._clock()
        began, failures = self._failures.get(network, (now, 0))
        if now >= began + WINDOW_SECONDS:
            began, failures = now, 0
        self._failures[network] = began, failures + 1
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)


def _network_of(address: str) -> str:
    """Return the address, or of IPv6 its network."""
    try:
        parsed = ip_address(address)
    except ValueError:  # as a proxy may send
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _IPV6_PREFIX_BITS), strict=False))
    return str(parsed)
