"""Endpoints on real sockets that return the bytes of a test, and items to send them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from uuid import UUID

import pytest

from dueledger import DueItem
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka.envelope import Headers
from dueledger.workers.http.allow_list import AllowList, read_origin
from dueledger.workers.http.client import HttpClient

LOOPBACK = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CLAIM_ID = ClaimId(7, datetime(2027, 3, 1, 9, tzinfo=UTC), "00c0ffee00c0ffee")
ITEM = "0190a5d6-2f0c-8a3e-9d1b-6d3f1f2a4b5c"


@dataclass(frozen=True)
class Received:
    """A request as it arrived. Header names are lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


async def never(_: asyncio.StreamWriter) -> None:
    """Send no response until the test ends."""
    await asyncio.Event().wait()


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Endpoint:
    """A server that records its requests and returns the next of the given responses."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.answers: list[bytes | Answer] = []
        self.port = 0
        self.scheme = "http"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{LOOPBACK}:{self.port}/due"

    async def start(self, host: str = LOOPBACK, port: int = 0, **options: object) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, **options)  # pyright: ignore[reportArgumentType] - TLS, where a test gives it
        self.port = self._server.sockets[0].getsockname()[1]
        self.scheme = "https" if options else "http"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                self.received.append(await _read(reader))
                answer = self.answers.pop(0) if self.answers else OK
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client, or the test, is through with it
        finally:
            self._tasks.discard(task)
            with suppress(ConnectionError):
                writer.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip().split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    headers = {name.lower(): value for name, value in pairs}
    assert len(headers) == len(pairs), "a header was sent twice"
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(line, headers, body)


MakeEndpoint = Callable[..., Awaitable[Endpoint]]


@pytest.fixture
async def make_endpoint() -> AsyncGenerator[MakeEndpoint]:
    """Start endpoints; a host, a port and a TLS context may be given."""
    async with AsyncExitStack() as running:

        async def make(host: str = LOOPBACK, port: int = 0, **options: object) -> Endpoint:
            endpoint = Endpoint()
            await endpoint.start(host, port, **options)
            running.push_async_callback(endpoint.stop)
            return endpoint

        yield make


@pytest.fixture
async def endpoint(make_endpoint: MakeEndpoint) -> Endpoint:
    return await make_endpoint()


def permissive(*origins: str, networks: tuple[str, ...] = ("127.0.0.0/8",)) -> AllowList:
    """A guard that lets requests to this machine pass, by http and to any port."""
    allowed = origins or ("http://127.0.0.1:*", "https://127.0.0.1:*")
    return AllowList(
        [read_origin(text) for text in allowed], [ip_network(text) for text in networks]
    )


@pytest.fixture
async def client() -> AsyncGenerator[HttpClient]:
    """A client that may call loopback: only these tests' settings ever allow that."""
    async with HttpClient(permissive()) as client:
        yield client


@dataclass(frozen=True)
class Record:
    """A consumed Kafka record."""

    headers: Headers
    value: bytes
    key: bytes | None = None
    offset: int = 0


def make_item(
    payload: bytes = b'{"premium":"123.45"}',
    *,
    fence: int = 7,
    attempt: int = 1,
    tenant: str = "acme",
    kind: str = "RenewalDue",
    business_key: str = "P-1",
    traceparent: str | None = None,
) -> DueItem:
    texts = {
        "ce_duefence": str(fence),
        "ce_duetoken": CLAIM_ID.token_text,
        "ce_dueposition": "1",
        "ce_specversion": "1.0",
        "ce_id": f"{UUID(ITEM)}:{fence}",
        "ce_source": f"/dueledger/{tenant}",
        "ce_type": kind,
        "ce_subject": business_key,
        "ce_time": "2027-03-01T09:00:00Z",
        "content-type": "application/json",
        "ce_duetenant": tenant,
        "ce_duecycle": "2027",
        "ce_dueeffective": "2027-03-31",
        "ce_dueat": "2027-03-01T09:00:00Z",
        "ce_dueitem": ITEM,
        "ce_dueattempt": str(attempt),
    }
    if traceparent is not None:
        texts["traceparent"] = traceparent
    headers = [(name, value.encode()) for name, value in texts.items()]
    return DueItem(Record(headers, payload), CLAIM_ID._replace(fence=fence), 1)
