"""Allowed endpoints: those that an operator listed, and of these only public ones."""

from ipaddress import ip_address, ip_network

import pytest

from dueledger.ledger.definitions.http_url import read_url
from dueledger.workers.http.addresses import blocked_reason
from dueledger.workers.http.allow_list import AddressRefused, AllowList, TargetRefused, read_origin

REFUSED = [
    ("0.0.0.0", "unspecified"),  # noqa: S104 - nothing is bound
    ("0.1.2.3", "unspecified"),
    ("10.1.2.3", "private"),
    ("100.64.0.1", "carrier"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("169.254.1.1", "link-local"),
    ("169.254.169.254", "metadata"),
    ("169.254.170.2", "metadata"),
    ("100.100.100.200", "metadata"),
    ("168.63.129.16", "metadata"),
    ("192.0.0.192", "metadata"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.8", "protocol"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarks"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "inside an IPv6"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:169.254.169.254", "metadata"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b::a9fe:a9fe", "metadata"),
    ("64:ff9b:1::808:808", "NAT64"),
    ("100::1", "not public"),
    ("2001::7f00:1", "Teredo"),
    ("2001:2::1", "protocol"),
    ("2001:10::1", "protocol"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4"),
    ("2002:808:808::", "6to4"),
    ("3fff::1", "documentation"),
    ("4000::1", "not public"),
    ("5f00::1", "not public"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "metadata"),
    ("fd20:ce::254", "metadata"),
    ("fe80::1", "link-local"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
]
PUBLIC = [
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2001:200::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
]


@pytest.mark.parametrize(("address", "what"), REFUSED)
def test_an_address_that_is_not_public_is_refused_by_what_it_is(address: str, what: str) -> None:
    assert what in (blocked_reason(ip_address(address), []) or "")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    assert blocked_reason(ip_address(address), []) is None


def test_a_network_that_an_operator_names_opens_itself_and_nothing_else() -> None:
    allowed = [ip_network("10.2.0.0/16"), ip_network("fd00::/8")]
    assert blocked_reason(ip_address("10.2.3.4"), allowed) is None
    assert blocked_reason(ip_address("::ffff:10.2.3.4"), allowed) is None
    assert blocked_reason(ip_address("fd00::1"), allowed) is None
    assert blocked_reason(ip_address("10.3.0.1"), allowed) == "private"
    assert blocked_reason(ip_address("127.0.0.1"), allowed) == "loopback"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "::", "ff02::1"]
)
def test_no_network_opens_what_can_never_be_an_endpoint(address: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert blocked_reason(ip_address(address), everything) is not None


def allows(origin: str, url: str) -> bool:
    return read_origin(origin).allows(read_url(url))


def test_an_origin_covers_its_scheme_its_host_and_its_port() -> None:
    assert allows("hooks.example.com", "https://hooks.example.com/any?thing=1")
    assert allows("https://Hooks.Example.com:443/", "https://hooks.example.com/")
    assert not allows("hooks.example.com", "http://hooks.example.com/")
    assert not allows("hooks.example.com", "https://hooks.example.com:8443/")
    assert not allows("hooks.example.com", "https://hooks.example.com.evil.example/")
    assert not allows("hooks.example.com", "https://nothooks.example.com/")
    assert allows("http://billing:8080", "http://billing:8080/")
    assert not allows("http://billing:8080", "http://billing/")
    assert allows("https://billing:*", "https://billing:9443/")


def test_a_pattern_covers_names_below_it_and_no_address() -> None:
    assert allows("*.example.com", "https://a.b.example.com/")
    assert not allows("*.example.com", "https://example.com/")
    assert not allows("*.example.com", "https://badexample.com/")
    assert not allows("*.example.com", "https://a.example.com:8443/")
    assert allows("https://*.example.com:8443", "https://a.example.com:8443/")
    assert allows("*", "https://anything.example/")
    assert not allows("*", "http://anything.example/")
    assert not allows("*", "https://8.8.8.8/")
    assert not allows("*", "https://[2606:4700:4700::1111]/")
    assert allows("https://8.8.8.8", "https://8.8.8.8/")
    assert allows("[2606:4700:4700::1111]:8443", "https://[2606:4700:4700::1111]:8443/")


@pytest.mark.parametrize(
    "text",
    ["", "ftp://a.example", "https://a.example/path", "https://u:p@a.example", "*.*", "a.*.example",
     "https://a.example:0", "a example", "2130706433", "https://[::1%eth0]"],
)  # fmt: skip
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an origin"):
        read_origin(text)


def test_nothing_may_be_called_that_is_not_listed() -> None:
    with pytest.raises(TargetRefused, match="is not among the origins"):
        AllowList([]).check_url(read_url("https://hooks.example.com/due?token=hunter22"))


def test_a_listed_address_must_still_be_public_or_in_a_named_network() -> None:
    origins = [read_origin("http://127.0.0.1:*")]
    url = read_url("http://127.0.0.1:8080/")
    with pytest.raises(TargetRefused, match="loopback"):
        AllowList(origins).check_url(url)
    AllowList(origins, [ip_network("127.0.0.0/8")]).check_url(url)


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1%eth0", "2606:4700:4700::1111%1", "x"])
def test_an_address_of_the_name_servers_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(AddressRefused, match="resolves to an address") as refused:
        AllowList([]).check_address("hooks.example.com", address)
    assert address not in str(refused.value) or address == "x"
