"""The keys by which an OpenID Connect issuer signs: fetched as its discovery document says."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Annotated, Any, Final, TypeVar

from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import JWKRegistry, Key, KeySet
from pydantic import BaseModel, Field, ValidationError

from dueledger.ledger.definitions.http_url import HttpUrl, InvalidUrl, read_url
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.service.settings import ServiceSettings
from dueledger.workers.http.allow_list import AllowedOrigin, AllowList, TargetRefused
from dueledger.workers.http.client import HttpClient, RequestFailed
from dueledger.workers.http.exchange import HttpRequest

KEYS_SECONDS: Final = 600.0
KEYS_SECONDS_MAX: Final = 3_600.0
"""How long keys are used while the issuer does not answer."""
UNKNOWN_KEY_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
FETCH_SECONDS: Final = 5.0
KEYS_MAX: Final = 100
_DISCOVERY: Final = "/.well-known/openid-configuration"
_OK: Final = 200
_PUBLIC_TYPES: Final = frozenset({"RSA", "EC", "OKP"})

log = get_logger("service")


_Document = TypeVar("_Document", bound=BaseModel)


class Discovery(BaseModel):
    """What is read of an issuer's discovery document (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    token_endpoint_auth_methods_supported: Sequence[str] = ("client_secret_basic",)


class _Keys(BaseModel):
    keys: Annotated[list[dict[str, Any]], Field(max_length=KEYS_MAX)]


class _IssuerFailed(Exception):
    """The issuer gave no keys."""


class IssuerKeys:
    """The public keys of an issuer, kept for ten minutes.

    They are fetched beside the requests: only one that cannot be answered without them waits.
    """

    def __init__(
        self, client: HttpClient, issuer: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self.client = client
        self._issuer = issuer
        self._clock = clock
        self._keys: KeySet | None = None
        self._discovery: Discovery | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def read(self, *, has_unknown: bool = False) -> KeySet:
        """Return the keys. For an unknown one they are fetched again, at most once a minute.

        Raises Unavailable if the issuer has not given any for an hour.
        """
        if self._fetching is None and self._is_due(has_unknown=has_unknown):
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._refresh())
        if self._fetching is not None and (has_unknown or not self._is_usable()):
            await asyncio.wait({self._fetching})
        if self._keys is None or not self._is_usable():
            message = "The issuer of tokens gives no keys. Try again, or use an API key."
            raise Unavailable(message, service="OpenID Connect issuer")
        return self._keys

    async def discover(self) -> Discovery:
        """Return the document that named the keys. Raises Unavailable as `read` does."""
        await self.read()
        if self._discovery is None:
            raise RuntimeError("there are keys that no document named")
        return self._discovery

    async def close(self) -> None:
        """End a fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})

    def _is_usable(self) -> bool:
        return self._keys is not None and self._clock() - self._fetched_at < KEYS_SECONDS_MAX

    def _is_due(self, *, has_unknown: bool) -> bool:
        now = self._clock()
        is_old = now - self._fetched_at >= KEYS_SECONDS
        wait = RETRY_SECONDS if is_old else UNKNOWN_KEY_SECONDS
        return (has_unknown or is_old) and now - self._tried_at >= wait

    async def _refresh(self) -> None:
        try:
            self._keys = await self._fetch()
        except _IssuerFailed as error:
            log.warning(LogEvent.ISSUER_FAILED, issuer=self._issuer, reason=str(error))
        else:
            self._fetched_at = self._tried_at
        finally:
            self._fetching = None

    async def _fetch(self) -> KeySet:
        discovery = await self._get(self._issuer.rstrip("/") + _DISCOVERY, Discovery)
        if discovery.issuer != self._issuer:
            raise _IssuerFailed("its discovery document names another issuer")
        given = (await self._get(discovery.jwks_uri, _Keys)).keys
        usable = [key for key in map(_read_key, given) if key is not None]
        if not usable:
            raise _IssuerFailed("it has no public key that can be used")
        self._discovery = discovery
        return KeySet(usable)

    async def _get(self, address: str, model: type[_Document]) -> _Document:
        try:
            request = HttpRequest("GET", read_url(address), {}, None, FETCH_SECONDS)
            response = await self.client.send(request)
            if response.status != _OK or not response.is_whole:
                raise _IssuerFailed(f"{request.url.shown} answered {response.status}")
            return model.model_validate_json(response.body)
        except ValidationError:
            raise _IssuerFailed(f"{model.__name__.lstrip('_')}: cannot be read") from None
        except (InvalidUrl, RequestFailed, TargetRefused) as error:
            raise _IssuerFailed(str(error)) from None


def _read_key(given: dict[str, Any]) -> Key | None:
    """Return a public key; None for one that is not for signatures, or not understood."""
    if given.get("use", "sig") != "sig" or given.get("kty") not in _PUBLIC_TYPES:
        return None
    try:
        with warnings.catch_warnings(action="error", category=SecurityWarning):  # as of 1,024 bits
            return JWKRegistry.import_key(given)
    except (JoseError, SecurityWarning, ValueError, TypeError, KeyError):
        return None


@asynccontextmanager
async def open_issuer_keys(settings: ServiceSettings, issuer: str) -> AsyncGenerator[IssuerKeys]:
    """Fetch keys for the block: from the issuer, and by https from where it has them."""
    async with HttpClient(_guard(settings, read_url(issuer))) as client:
        keys = IssuerKeys(client, issuer)
        try:
            yield keys
        finally:
            await keys.close()


def _guard(settings: ServiceSettings, issuer: HttpUrl) -> AllowList:
    own = AllowedOrigin(issuer.scheme, issuer.host, issuer.port)
    return AllowList([own, AllowedOrigin("https", "*", None)], settings.service_oidc_networks)
