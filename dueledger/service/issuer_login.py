"""Sign-in at an OpenID Connect issuer: the code flow (OpenID Connect Core 1.0, 3.1), by PKCE."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote_plus, urlencode

from pydantic import BaseModel, ValidationError

from dueledger.ledger.definitions.http_url import InvalidUrl, read_url
from dueledger.ledger.errors import TokenInvalid, Unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import ApiCaller
from dueledger.service.issuer_keys import FETCH_SECONDS, Discovery, IssuerKeys
from dueledger.service.settings import ServiceSettings
from dueledger.service.tokens import TokenVerifier, required
from dueledger.workers.http.allow_list import TargetRefused
from dueledger.workers.http.client import RequestFailed
from dueledger.workers.http.exchange import HttpRequest

if TYPE_CHECKING:
    from joserfc import jwt

CODE_CHARS_MAX: Final = 4_096
_SECRET_BYTES: Final = 32
_SECRET_CHARS: Final = 43
_OK: Final = 200
_REFUSED: Final = frozenset({400, 401, 403})
_FORM: Final = "application/x-www-form-urlencoded"

log = get_logger("service")


class _Reply(BaseModel):
    id_token: str


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A sign-in that the browser began, whose secret it keeps until the issuer sends it back."""

    secret: str

    def __repr__(self) -> str:
        return "LoginAttempt()"

    @classmethod
    def begin(cls) -> Self:
        """Return a new one."""
        return cls(secrets.token_urlsafe(_SECRET_BYTES))

    @classmethod
    def read(cls, kept: str) -> Self | None:
        """Return the one that a browser kept; None if it kept none."""
        return cls(kept) if len(kept) == _SECRET_CHARS and kept.isascii() else None

    @property
    def state(self) -> str:
        """Return what the issuer sends back with the browser: another's answer has not it."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Return what the token must have: one of another sign-in has not it."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Return what redeems the code (RFC 7636): who intercepts it has not it."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """Return the digest of the verifier, by the method S256."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _derived(self, name: str) -> str:
        return hmac.digest(self.secret.encode(), name.encode(), hashlib.sha256).hex()


class IssuerLogin:
    """Signs people in at one issuer, as one of its clients."""

    def __init__(
        self, settings: ServiceSettings, client_id: str, keys: IssuerKeys, tokens: TokenVerifier
    ) -> None:
        self.issuer = settings.service_oidc_issuer or ""
        self._client_id = client_id
        self._client_secret = settings.service_oidc_client_secret
        self._scopes = settings.service_oidc_login_scopes
        self._keys = keys
        self._tokens = tokens

    @property
    def host(self) -> str:
        """Return the host of the issuer, as people know it."""
        return read_url(self.issuer).host

    async def address(self, attempt: LoginAttempt, back: str) -> str:
        """Return where a browser signs in; the issuer sends it to the address `back`.

        Raises Unavailable.
        """
        address = (await self._keys.discover()).authorization_endpoint
        if address is None or not self._is_safe(address):
            raise self._unavailable("its discovery document has no safe authorization_endpoint")
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": back,
            "scope": self._scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    async def redeem(self, code: str, attempt: LoginAttempt, back: str) -> Mapping[str, Any]:
        """Return the claims of the token for which the issuer takes a code.

        Raises TokenInvalid if it takes it not, or no more; Unavailable.
        """
        if not 0 < len(code) <= CODE_CHARS_MAX:
            raise TokenInvalid("not given: the issuer sent no code")
        discovery = await self._keys.discover()
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": attempt.verifier,
        }
        headers = {"Accept": "application/json", "Content-Type": _FORM}
        self._authenticate(discovery, fields, headers)
        body = await self._post(discovery.token_endpoint or "", fields, headers)
        try:
            return await self._tokens.read(_Reply.model_validate_json(body).id_token)
        except ValidationError:
            raise self._unavailable("its answer has no id_token") from None

    async def find_caller(
        self, connection: Connection, claims: Mapping[str, Any], attempt: LoginAttempt
    ) -> ApiCaller:
        """Return who signed in by an attempt, by the claims of its token. Raises TokenInvalid."""
        needed: dict[str, jwt.ClaimsOption] = {
            "aud": required(self._client_id),
            "azp": {"value": self._client_id},
            "nonce": required(attempt.nonce),
        }
        return await self._tokens.find_caller(connection, claims, needed)

    def _authenticate(
        self, discovery: Discovery, fields: dict[str, str], headers: dict[str, str]
    ) -> None:
        """Add the client and its secret, as the issuer takes them (RFC 6749, 2.3.1)."""
        if self._client_secret is None:
            fields["client_id"] = self._client_id
            return
        secret = self._client_secret.get_secret_value()
        if "client_secret_basic" in discovery.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(self._client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            fields |= {"client_id": self._client_id, "client_secret": secret}

    async def _post(self, address: str, fields: dict[str, str], headers: dict[str, str]) -> bytes:
        body = urlencode(fields).encode()
        try:
            request = HttpRequest("POST", read_url(address), headers, body, FETCH_SECONDS)
            response = await self._keys.client.send(request)
        except (InvalidUrl, RequestFailed, TargetRefused) as error:
            raise self._unavailable(str(error)) from None
        if response.status in _REFUSED:
            raise TokenInvalid("not given: the issuer refuses the code, or this client")
        if response.status != _OK or not response.is_whole:
            raise self._unavailable(f"{request.url.shown} answered {response.status}")
        return response.body

    def _is_safe(self, address: str) -> bool:
        try:
            url = read_url(address)
        except InvalidUrl:
            return False
        return url.scheme == "https" or url.origin == read_url(self.issuer).origin

    def _unavailable(self, reason: str) -> Unavailable:
        log.warning(LogEvent.ISSUER_FAILED, issuer=self.issuer, reason=reason)
        message = "The issuer does not sign people in now. Try again, or use an API key."
        return Unavailable(message, service="OpenID Connect issuer")
