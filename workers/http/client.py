"""The HTTP client: one exchange with a checked address, bounded in size and in time.

aiohttp and not httpx2: a request costs a seventh of the CPU (95 against 680 microseconds, measured
with 50 at once), and its connections are pooled by name, while our own resolver returns the name's
addresses. So the checked address is connected to, and TLS still verifies the name. httpx2 would
pool by address, and two names at one address would share a verified connection.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast, final

from aiohttp import (
    ClientConnectionError,
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from yarl import URL

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.workers.http.allow_list import AddressRefused, AllowList, TargetRefused
from dueledger.workers.http.exchange import BODY_READ_BYTES_MAX, HttpRequest, HttpResponse
from dueledger.workers.run.thread_call import call_in_thread

BODY_SECONDS: Final = 5.0
DNS_CACHE_SECONDS: Final = 5
# Many servers close an idle connection after five seconds; a request at that moment fails.
KEEPALIVE_SECONDS: Final = 3.0
LOOKUPS_MAX: Final = 32
HEADERS_MAX: Final = 128

DnsLookup = Callable[[str, int], Awaitable[list[str]]]
"""Looks up the addresses of a host, as texts. Raises OSError."""


class RequestFailed(Exception):
    """No response came, or an unreadable one; a retry may succeed."""


@final
class HttpClient:
    """Sends requests, without proxies, cookies, redirects and compression."""

    def __init__(
        self,
        guard: AllowList,
        *,
        ca_file: Path | None = None,
        lookup: DnsLookup | None = None,
        dns_cache_seconds: int = DNS_CACHE_SECONDS,
    ) -> None:
        self._guard = guard
        self._tls = _verifying_context(ca_file)
        self._lookup = lookup
        self._dns_cache_seconds = dns_cache_seconds
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = TCPConnector(
            resolver=_CheckedResolver(self._guard, self._lookup),
            ttl_dns_cache=self._dns_cache_seconds,
            socket_factory=self._open_socket,
            ssl=self._tls,
            keepalive_timeout=KEEPALIVE_SECONDS,
            limit=0,  # each kind's concurrency is bounded; one kind must not wait for another
        )
        self._session = ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers={"Accept", "Accept-Encoding", "Content-Type", "User-Agent"},
            max_headers=HEADERS_MAX,
            response_class=_AddressedResponse,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Make one exchange.

        Raises TargetRefused if the allow list refuses it, before or after the lookup, and
        RequestFailed if no readable response came in time. No message has a header or a query.
        """
        self._guard.check_url(request.url)
        try:
            return await self._exchange(request)
        except TimeoutError:
            raise RequestFailed(f"no response within {request.timeout_seconds:g} s") from None
        except ClientConnectorCertificateError as error:
            raise RequestFailed(_verifying(error.certificate_error)) from None
        except ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefused):
                raise TargetRefused(str(error.os_error)) from None
            raise RequestFailed(_connecting(error.os_error)) from None
        except ClientConnectionError as error:
            raise RequestFailed(f"the connection failed: {type(error).__name__}") from None
        except (ClientError, ValueError) as error:
            raise RequestFailed(f"no readable response: {type(error).__name__}") from None

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        if self._session is None:
            raise RuntimeError("the client is used inside `async with`")
        ends_at = asyncio.get_running_loop().time() + request.timeout_seconds
        async with asyncio.timeout_at(ends_at):
            response = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            )
        async with response:
            address = response.peer if isinstance(response, _AddressedResponse) else None
            body, is_whole = await _read(response, ends_at)
            headers = {name.lower(): _readable(value) for name, value in response.headers.items()}
            return HttpResponse(response.status, headers, body, is_whole, address)

    def _open_socket(self, info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        """Open the socket of a connection, after checking its address."""
        family, kind, protocol, _, address = info
        self._guard.check_address("the host", str(address[0]))
        return socket.socket(family, kind, protocol)


@final
class _CheckedResolver(AbstractResolver):
    """Looks names up and returns only checked addresses: all of a name's, or none."""

    def __init__(self, guard: AllowList, lookup: DnsLookup | None) -> None:
        self._guard = guard
        self._lookup = lookup or self._ask
        # A thread waits as long as the name servers of one host take. The client has one lookup at
        # a time for each host, so only that many slow hosts together delay the others.
        self._threads = asyncio.Semaphore(LOOKUPS_MAX)

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the client's signature
    ) -> list[ResolveResult]:
        addresses = await self._lookup(host, port)
        for address in addresses:
            self._guard.check_address(host, address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: a lookup's thread ends by itself."""

    async def _ask(self, host: str, port: int) -> list[str]:
        async with self._threads:
            looked_up = await call_in_thread(_getaddrinfo, (host, port))
        if looked_up.error is not None:
            raise looked_up.error
        return cast("list[str]", looked_up.value)


def _getaddrinfo(place: tuple[str, int]) -> list[str]:
    found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _AddressedResponse(ClientResponse):
    """A response with the address that sent it: a short one has released its connection."""

    peer: str | None = None

    async def start(self, connection: Connection) -> ClientResponse:
        if connection.transport is not None:
            name = connection.transport.get_extra_info("peername")
            self.peer = str(name[0]) if name else None
        return await super().start(connection)


def _readable(value: str) -> str:
    """Return a header's value as text: the client keeps bytes that are not UTF-8 as surrogates."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _read(response: ClientResponse, ends_at: float) -> tuple[bytes, bool]:
    """Read the beginning of a body; return whether it was complete.

    The status was received before. A slow or broken body does not change it: a retry would execute
    the item a second time.
    """
    body = bytearray()
    ends_at = min(ends_at, asyncio.get_running_loop().time() + BODY_SECONDS)
    with suppress(TimeoutError, ClientError):
        async with asyncio.timeout_at(ends_at):
            while len(body) <= BODY_READ_BYTES_MAX:
                piece = await response.content.read(BODY_READ_BYTES_MAX + 1 - len(body))
                if not piece:
                    return bytes(body), True
                body += piece
    return bytes(body[:BODY_READ_BYTES_MAX]), False


def _verifying_context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # an SSLError is one
            problem = Problem(
                "DUELEDGER_HTTP_CA_FILE", str(ca_file), "is not a file of certificates in PEM"
            )
            raise InvalidSetting("Settings are missing or wrong:", [problem]) from error
    return context


def _verifying(error: Exception) -> str:
    """Return why a certificate was rejected."""
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "invalid"
    return f"the certificate was rejected: {why}"


def _connecting(error: OSError) -> str:
    """Return why no connection was opened, without the client's long message."""
    if isinstance(error, socket.gaierror):
        return "the host's name cannot be looked up"
    return f"no connection: {error.strerror or type(error).__name__}"
