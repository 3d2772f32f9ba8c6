"""Sign in at the issuer: a link leads a browser there, and the issuer sends it back."""

import base64
import binascii
import hmac
from typing import Final

from fastapi import APIRouter, Request, Response

from dueledger.console.pages.sign_in import begin_session, sign_in_page
from dueledger.console.sessions import cookie_name, set_cookie
from dueledger.console.view import redirect
from dueledger.failures import KINDS
from dueledger.ledger.errors import NotFound, TokenInvalid, TooManyAttempts, Unavailable
from dueledger.service.callers import Callers, require_trusted
from dueledger.service.issuer_login import IssuerLogin, LoginAttempt

routes = APIRouter(include_in_schema=False)

ATTEMPT_SECONDS: Final = 600
_TO_CHARS_MAX: Final = 2_000
_COOKIE: Final = "login"
_NOT_BEGUN: Final = (
    "This sign-in was not begun in this browser, or ten minutes ago or earlier. Begin again."
)
_NO_RIGHT: Final = (
    "The issuer gives `{name}` no right here. Ask who administers it for a scope in the claim "
    "`{claim}`, such as `read`."
)


@routes.get("/sign-in/issuer")
async def begin(request: Request, to: str = "") -> Response:
    """Lead to the issuer. The browser keeps a secret, by which its answer is known."""
    require_trusted(request)
    login = _login_of(request)
    attempt = LoginAttempt.begin()
    try:
        address = await login.address(attempt, _back(request))
    except Unavailable as error:
        return sign_in_page(request, to, error.message, KINDS[error.code].status)
    response = redirect(address)
    shown = base64.urlsafe_b64encode(to[:_TO_CHARS_MAX].encode()).decode()
    set_cookie(request, response, _COOKIE, f"{attempt.secret}.{shown}", seconds=ATTEMPT_SECONDS)
    return response


@routes.get("/sign-in/callback")
async def finish(
    request: Request, code: str = "", state: str = "", error: str = "", iss: str = ""
) -> Response:
    """Open a session of who signed in, by what the issuer sends back. An attempt ends with it."""
    require_trusted(request)
    login = _login_of(request)
    kept, _, shown = request.cookies.get(cookie_name(request, _COOKIE), "").partition(".")
    attempt = LoginAttempt.read(kept)
    if attempt is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
        return sign_in_page(request, "", _NOT_BEGUN, 403)
    to = _decoded(shown)
    if iss not in {"", login.issuer}:  # RFC 9207
        response = sign_in_page(request, to, "The answer is of another issuer. Begin again.", 403)
    elif error:
        words = f"The issuer did not sign you in: `{error[:100]}`. Try again."
        response = sign_in_page(request, to, words, 403)
    else:
        response = await _redeem(request, login, attempt, code, to)
    response.delete_cookie(
        cookie_name(request, _COOKIE), secure=request.url.scheme == "https", httponly=True
    )
    return response


async def _redeem(
    request: Request, login: IssuerLogin, attempt: LoginAttempt, code: str, to: str
) -> Response:
    callers: Callers = request.app.state.callers
    try:
        caller = await callers.identify_login(request, login, attempt, code, _back(request))
    except TokenInvalid as error:
        words = f"The issuer's answer is not accepted. The token is {error.reason}. Begin again."
        return sign_in_page(request, to, words, 403)
    except (Unavailable, TooManyAttempts) as error:
        return sign_in_page(request, to, error.message, KINDS[error.code].status)
    if not caller.scopes:
        claim = request.app.state.settings.service_oidc_scopes_claim
        return sign_in_page(request, to, _NO_RIGHT.format(name=caller.name, claim=claim), 403)
    return await begin_session(request, caller, to)


def _login_of(request: Request) -> IssuerLogin:
    callers: Callers = request.app.state.callers
    if callers.login is None:
        raise NotFound("People do not sign in at an issuer here: DUELEDGER_SERVICE_OIDC_CLIENT_ID.")
    return callers.login


def _back(request: Request) -> str:
    """Return where the issuer sends the browser, as it knows this service."""
    path = f"{request.scope['root_path']}/sign-in/callback"
    return str(request.url.replace(path=path, query="", fragment=""))


def _decoded(shown: str) -> str:
    try:
        return base64.urlsafe_b64decode(shown).decode()
    except (binascii.Error, ValueError):
        return ""
