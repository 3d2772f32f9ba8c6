"""The check of IP addresses: a request may go to public ones, and to networks an operator allowed.

The tables are IANA's registries of special-purpose addresses (RFC 6890 and its updates), and the
addresses of clouds' metadata services. Python's `is_global` is not used: its result for the same
address has changed between patch releases.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NEVER: Final[tuple[tuple[Network, str], ...]] = (
    (IPv4Network("0.0.0.0/8"), "unspecified"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("255.255.255.255/32"), "broadcast"),
    (IPv6Network("::/128"), "unspecified"),
    (IPv6Network("ff00::/8"), "multicast"),
    # Addresses at which clouds answer about the machine, its credentials included.
    (IPv4Network("169.254.169.254/32"), "a metadata service"),
    (IPv4Network("169.254.170.2/32"), "a metadata service"),  # containers on AWS
    (IPv4Network("169.254.170.23/32"), "a metadata service"),
    (IPv4Network("100.100.100.200/32"), "a metadata service"),  # Alibaba
    (IPv4Network("168.63.129.16/32"), "a metadata service"),  # Azure's, though it looks public
    (IPv4Network("192.0.0.192/32"), "a metadata service"),  # Oracle
    (IPv6Network("fd00:ec2::254/128"), "a metadata service"),
    (IPv6Network("fd00:ec2::23/128"), "a metadata service"),
    (IPv6Network("fd20:ce::254/128"), "a metadata service"),  # Google
)
_NOT_PUBLIC: Final[tuple[tuple[Network, str], ...]] = (
    (IPv4Network("10.0.0.0/8"), "private"),
    (IPv4Network("100.64.0.0/10"), "shared by a carrier's customers"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.0.0.0/24"), "of a protocol"),
    (IPv4Network("192.0.2.0/24"), "for documentation"),
    (IPv4Network("192.88.99.0/24"), "a 6to4 relay"),
    (IPv4Network("192.168.0.0/16"), "private"),
    (IPv4Network("198.18.0.0/15"), "for benchmarks"),
    (IPv4Network("198.51.100.0/24"), "for documentation"),
    (IPv4Network("203.0.113.0/24"), "for documentation"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("::/96"), "an IPv4 address inside an IPv6 one"),
    (IPv6Network("64:ff9b:1::/48"), "a local NAT64"),
    (IPv6Network("2001::/32"), "Teredo"),
    (IPv6Network("2001::/23"), "of a protocol"),
    (IPv6Network("2001:db8::/32"), "for documentation"),
    (IPv6Network("2002::/16"), "6to4"),
    (IPv6Network("3fff::/20"), "for documentation"),
    (IPv6Network("fc00::/7"), "private"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("fec0::/10"), "site-local"),
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOW_32_BITS: Final = 0xFFFF_FFFF


def read_address(text: str) -> Address:
    """Read an address as the resolver gives it. Raises ValueError, also for a zone id."""
    if "%" in text:
        raise ValueError("an address with a zone id")
    return ip_address(text)


def blocked_reason(address: Address, allowed: Sequence[Network]) -> str | None:
    """Return why no request may go to an address, or None if one may.

    An address that embeds an IPv4 address (IPv4-mapped, and NAT64 by its well-known prefix, through
    which hosts without IPv4 reach public ones) is checked as that. `allowed` networks do not allow
    addresses that can never be an endpoint.
    """
    meant = _unwrapped(address)
    if found := _find(meant, _NEVER) or _find(address, _NEVER):
        return found
    if any(meant in network or address in network for network in allowed):
        return None
    if found := _find(meant, _NOT_PUBLIC):
        return found
    if isinstance(meant, IPv6Address) and meant not in _GLOBAL_UNICAST:
        return "not public"
    return None


def _unwrapped(address: Address) -> Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & _LOW_32_BITS)
    return address


def _find(address: Address, table: Sequence[tuple[Network, str]]) -> str | None:
    return next((what for network, what in table if address in network), None)
