"""Who makes a request: the API key or token that it has, for one scope."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request

from dueledger.ledger.errors import KeyMissing, NotPermitted, TokenInvalid, UntrustedPeer
from dueledger.ledger.store.api_keys import KEY_BEGIN, ApiCaller, Scope, authenticate
from dueledger.service.admission import ConnectionShares
from dueledger.service.attempts import FailedAttempts
from dueledger.service.rates import CallRates

if TYPE_CHECKING:
    from dueledger.service.issuer_login import IssuerLogin, LoginAttempt
    from dueledger.service.tokens import TokenVerifier

_BEARER: Final = "bearer "


def require_trusted(request: Request) -> None:
    """Raise UntrustedPeer for a request whose secrets others may have read on their way."""
    if not request.scope["is_trusted"]:
        message = "Without TLS, requests are taken from trusted proxies only. Use the proxy."
        raise UntrustedPeer(message)


class Callers:
    """Finds the caller of each request. Without a verifier, by API keys alone.

    `login` signs people in at the issuer; None: it is not set up.
    """

    def __init__(
        self,
        connections: ConnectionShares,
        rates: CallRates,
        tokens: "TokenVerifier | None" = None,
        login: "IssuerLogin | None" = None,
    ) -> None:
        self.login = login
        self._connections = connections
        self._tokens = tokens
        self._rates = rates
        self._attempts = FailedAttempts()

    async def find(self, request: Request, scope: Scope) -> ApiCaller:
        """Return the caller.

        Raises UntrustedPeer, TooManyAttempts, KeyMissing, TokenInvalid, RateExceeded, or
        NotPermitted.
        """
        given = request.headers.get("authorization", "")
        return self.permit(await self.identify(request, given), scope)

    async def identify(self, request: Request, given: str) -> ApiCaller:
        """Return whose key or token was given, as in `Authorization`; wrong ones are counted.

        Raises UntrustedPeer, KeyMissing, TokenInvalid, or for these two TooManyAttempts.
        """
        require_trusted(request)
        try:
            return await self._find(request, given)
        except (KeyMissing, TokenInvalid):
            if given:
                self._attempts.count(_address_of(request))
            raise

    async def identify_login(
        self, request: Request, login: "IssuerLogin", attempt: "LoginAttempt", code: str, back: str
    ) -> ApiCaller:
        """Return who signed in at an issuer; codes that it refuses are counted as wrong keys are.

        Raises TokenInvalid, Unavailable, or TooManyAttempts.
        """
        address = _address_of(request)
        async with self._attempts.turn(address):
            try:
                claims = await login.redeem(code, attempt, back)
                async with self._connections.lend() as connection:
                    return await login.find_caller(connection, claims, attempt)
            except TokenInvalid:
                self._attempts.count(address)
                raise

    def permit(self, caller: ApiCaller, scope: Scope) -> ApiCaller:
        """Return a caller that has a scope, and count its request.

        Raises RateExceeded or NotPermitted.
        """
        self._rates.take(caller.actor_no, caller.rate)
        if scope not in caller.scopes:
            what = "token" if caller.is_token else "key"
            message = f"The {what} lacks the scope `{scope}`. Use one that has it."
            raise NotPermitted(message, scope=scope)
        return caller

    async def _find(self, request: Request, given: str) -> ApiCaller:
        text = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else ""
        if self._tokens is not None and text and not text.startswith(KEY_BEGIN):
            claims = await self._claims_of(request, text, self._tokens)
            async with self._connections.lend() as connection:
                return await self._tokens.find_caller(connection, claims)
        if text:
            async with (
                self._attempts.turn(_address_of(request)),
                self._connections.lend() as connection,
            ):
                caller = await authenticate(connection, text)
                if caller is not None:
                    return caller
        raise KeyMissing("No valid API key. Send one as `Authorization: Bearer KEY`.")

    async def _claims_of(
        self, request: Request, text: str, tokens: "TokenVerifier"
    ) -> Mapping[str, Any]:
        """Return what a token says; it is verified once for a request, however long that waits.

        Nobody else may wait while keys of its issuer are fetched, as in the loop of polls.
        """
        known: tuple[str, Mapping[str, Any]] | None = getattr(request.state, "token", None)
        if known is None or known[0] != text:
            request.state.token = known = text, await tokens.read(text)
        return known[1]


def _address_of(request: Request) -> str:
    return request.client.host if request.client else ""
