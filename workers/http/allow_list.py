"""The allow list of requests: only origins that an operator listed, only public addresses.

It is checked twice: with a definition's URL before the DNS lookup, and with each IP address before
a connection is opened. The connection goes to the address that was checked.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from dueledger.ledger.definitions.http_url import HttpUrl, InvalidUrl, read_host_and_port
from dueledger.workers.http.addresses import Network, blocked_reason, read_address

_ORIGIN: Final = re.compile(r"(?:(?P<scheme>https?)://)?(?P<place>[^/?#@\\]+)/?")
_ANY_PORT: Final = ":*"
_ANY_HOST: Final = "*"
_ANY_BELOW: Final = "*."


class TargetRefused(Exception):
    """A request may not be made. The reason names neither credentials nor a query."""


class AddressRefused(OSError):
    """A name resolves to an address that no request may go to.

    An OSError, because that is what the client passes on when a connection cannot be opened.
    """


@dataclass(frozen=True, slots=True)
class AllowedOrigin:
    """An allowed origin: a scheme, a host or a pattern of hosts, and a port or any port."""

    scheme: str
    host: str
    port: int | None

    def allows(self, url: HttpUrl) -> bool:
        """Return whether a request to `url` is allowed. A pattern covers names only."""
        if url.scheme != self.scheme or self.port not in {None, url.port}:
            return False
        if self.host == _ANY_HOST:
            return url.address is None
        if self.host.startswith(_ANY_BELOW):
            return url.address is None and url.host.endswith(self.host[1:])
        return url.host == self.host


def read_origin(text: str) -> AllowedOrigin:
    """Read ``hooks.example.com``, ``https://*.example.com:8443``, ``http://10.0.0.7:*`` or ``*``.

    The default scheme is https; the default port is the scheme's. Raises ValueError.
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        raise ValueError("not an origin such as https://hooks.example.com")
    scheme = match["scheme"] or "https"
    place = match["place"]
    is_any_port = place.endswith(_ANY_PORT)
    if is_any_port:
        place = place.removesuffix(_ANY_PORT)
    pattern, _, number = place.partition(":")
    try:
        if pattern == _ANY_HOST:
            host, port = (
                _ANY_HOST,
                read_host_and_port(f"any:{number}" if number else "any", scheme)[1],
            )
        elif pattern.startswith(_ANY_BELOW):
            below, port = read_host_and_port(place.removeprefix(_ANY_BELOW), scheme)
            host = _ANY_BELOW + below
        else:
            host, port = read_host_and_port(place, scheme)
    except InvalidUrl as error:
        raise ValueError(f"not an origin such as https://hooks.example.com: {error}") from None
    return AllowedOrigin(scheme, host, None if is_any_port else port)


@final
class AllowList:
    """The origins and networks that this worker may call."""

    def __init__(self, origins: Sequence[AllowedOrigin], networks: Sequence[Network] = ()) -> None:
        self._origins = tuple(origins)
        self._networks = tuple(networks)

    def check_url(self, url: HttpUrl) -> None:
        """Raise TargetRefused unless the origin is listed and an address as host is allowed."""
        if not any(origin.allows(url) for origin in self._origins):
            raise TargetRefused(f"{url.origin} is not among the origins that may be called")
        if url.address is not None and (what := blocked_reason(url.address, self._networks)):
            raise TargetRefused(f"{url.origin} is {what}")

    def check_address(self, host: str, address: str) -> None:
        """Raise AddressRefused if `host` resolves to an address that no request may go to."""
        try:
            what = blocked_reason(read_address(address), self._networks)
        except ValueError:
            what = "not a plain address"
        if what:
            # The address is left out: authors of definitions must not learn about this network.
            raise AddressRefused(f"{host} resolves to an address that is not allowed ({what})")
