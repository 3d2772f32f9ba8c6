"""An OpenID Connect issuer on loopback: discovery and keys by HTTP, and tokens as a test wants."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

AUDIENCE = "https://due.example.com"
LOOPBACK = ["127.0.0.0/8"]
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
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

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


def oidc(issuer: str) -> dict[str, object]:
    """Return the settings of a service that takes the tokens of an issuer."""
    return {
        "service_oidc_issuer": issuer,
        "service_oidc_audience": AUDIENCE,
        "service_oidc_networks": LOOPBACK,
        "service_trusted_proxies": LOOPBACK,
    }
