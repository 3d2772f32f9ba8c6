"""An issuer that is certified for OpenID Connect, in a process of its own: tools/issuer."""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote_plus, urlencode, urljoin, urlsplit

import aiohttp

import dueledger
from tests.service.issuer import AUDIENCE, CLIENT

FOLDER: Final = Path(dueledger.__file__).resolve().parents[1] / "tools" / "issuer"
PACKAGE: Final = "node_modules/oidc-provider"
LOCK: Final[dict[str, Any]] = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
VERSION: Final[str] = LOCK["packages"][PACKAGE]["version"]
MISSING: Final = f"no oidc-provider {VERSION} in tools/issuer, or no `node`: `make clients`"
CALLBACK: Final = "/console/sign-in/callback"
CLIENTS: Final[list[dict[str, Any]]] = [
    {
        "client_id": CLIENT["id"],
        "client_secret": CLIENT["secret"],
        "application_type": "native",  # redirected to any port of loopback (RFC 8252, 7.3)
        "redirect_uris": [f"http://127.0.0.1{CALLBACK}"],
    },
    {
        "client_id": "desk",
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": ["http://127.0.0.1/done"],
    },
    {
        "client_id": "billing",
        "client_secret": "secret of billing",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
    },
]
"""The console, an application of people, and a program."""

_PAGES_MAX: Final = 10
_FORM: Final = re.compile(r'<form [^>]*action="([^"]+)".*?name="prompt" value="(\w+)"', re.DOTALL)


def is_missing() -> bool:
    """Return whether the issuer cannot be run, as it is pinned."""
    installed = FOLDER / PACKAGE / "package.json"
    if shutil.which("node") is None or not installed.exists():
        return True
    return json.loads(installed.read_text("utf-8"))["version"] != VERSION


@dataclass(frozen=True)
class CertifiedIssuer:
    """The issuer at `url`."""

    url: str
    process: Process

    async def set_clock(self, seconds: int) -> None:
        """Set its clock so far from that of the machine."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n".encode())
        line = await self.process.stdout.readline()
        assert line == f"{seconds}\n".encode(), line

    async def sign_in(self, session: aiohttp.ClientSession, address: str, name: str) -> str:
        """Sign in on its pages, and agree; return the address to which it sends the browser."""
        for _ in range(_PAGES_MAX):
            if not address.startswith(f"{self.url}/"):
                return address
            async with session.get(address, allow_redirects=False) as shown:
                found = _FORM.search(await shown.text())
                leads_to = shown.headers.get("Location", "")
            if found is not None:
                fields = {"prompt": found[2], "login": name, "password": "any"}
                async with session.post(found[1], data=fields, allow_redirects=False) as sent:
                    leads_to = sent.headers["Location"]
            address = urljoin(address, leads_to)
        message = f"the issuer shows page after page: {address}"
        raise AssertionError(message)

    async def tokens_of_person(self, session: aiohttp.ClientSession, name: str) -> dict[str, Any]:
        """Return the tokens that an application has of a person, by the code flow with PKCE."""
        verifier, back = secrets.token_urlsafe(32), "http://127.0.0.1:9/done"
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "client_id": "desk",
            "response_type": "code",
            "redirect_uri": back,
            "scope": "openid offline_access read",
            "prompt": "consent",
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        ended = await self.sign_in(session, f"{self.url}/auth?{urlencode(asked)}", name)
        [code] = parse_qs(urlsplit(ended).query)["code"]
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
        return await self.ask(session, {**given, "client_id": "desk", "code_verifier": verifier})

    async def token_of_program(
        self, session: aiohttp.ClientSession, scope: str = "read", resource: str = AUDIENCE
    ) -> str:
        """Return the token of a program, for a service."""
        pair = ":".join(quote_plus(CLIENTS[2][name]) for name in ("client_id", "client_secret"))
        basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
        asked = {"grant_type": "client_credentials", "scope": scope, "resource": resource}
        return (await self.ask(session, asked, {"Authorization": basic}))["access_token"]

    async def ask(
        self,
        session: aiohttp.ClientSession,
        fields: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask for tokens."""
        async with session.post(f"{self.url}/token", data=fields, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()


@asynccontextmanager
async def open_certified_issuer() -> AsyncGenerator[CertifiedIssuer]:
    """Run the issuer for the block."""
    given = json.dumps({"audience": AUDIENCE, "tenants": ["acme"], "clients": CLIENTS})
    process = await asyncio.create_subprocess_exec(
        *("node", FOLDER / "issuer.mjs", given), stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        assert url, "the issuer did not start"
        yield CertifiedIssuer(url, process)
    finally:
        process.stdin.close()
        await process.wait()
