"""The address of an HTTP target, in a grammar so narrow that every parser reads it the same way.

The check of an address and the connection to it must agree on the host. So forms that parsers read
differently (credentials, backslashes, escapes and capitals in the host, decimal, octal and hex
addresses, zone ids) are refused, and each remaining address has one spelling.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Final

URL_CHARS_MAX: Final = 2000
HOST_CHARS_MAX: Final = 253
PORT_MAX: Final = 65_535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_ACCEPTED: Final = "an address such as https://hooks.example.com/due"
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?]*)(?P<rest>.*)", re.DOTALL
)
_PLACE: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_REST: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")  # `inet_aton` reads these as numbers


class InvalidUrl(ValueError):
    """A text is not an address: the `reason` and the `accepted` spelling; neither quotes it."""

    def __init__(self, reason: str, accepted: str = _ACCEPTED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.accepted = accepted


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A parsed address. `host` is lower case, without the brackets of an IPv6 address."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The IP address that the host is; None if it is a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def origin(self) -> str:
        """Scheme, host and port, as in ``https://hooks.example.com``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def shown(self) -> str:
        """The address for logs and evidence, without the query, which may contain a token."""
        return self.origin + self.path

    def __str__(self) -> str:
        return self.shown + (f"?{self.query}" if self.query else "")


def read_url(text: str) -> HttpUrl:
    """Read an address. Raises InvalidUrl, which never quotes it."""
    if len(text) > URL_CHARS_MAX:
        raise InvalidUrl(f"longer than {URL_CHARS_MAX} characters")
    if not text.isascii():
        raise InvalidUrl("has characters other than ASCII", "a host as xn--…, a path as %C3%A9")
    match = _PARTS.fullmatch(text)
    if match is None:
        raise InvalidUrl("is not an absolute address")
    scheme = match["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        raise InvalidUrl("is neither https nor http")
    if "#" in text:
        raise InvalidUrl("has a fragment, which is never sent", "the address without it")
    if "@" in match["place"]:
        raise InvalidUrl(
            "has credentials", "the address without them, and secret_headers: {Authorization: …}"
        )
    if not _REST.fullmatch(match["rest"]):
        raise InvalidUrl("has a character that an address must escape", "%XX in its place")
    host, port = read_host_and_port(match["place"], scheme)
    path, _, query = match["rest"].partition("?")
    return HttpUrl(scheme, host, port, path or "/", query)


def read_host_and_port(place: str, scheme: str) -> tuple[str, int]:
    """Read ``host`` or ``host:port``. Raises InvalidUrl."""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise InvalidUrl("its host or port cannot be read")
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS[scheme]
    if not 1 <= port <= PORT_MAX:
        raise InvalidUrl(f"its port is not 1 to {PORT_MAX}")
    return read_host(match["host"]), port


def read_host(text: str) -> str:
    """Return a host in its one spelling. Raises InvalidUrl."""
    host = text.lower()
    if host.startswith("["):
        return _read_ipv6(host[1:-1])
    labels = host.split(".")
    if labels[-1] == "" and len(labels) > 1:
        raise InvalidUrl("its host ends in a dot", "the host without it")
    if len(host) > HOST_CHARS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise InvalidUrl("its host is neither a name nor an address")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            raise InvalidUrl(
                "its host is a number that some programs read as an address", "192.0.2.1"
            ) from None
    return host


def _read_ipv6(text: str) -> str:
    if "%" in text:
        raise InvalidUrl("its host has a zone id, which names another host on each machine")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise InvalidUrl("its host is not an IPv6 address", "[2001:db8::1]") from None
    if address.ipv4_mapped is not None:  # Python 3.13 prints it differently from 3.12
        raise InvalidUrl("its host is an IPv4 address inside an IPv6 one", "192.0.2.1")
    return str(address)
