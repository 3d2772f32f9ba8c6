"""A URL means the same host to every parser."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from dueledger.ledger.definitions.http_url import InvalidUrl, read_url

HOSTS = ["example.com", "a-b.example", "x_y.example", "127.0.0.1", "[::1]", "[2001:db8::1]"]
PIECES = [*"/\\@:?#%.[]&= \t\r\n\x00ab1", "http", "https", "://", "//", "%2e", "%zz", *HOSTS]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://2130706433/", "number"),
        ("https://0x7f000001/", "number"),
        ("https://0x7f.1/", "number"),
        ("https://127.1/", "number"),
        ("https://0177.0.0.1/", "number"),
        ("https://127.0.0.1.0x1/", "number"),
        ("https://256.1.1.1/", "number"),
        ("https://1.2.3.08/", "number"),
        ("https://[fe80::1%25eth0]/", "zone id"),
        ("https://[fe80::1%eth0]/", "zone id"),
        ("https://[::1/", "cannot be read"),
        ("https://[127.0.0.1]/", "not an IPv6"),
        ("https://[::ffff:127.0.0.1]/", "inside an IPv6"),
        ("https://[::ffff:7f00:1]/", "inside an IPv6"),
        ("https://user@example.com/", "credentials"),
        ("https://example.com@evil.example/", "credentials"),
        ("https://user:word@example.com/", "credentials"),
        ("https://example.com\\@evil.example/", "credentials"),
        ("https://example.com\\.evil.example/", "neither a name"),
        ("https://example.com./", "dot"),
        ("https://exa%6dple.com/", "neither a name"),
        ("https://example.com:65536/", "port"),
        ("https://example.com:99999999/", "cannot be read"),
        ("https://example.com:/", "cannot be read"),
        ("https:///due", "neither a name"),
        ("https://-a.example/", "neither a name"),
        ("https://example.com/#fragment", "fragment"),
        ("https://example.com/a\nb", "escape"),
        ("https://example.com/%zz", "escape"),
        (" https://example.com/", "absolute"),
        ("//example.com/", "absolute"),
        ("javascript://example.com/", "neither"),
        ("file:///etc/passwd", "neither"),
        ("https://\uff11\uff12\uff17.0.0.1/", "ASCII"),
        ("https://example.com/" + "a" * 2000, "longer"),
    ],
)
def test_what_parsers_read_in_different_ways_is_no_address(text: str, reason: str) -> None:
    with pytest.raises(InvalidUrl, match=reason):
        read_url(text)


@pytest.mark.parametrize(
    ("text", "spelled", "address"),
    [
        ("https://example.com", "https://example.com/", None),
        ("HTTPS://EXAMPLE.com:443/A?B=c", "https://example.com/A?B=c", None),
        ("http://example.com:8080/a", "http://example.com:8080/a", None),
        ("https://192.0.2.1/", "https://192.0.2.1/", "192.0.2.1"),
        ("https://[2001:DB8:0:0::1]:8443/", "https://[2001:db8::1]:8443/", "2001:db8::1"),
        ("https://[::1.2.3.4]/", "https://[::102:304]/", "::102:304"),
        ("https://1e100.net/", "https://1e100.net/", None),
        ("https://localhost/", "https://localhost/", None),
    ],
)
def test_an_address_has_one_spelling(text: str, spelled: str, address: str | None) -> None:
    url = read_url(text)
    assert str(url) == spelled
    assert read_url(spelled) == url
    assert (None if url.address is None else str(url.address)) == address


def test_what_is_shown_of_an_address_leaves_its_query_out() -> None:
    assert read_url("https://example.com/a?token=hunter22").shown == "https://example.com/a"


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_checker_and_the_client_agree_on_the_host(rest: str) -> None:
    for text in (f"https://{rest}", f"https://example.com{rest}", rest):
        try:
            url = read_url(text)
        except InvalidUrl:
            continue
        client = URL(str(url), encoded=True)
        assert (client.scheme, client.raw_host, client.port) == (url.scheme, url.host, url.port)
        assert client.user is client.password is None
        split = urlsplit(str(url))
        assert (split.hostname, split.port or client.port) == (url.host, url.port)
