"""One exchange with a real endpoint: where it may go, and that nothing holds it up."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from dueledger.ledger.definitions.http_url import read_url
from dueledger.ledger.errors import InvalidSetting
from dueledger.workers.http.allow_list import AllowList, TargetRefused, read_origin
from dueledger.workers.http.client import HttpClient, RequestFailed
from dueledger.workers.http.exchange import BODY_READ_BYTES_MAX, HttpRequest

from .conftest import LOOPBACK, OK, Endpoint, MakeEndpoint, never, permissive

NAME = "hooks.example.com"
PUBLIC = "93.184.215.14"
SOON_SECONDS = 0.3


def request(url: str, *, timeout_seconds: float = 20.0, method: str = "POST") -> HttpRequest:
    body = None if method == "GET" else b"{}"
    return HttpRequest(method, read_url(url), {"x-due": "1"}, body, timeout_seconds)


class Names:
    """Name servers that return the next of several addresses for each query."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        del port
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def named(names: Names, *, networks: tuple[str, ...] = (), scheme: str = "http") -> HttpClient:
    """A client that may call the name, as these name servers know it."""
    guard = permissive(f"{scheme}://{NAME}:*", networks=networks)
    return HttpClient(guard, lookup=names, dns_cache_seconds=0)


# Requests and responses.


async def test_a_request_arrives_as_it_was_made(client: HttpClient, endpoint: Endpoint) -> None:
    endpoint.answers = [b"HTTP/1.1 201 Created\r\nX-Request-Id: r-1\r\ncontent-length: 2\r\n\r\nok"]
    response = await client.send(request(endpoint.url + "?b=%2F&a=1"))
    (received,) = endpoint.received
    assert received.line == "POST /due?b=%2F&a=1 HTTP/1.1"
    assert received.body == b"{}"
    assert received.headers == {
        "host": f"{LOOPBACK}:{endpoint.port}",
        "x-due": "1",
        "content-length": "2",
    }
    assert (response.status, response.body, response.is_whole) == (201, b"ok", True)
    assert response.headers["x-request-id"] == "r-1"
    assert response.address == LOOPBACK


async def test_a_connection_is_used_again(client: HttpClient, endpoint: Endpoint) -> None:
    for _ in range(3):
        await client.send(request(endpoint.url))
    assert (len(endpoint.received), endpoint.connections) == (3, 1)


async def test_neither_cookies_nor_proxies_nor_compression_come_in_between(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    head = b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-encoding: gzip\r\n"
    endpoint.answers = [head + b"content-length: 7\r\n\r\nnot-zip"]
    url = f"http://{NAME}:{endpoint.port}/"  # a name: no client keeps an address's cookies
    async with named(Names([LOOPBACK]), networks=("127.0.0.0/8",)) as client:
        response = await client.send(request(url))
        assert response.body == b"not-zip"
        await client.send(request(url, method="GET"))
    assert "cookie" not in endpoint.received[1].headers


# Allowed addresses.


async def test_this_machine_is_refused_unless_a_network_is_named(endpoint: Endpoint) -> None:
    async with HttpClient(permissive(networks=())) as strict:
        with pytest.raises(TargetRefused, match="loopback"):
            await strict.send(request(endpoint.url))
    assert endpoint.connections == 0


async def test_a_name_that_means_this_machine_is_refused(endpoint: Endpoint) -> None:
    async with named(Names([LOOPBACK])) as strict:
        with pytest.raises(TargetRefused, match=r"not allowed \(loopback"):
            await strict.send(request(f"http://{NAME}:{endpoint.port}/"))
    assert endpoint.connections == 0


async def test_the_addresses_of_the_machines_own_resolver_are_checked(
    endpoint: Endpoint,
) -> None:
    origin = f"http://localhost:{endpoint.port}"
    async with HttpClient(permissive(origin, networks=())) as strict:
        with pytest.raises(TargetRefused, match=r"localhost resolves to .* .loopback"):
            await strict.send(request(origin))
    assert endpoint.connections == 0
    async with HttpClient(permissive(origin, networks=("127.0.0.0/8", "::1/128"))) as client:
        assert (await client.send(request(origin))).status == 200


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fe80::1%1"],
)
async def test_one_bad_address_of_a_name_refuses_it_whole(address: str) -> None:
    for answer in ([PUBLIC, address], [address, PUBLIC]):
        async with named(Names(answer)) as strict:
            with pytest.raises(TargetRefused, match="resolves to an address"):
                await strict.send(request(f"http://{NAME}/"))


async def test_a_name_that_resolves_differently_after_the_check_changes_nothing(
    make_endpoint: MakeEndpoint,
) -> None:
    checked = await make_endpoint("127.0.0.2")
    inside = await make_endpoint(LOOPBACK, checked.port)
    names = Names(["127.0.0.2"], [LOOPBACK])
    async with named(names, networks=("127.0.0.2/32",)) as client:
        response = await client.send(request(f"http://{NAME}:{checked.port}/"))
        assert response.address == "127.0.0.2"
        assert names.asked == [NAME], "asked once: what was checked is what is connected to"
        checked.answers = [OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")]
        await client.send(request(f"http://{NAME}:{checked.port}/"))
        # The next connection resolves again, to an address that is not allowed.
        with pytest.raises(TargetRefused, match=r"not allowed \(loopback"):
            await client.send(request(f"http://{NAME}:{checked.port}/"))
    assert inside.connections == 0
    assert checked.received[0].headers["host"] == f"{NAME}:{checked.port}"


async def test_the_socket_is_the_last_to_ask(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = named(Names([LOOPBACK]))
    monkeypatch.setattr("dueledger.workers.http.client._CheckedResolver.resolve", _unchecked)
    async with strict:
        with pytest.raises(TargetRefused, match="loopback"):
            await strict.send(request(f"http://{NAME}:{endpoint.port}/"))
    assert endpoint.connections == 0


async def _unchecked(_: object, host: str, port: int = 0, family: int = 0) -> list[object]:
    del family
    address = {"hostname": host, "host": LOOPBACK, "port": port, "proto": 0, "flags": 0}
    return [address | {"family": socket.AF_INET}]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_reported_and_not_followed(
    client: HttpClient, make_endpoint: MakeEndpoint, status: int
) -> None:
    first, inside = await make_endpoint(), await make_endpoint()
    first.answers = [
        f"HTTP/1.1 {status} Moved\r\nlocation: {inside.url}\r\ncontent-length: 0\r\n\r\n".encode()
    ]
    response = await client.send(request(first.url))
    assert (response.status, response.headers["location"]) == (status, inside.url)
    assert inside.connections == 0


# Nothing holds it up.


async def dribbled_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx-a: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0)


async def test_an_endpoint_that_never_responds_times_out(
    client: HttpClient, endpoint: Endpoint
) -> None:
    endpoint.answers = [never]
    with pytest.raises(RequestFailed, match=r"no response within 0\.3 s"):
        await client.send(request(endpoint.url, timeout_seconds=SOON_SECONDS))


async def test_a_head_without_an_end_is_given_up(client: HttpClient, endpoint: Endpoint) -> None:
    endpoint.answers = [dribbled_head]
    with pytest.raises(RequestFailed):
        await client.send(request(endpoint.url))


async def test_a_body_without_an_end_does_not_unsay_the_status(
    client: HttpClient, endpoint: Endpoint
) -> None:
    async def dribbled_body(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\ndone, and")
        await never(writer)

    endpoint.answers = [dribbled_body]
    response = await client.send(request(endpoint.url, timeout_seconds=SOON_SECONDS))
    assert (response.status, response.body, response.is_whole) == (200, b"done, and", False)


async def test_a_body_that_breaks_off_does_not_unsay_the_status(
    client: HttpClient, endpoint: Endpoint
) -> None:
    async def broken_body(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\ndone, and")
        await writer.drain()
        writer.transport.abort()

    endpoint.answers = [broken_body]
    response = await client.send(request(endpoint.url))
    assert (response.status, response.is_whole) == (200, False)


async def test_of_a_body_only_the_beginning_is_read(client: HttpClient, endpoint: Endpoint) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    endpoint.answers = [endless]
    response = await client.send(request(endpoint.url))
    assert (len(response.body), response.is_whole) == (BODY_READ_BYTES_MAX, False)
    await client.send(request(endpoint.url))
    assert endpoint.connections == 2, "the rest was not waited for: the connection was given up"


@pytest.mark.parametrize(
    "answer",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: a\r\n" % n for n in range(500)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad\x00name: a\r\n\r\n",
    ],
)
async def test_what_is_no_response_may_be_tried_again(
    client: HttpClient, endpoint: Endpoint, answer: bytes
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(RequestFailed, match=r"no readable response|the connection failed"):
        await client.send(request(endpoint.url))


async def test_a_connection_that_breaks_may_be_tried_again(
    client: HttpClient, endpoint: Endpoint
) -> None:
    async def abort(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    endpoint.answers = [abort, abort]
    with pytest.raises(RequestFailed, match="the connection failed"):
        await client.send(request(endpoint.url))
    await endpoint.stop()
    with pytest.raises(RequestFailed, match="no connection"):
        await client.send(request(endpoint.url))


async def test_an_unknown_name_may_be_retried() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        del host, port
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with HttpClient(permissive(f"http://{NAME}"), lookup=unknown) as client:
        with pytest.raises(RequestFailed, match="cannot be looked up"):
            await client.send(request(f"http://{NAME}/"))


async def test_no_failure_shows_a_header_or_a_query(endpoint: Endpoint) -> None:
    async with HttpClient(AllowList([read_origin("https://elsewhere.example")])) as client:
        with pytest.raises(TargetRefused) as refused:
            await client.send(request(endpoint.url + "?token=hunter22"))
    assert "hunter22" not in str(refused.value)
    assert "hunter22" not in repr(request(endpoint.url + "?token=hunter22"))


# TLS: the connection is to the checked address, the certificate is checked for the name.


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the name, made for this run; only the given client trusts it."""
    folder = tmp_path_factory.mktemp("tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    name = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
    files = ("-keyout", folder / "key.pem", "-out", folder / "certificate.pem")
    subprocess.run(  # noqa: S603 - our own words
        ("openssl", "req", "-x509", "-days", "2", *key, *name, *files),  # noqa: S607
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture
async def tls_endpoint(make_endpoint: MakeEndpoint, certificates: Path) -> Endpoint:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "certificate.pem", certificates / "key.pem")
    return await make_endpoint(ssl=context)


async def test_tls_verifies_the_name_at_the_checked_address(
    tls_endpoint: Endpoint, certificates: Path
) -> None:
    guard = permissive(f"https://{NAME}:*", "https://other.example.com:*")
    async with HttpClient(
        guard, ca_file=certificates / "certificate.pem", lookup=Names([LOOPBACK])
    ) as client:
        response = await client.send(request(f"https://{NAME}:{tls_endpoint.port}/"))
        assert (response.status, response.address) == (200, LOOPBACK)
        # Another name at the same address gets no connection that was verified for the first.
        with pytest.raises(RequestFailed, match="certificate was rejected"):
            await client.send(request(f"https://other.example.com:{tls_endpoint.port}/"))
    assert len(tls_endpoint.received) == 1


async def test_an_untrusted_certificate_is_not_accepted(
    tls_endpoint: Endpoint,
) -> None:
    async with named(Names([LOOPBACK]), networks=("127.0.0.0/8",), scheme="https") as client:
        with pytest.raises(RequestFailed, match="certificate was rejected"):
            await client.send(request(f"https://{NAME}:{tls_endpoint.port}/"))
    assert tls_endpoint.received == []


def test_a_file_without_certificates_is_refused_by_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(
        InvalidSetting, match=r"DUELEDGER_HTTP_CA_FILE: is not a file of certificates .*empty\.pem"
    ):
        HttpClient(permissive(), ca_file=empty)
