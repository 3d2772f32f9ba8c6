"""An OpenID Connect issuer on loopback: keys, the code flow, and tokens as a test wants."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus, urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

AUDIENCE = "https://due.example.com"
LOOPBACK = ["127.0.0.0/8"]
CLIENT = {"id": "due:console", "secret": "kept % between two"}
CLAIMS: dict[str, object] = {"sub": "jane", "scope": "openid read emit", "tenants": ["acme"]}


class Issuer:
    """The issuer at `url`, which signs by `key` and publishes it."""

    def __init__(self) -> None:
        self.url = ""
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.published: list[Mapping[str, Any]] = [self.key.as_dict(private=False)]
        self.fetches = 0
        self.is_down = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, object] = {}
        """Of the next token by a code, beside those of its sign-in."""
        self.method = "client_secret_basic"
        self.refuses_codes = False

    def token(self, key: RSAKey | ECKey | None = None, alg: str = "RS256", **claims: object) -> str:
        """Return a token of `CLAIMS` and these; a claim that is None is left out."""
        signing = key or self.key
        now = int(datetime.now(UTC).timestamp())  # noqa: TID251 - an issuer has a clock of its own
        given = {"iss": self.url, "aud": AUDIENCE, "exp": now + 600, "iat": now, **CLAIMS, **claims}
        kept = {name: value for name, value in given.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": signing.kid}, kept, signing, [alg])

    def rotate(self) -> None:
        """Sign by another key, and publish it beside the first."""
        self.key = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})
        self.published.append(self.key.as_dict(private=False))

    async def discover(self, _: web.Request) -> web.Response:
        if self.is_down:
            raise web.HTTPServiceUnavailable
        return web.json_response(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize?realm=staff",
                "token_endpoint": f"{self.url}/token",
                "token_endpoint_auth_methods_supported": [self.method],
            }
        )

    async def authorize(self, request: web.Request) -> web.Response:
        """Send the browser back with a code: everybody is signed in here."""
        asked = dict(request.query)
        assert (asked["realm"], asked["response_type"]) == ("staff", "code")
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT["id"], "S256")
        assert "openid" in asked["scope"].split()
        code = secrets.token_hex(8)
        self.codes[code] = asked
        answer = urlencode({"code": code, "state": asked["state"], "iss": self.url})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{answer}")

    async def redeem(self, request: web.Request) -> web.Response:
        """Give the token of a code, once, to its client, which has its verifier."""
        if self.is_down:
            raise web.HTTPServiceUnavailable
        given = {name: str(value) for name, value in (await request.post()).items()}
        asked = self.codes.pop(given["code"], None)
        if self.method == "client_secret_basic":
            pair = base64.b64decode(request.headers["Authorization"].removeprefix("Basic "))
            given["client_id"], given["client_secret"] = map(unquote_plus, pair.decode().split(":"))
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        is_valid = (
            asked is not None
            and not self.refuses_codes
            and (given["client_id"], given["client_secret"]) == (CLIENT["id"], CLIENT["secret"])
            and given["redirect_uri"] == asked["redirect_uri"]
            and base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        )
        if asked is None or not is_valid:
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims: dict[str, Any] = {"aud": CLIENT["id"], "nonce": asked["nonce"], **self.claims}
        return web.json_response({"id_token": self.token(**claims), "token_type": "Bearer"})

    async def publish(self, _: web.Request) -> web.Response:
        self.fetches += 1
        await self.answers.wait()
        others = [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}, {"kty": "future", "kid": "x"}]
        return web.json_response({"keys": [*others, *self.published]})


@asynccontextmanager
async def open_issuer() -> AsyncGenerator[Issuer]:
    issuer, app = Issuer(), web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.discover)
    app.router.add_get("/keys", issuer.publish)
    app.router.add_get("/authorize", issuer.authorize)
    app.router.add_post("/token", issuer.redeem)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    issuer.url = f"http://{host}:{port}"
    try:
        yield issuer
    finally:
        await runner.cleanup()


def login_at(issuer: str) -> dict[str, object]:
    """Return the settings of a service whose people sign in at an issuer."""
    return {
        **oidc(issuer),
        "service_oidc_client_id": CLIENT["id"],
        "service_oidc_client_secret": CLIENT["secret"],
        "service_oidc_login_scopes": "openid due",
    }


def oidc(issuer: str) -> dict[str, object]:
    """Return the settings of a service that takes the tokens of an issuer."""
    return {
        "service_oidc_issuer": issuer,
        "service_oidc_audience": AUDIENCE,
        "service_oidc_networks": LOOPBACK,
        "service_trusted_proxies": LOOPBACK,
    }
