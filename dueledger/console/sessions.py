"""Who uses the console: the session that a request's cookie names."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, Literal

from fastapi import Request, Response

from dueledger.ledger.errors import KeyMissing, NotPermitted
from dueledger.ledger.store.api_keys import ApiCaller, Scope
from dueledger.ledger.store.console_sessions import find_session
from dueledger.service.admission import ConnectionShares
from dueledger.service.callers import Callers, require_trusted

_SAME_SITE: Final = frozenset({"same-origin", "none"})
"""Of Sec-Fetch-Site; `none` is what a person typed."""


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A session that has not ended: its id, and whose it is."""

    id: str
    caller: ApiCaller

    @property
    def csrf_token(self) -> str:
        """Return what each form of the session has."""
        return csrf_token_of(self.id)


class SessionCallers:
    """Finds callers by their sessions."""

    def __init__(self, connections: ConnectionShares, callers: Callers) -> None:
        self._connections = connections
        self._callers = callers

    async def find(self, request: Request, scope: Scope) -> ApiCaller:
        """Return the caller whose session the cookie names, if it has the scope.

        Raises UntrustedPeer, KeyMissing, RateExceeded, or NotPermitted.
        """
        require_trusted(request)
        given = cookie_session_id(request)
        caller = None
        if given:
            async with self._connections.lend() as connection:
                caller = await find_session(connection, given)
        if caller is None:
            raise KeyMissing("No session, or one that has ended. Sign in.")
        request.state.session = ConsoleSession(given, caller)
        return self._callers.permit(caller, scope)


def cookie_session_id(request: Request) -> str:
    """Return the id in the cookie of a request, of a session or of none."""
    return request.cookies.get(cookie_name(request, "session"), "")


def csrf_token_of(session_id: str) -> str:
    """Return what each form of a session has, and no other site knows."""
    return hmac.digest(session_id.encode(), b"form", hashlib.sha256).hex()


def session_of(request: Request) -> ConsoleSession | None:
    """Return the session that was found for a request."""
    return getattr(request.state, "session", None)


def require_same_site(request: Request) -> None:
    """Raise NotPermitted for a request that a page of another site made."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is None and origin is not None:
        is_own = origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
        site = "same-origin" if is_own else "cross-site"
    if site is not None and site not in _SAME_SITE:
        raise NotPermitted("The form is of another site. Open the console, and use its own.")


def cookie_name(request: Request, name: str) -> str:
    """Return the name of a cookie, by which browsers bind it to this host where they can.

    On loopback one host has many consoles: there the port tells them apart.
    """
    if request.url.scheme == "https":
        return f"__Host-dueledger_{name}"
    return f"dueledger_{name}_{request.url.port or 80}"


def set_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    seconds: float | None = None,
    same_site: Literal["lax", "strict"] = "lax",
) -> None:
    """Set a cookie that no script reads; without `seconds` until the browser ends."""
    response.set_cookie(
        cookie_name(request, name),
        value,
        max_age=None if seconds is None else int(seconds),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=same_site,
    )
