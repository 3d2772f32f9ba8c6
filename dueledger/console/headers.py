"""Headers of each answer of the console: what its pages may load, and who may show them."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ENCODED: Final = tuple((name.lower().encode(), value.encode()) for name, value in _HEADERS.items())
_PRIVATE: Final = (b"cache-control", b"no-store")
_HTTPS_ALONE: Final = (b"strict-transport-security", b"max-age=31536000")


class SecurityHeaders:
    """Adds the headers that an answer has not; one that does not say how long is not kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message["headers"])
                names = {name for name, _ in given}
                given += [each for each in _ENCODED if each[0] not in names]
                if not any(name == b"cache-control" for name, _ in given):
                    given.append(_PRIVATE)
                if scope["scheme"] == "https":
                    given.append(_HTTPS_ALONE)
                message["headers"] = given
            await send(message)

        await self._app(scope, receive, send_with_headers)
