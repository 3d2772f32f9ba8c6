"""Sign in with an API key, and sign out."""

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from dueledger.console.forms import SMALL_FORM_BYTES, FormHost, check_form, read_fields
from dueledger.console.sessions import (
    cookie_name,
    cookie_session_id,
    require_same_site,
    set_cookie,
)
from dueledger.console.view import View, own_address, redirect
from dueledger.failures import KINDS
from dueledger.ledger.errors import KeyMissing, RequestRefused
from dueledger.ledger.store.api_keys import ApiCaller
from dueledger.ledger.store.console_sessions import end_session, open_session
from dueledger.service.callers import Callers, require_trusted

if TYPE_CHECKING:
    from dueledger.service.settings import ServiceSettings

routes = APIRouter(include_in_schema=False)

_WRONG: Final = "That is no valid key: it is unknown, revoked or expired."


@routes.get("/sign-in")
async def show_form(request: Request, to: str = "") -> Response:
    """Show the form that asks for a key, and the link to the issuer where there is one."""
    return sign_in_page(request, to)


@routes.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Open a session of the caller whose key the form has."""
    require_same_site(request)
    host: FormHost = request.app.state.calls
    callers: Callers = request.app.state.callers
    fields = dict(read_fields(await host.read_bytes(request, SMALL_FORM_BYTES)))
    to, key = fields.get("to", ""), fields.get("key", "").strip()
    try:
        caller = await callers.identify(request, f"Bearer {key}")
    except RequestRefused as error:
        if isinstance(error, KeyMissing):
            return sign_in_page(request, to, _WRONG, 403)
        return sign_in_page(request, to, error.message, KINDS[error.code].status)
    return await begin_session(request, caller, to)


def sign_in_page(
    request: Request, to: str, problem: str | None = None, status: int = 200
) -> Response:
    """Return the page that signs in, with what went wrong before."""
    callers: Callers = request.app.state.callers
    issuer = None if callers.login is None else callers.login.host
    kept = to if own_address(request, to) == to else ""
    page = View.of(request).page(
        "sign_in.html", title="Sign in", to=kept, problem=problem, issuer=issuer
    )
    page.status_code = status
    return page


async def begin_session(request: Request, caller: ApiCaller, to: str) -> Response:
    """Open a session in place of another, and lead to the page that was asked for."""
    host: FormHost = request.app.state.calls
    settings: ServiceSettings = request.app.state.settings
    seconds = settings.service_session_hours * 3600
    async with host.lend() as connection:
        await end_session(connection, cookie_session_id(request))
        session_id = await open_session(connection, caller, seconds=seconds)
    response = redirect(own_address(request, to))
    set_cookie(request, response, "session", session_id, seconds=seconds)
    return response


@routes.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session, and forget its cookie."""
    require_trusted(request)
    host: FormHost = request.app.state.calls
    check_form(request, read_fields(await host.read_bytes(request, SMALL_FORM_BYTES)))
    name = cookie_name(request, "session")
    async with host.lend() as connection:
        await end_session(connection, cookie_session_id(request))
    response = redirect(f"{request.scope['root_path']}/sign-in")
    response.delete_cookie(name, secure=request.url.scheme == "https", httponly=True)
    return response
