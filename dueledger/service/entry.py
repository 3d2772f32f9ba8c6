"""What each request passes first: its id, and whether its connection may carry a key."""

import re
import secrets
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADER: Final = b"x-request-id"
_ID_BYTES: Final = 8


class RequestEntry:
    """The outermost application. Headers of proxies count only from the networks given."""

    def __init__(
        self, app: ASGIApp, trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
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
        scope["is_trusted"] = scope["scheme"] == "https" or self._is_trusted(scope["client"][0])

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)  # pyright: ignore[reportArgumentType] - as above

    def _is_trusted(self, peer: str) -> bool:
        address = ip_address(peer)
        return address.is_loopback or any(address in network for network in self._trusted)
