"""What each request passes first: its id, their count, and whether a connection may carry a key."""

import re
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dueledger.service.admission import REQUESTS_MAX
from dueledger.service.problems import PROBLEM_TYPE, problem_of

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADER: Final = b"x-request-id"
_ID_BYTES: Final = 8
_PROBES: Final = "/health/"
"""They are answered, or a service with many requests would be ended for it."""


class RequestEntry:
    """The outermost application. Headers of proxies count only from the networks given.

    `path_prefix` is the path under which a proxy has the service, whether it removes it or not. A
    program that mounts the service says its path by `root_path`.
    """

    def __init__(
        self,
        app: ASGIApp,
        trusted_proxies: Sequence[IPv4Network | IPv6Network] = (),
        requests_max: int = REQUESTS_MAX,
        path_prefix: str = "",
    ) -> None:
        self._prefix = path_prefix
        self._requests, self._requests_max = 0, requests_max
        self._trusted = tuple(trusted_proxies)
        self._app = ProxyHeadersMiddleware(app, [str(each) for each in self._trusted])  # pyright: ignore[reportArgumentType] - the same interface, typed twice

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)  # pyright: ignore[reportArgumentType] - as above
            return
        given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        request_id = (
            given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(_ID_BYTES).encode()
        )
        scope["request_id"] = request_id.decode()
        scope["is_trusted"] = scope["scheme"] == "https" or self._is_trusted(scope.get("client"))

        if self._prefix:
            scope["root_path"] = self._prefix
            if not f"{scope['path']}/".startswith(f"{self._prefix}/"):
                scope["path"] = self._prefix + scope["path"]

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, request_id)]
            await send(message)

        if self._requests >= self._requests_max and not _is_probe(scope):
            await self._refuse(scope, receive, send_with_id)
            return
        self._requests += 1
        try:
            await self._app(scope, receive, send_with_id)  # pyright: ignore[reportArgumentType] - as above
        finally:
            self._requests -= 1

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = "The service has too many requests. Wait, and try again."
        document = problem_of(scope["request_id"], "SERVICE_BUSY", detail)
        status, headers = HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}
        await Response(document, status, headers, PROBLEM_TYPE)(scope, receive, send)

    def _is_trusted(self, peer: tuple[str, int] | None) -> bool:
        """Return whether a peer may send keys in plain text; one without an address may not."""
        try:
            address = ip_address(peer[0] if peer else "")
        except ValueError:
            return False
        return address.is_loopback or any(address in network for network in self._trusted)


def _is_probe(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")).startswith(_PROBES)
