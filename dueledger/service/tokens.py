"""Tokens of an OpenID Connect issuer: which claims are needed, and what they permit."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ClaimError,
    ExpiredTokenError,
    InvalidKeyIdError,
    JoseError,
    UnsupportedAlgorithmError,
)
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from dueledger.ledger.errors import TokenInvalid
from dueledger.ledger.identity import TENANT_SHAPE
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import ApiCaller, Scope, find_actor
from dueledger.service.issuer_keys import IssuerKeys
from dueledger.service.settings import ServiceSettings

PREFIX: Final = "oidc:"
"""Of an actor that is the subject of tokens."""
TOKEN_CHARS_MAX: Final = 8_192
TENANTS_MAX: Final = 1_000
LEEWAY_SECONDS: Final = 30
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Of two keys each: a public key can never be taken for a shared secret."""

_REGISTRY: Final = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
_SUBJECT: Final = re.compile(r"[!-~]{1,255}")
_KNOWN: Final = frozenset(Scope)


class TokenVerifier:
    """Accepts tokens of one issuer for one audience."""

    def __init__(self, settings: ServiceSettings, keys: IssuerKeys) -> None:
        self._keys = keys
        self._issuer = settings.service_oidc_issuer or ""
        self._needed = {"aud": required(settings.service_oidc_audience or "")}
        self._scopes_claim = settings.service_oidc_scopes_claim
        self._tenants_claim = settings.service_oidc_tenants_claim
        self._every_tenant = settings.service_oidc_every_tenant

    async def read(self, text: str) -> Mapping[str, Any]:
        """Return the claims of a token that the issuer signed. Raises TokenInvalid, Unavailable."""
        if len(text) > TOKEN_CHARS_MAX:
            raise TokenInvalid(f"longer than {TOKEN_CHARS_MAX:,} characters")
        try:
            return _claims(text, await self._keys.read())
        except InvalidKeyIdError:
            keys = await self._keys.read(has_unknown=True)
        try:
            return _claims(text, keys)
        except InvalidKeyIdError:
            raise TokenInvalid("signed by a key that the issuer has not published") from None

    async def find_caller(
        self,
        connection: Connection,
        claims: Mapping[str, Any],
        needed: Mapping[str, jwt.ClaimsOption] | None = None,
    ) -> ApiCaller:
        """Return for whom and for what a token is, at the ledger's time.

        `needed` are claims of tokens that are not for requests. Raises TokenInvalid.
        """
        subject = claims.get("sub")
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            raise TokenInvalid("without a subject (`sub`) of 1 to 255 visible characters of ASCII")
        name = f"{PREFIX}{subject}"
        actor_no, now = await find_actor(connection, name)
        self._check(claims, int(now.timestamp()), needed or self._needed)
        scopes, tenants = self._scopes(claims), self._tenants(claims)
        if actor_no is None:
            actor_no = await register_actor(connection, name, ActorKind.OIDC)
        return ApiCaller(name, actor_no, tenants, scopes, is_token=True)

    def _check(
        self, claims: Mapping[str, Any], now: int, needed: Mapping[str, jwt.ClaimsOption]
    ) -> None:
        issued = {"iss": required(self._issuer), "exp": required()}
        registry = jwt.JWTClaimsRegistry(now, LEEWAY_SECONDS, **issued, **needed)
        try:
            registry.validate(dict(claims))
        except ExpiredTokenError:
            raise TokenInvalid("expired") from None
        except ClaimError as error:
            raise TokenInvalid(f"not for this service: see its claim `{error.claim}`") from None

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        """Return the scopes of a token; those of other services are passed over."""
        return frozenset(map(Scope, _KNOWN.intersection(_texts(claims.get(self._scopes_claim)))))

    def _tenants(self, claims: Mapping[str, Any]) -> Sequence[str] | None:
        named = _texts(claims.get(self._tenants_claim))
        if self._every_tenant in named:
            return None
        if not named or len(named) > TENANTS_MAX or not all(map(TENANT_SHAPE.fullmatch, named)):
            raise TokenInvalid(f"without a tenant in its claim `{self._tenants_claim}`")
        return sorted(set(named))


def required(value: str | None = None) -> jwt.ClaimsOption:
    """Return that a claim is needed; with a value, that one, or a list that has it."""
    return {"essential": True} if value is None else {"essential": True, "value": value}


def _claims(text: str, keys: KeySet) -> Mapping[str, Any]:
    """Return what a token says, if one of the keys signed it.

    Raises InvalidKeyIdError if it was signed by another, and TokenInvalid.
    """
    try:
        return jwt.decode(text, keys, registry=_REGISTRY).claims
    except InvalidKeyIdError:
        raise
    except BadSignatureError:
        raise TokenInvalid("not signed by the issuer, or changed since") from None
    except UnsupportedAlgorithmError:
        raise TokenInvalid("signed by an algorithm that is not accepted") from None
    except (JoseError, ValueError, TypeError, RecursionError):
        raise TokenInvalid("no signed JSON Web Token (RFC 7519)") from None


def _texts(value: object) -> list[str]:
    """Return the texts of a list, or the words of a text."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [each for each in cast("list[object]", value) if isinstance(each, str)]
    return []
