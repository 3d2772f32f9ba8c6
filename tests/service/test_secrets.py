"""No key, token, password or signing secret is in a log line, an error answer or an entry."""

import asyncio
import json
import re
import secrets
from base64 import b64encode
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import aiohttp
import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope, create_key
from tests.forks import ForkServer
from tests.logins import LOGINS
from tests.service.commands import address_of, start
from tests.service.conftest import SCHEDULE
from tests.service.issuer import CLIENT, Issuer, login_at

PARAMETER = re.compile(r"\{(\w+)\}")
NAMED = {"item": "0051a6f5-4d2a-8c11-9d3e-7b0a86f0f6d1", "prefix": "0" * 16, "operation": "1"}
"""What paths name; any other parameter is the tenant acme, or a name of that kind."""
STORED = """
select string_agg(x.text, ' ') from (
  select a::text from ledger.audit a union all select r::text from ledger.rejected_write r
  union all select p::text from ledger.process p union all select c::text from ledger.actor c
  union all select n::text from ledger.api_answer n) x (text)
"""


async def _sign_in_with(url: str, session: aiohttp.ClientSession, code: str) -> str:
    """Begin to sign in at the issuer and come back with a code; return what the page says."""
    async with session.get(f"{url}/issuer", allow_redirects=False) as begun:
        [state] = parse_qs(urlsplit(begun.headers["Location"]).query)["state"]
        kept = begun.headers["Set-Cookie"].partition(";")[0]
    back = f"{url}/callback?{urlencode({'code': code, 'state': state})}"
    async with session.get(back, headers={"Cookie": kept, "Accept": "text/html"}) as reply:
        assert reply.status in {403, 503}
        return await reply.text()


async def _ask_each_route(
    url: str, session: aiohttp.ClientSession, credentials: list[str], given: list[str]
) -> list[str]:
    """Ask each operation with each Authorization; return the answers that are errors."""
    async with session.get(f"{url}/openapi.json") as reply:
        paths = (await reply.json())["paths"]
    errors: list[str] = []
    finding = NAMED["item"]
    for path, methods in paths.items():
        named = PARAMETER.sub(lambda found: NAMED.get(found[1], "acme"), path)
        named = named.replace("findings/acme", f"findings/{finding}")
        for method in methods:
            for number, header in enumerate(credentials):
                headers = {
                    "Authorization": header,
                    "Idempotency-Key": f"{path} {number}",
                    "X-Forwarded-Proto": "https",
                    "X-Forwarded-For": f"203.0.113.{len(errors) % 250}",
                }
                query = {"api_key": given[0]} if number % 2 else None
                body = {"reason": "INC-1"} if method != "get" else None
                async with session.request(
                    method, url + named, headers=headers, params=query, json=body
                ) as reply:
                    if reply.status >= 400:
                        errors.append(f"{reply.headers} {await reply.text()}")
    return errors


@dataclass(frozen=True)
class Login:
    """A login to Postgres, its password, and the ledger's address with both."""

    name: str
    password: str
    dsn: str


@pytest.fixture
async def login(database: str, connection: Connection) -> AsyncGenerator[Login]:
    """The login of a service, with a password of its own."""
    login, password = f"sealed_{secrets.token_hex(4)}", secrets.token_hex(16)
    roles = ", ".join(f"ledger_{role}" for role in LOGINS["service"])
    await connection.execute(
        f"create role {login} login password '{password}' in role {roles}, ledger_simulator"
    )
    place = urlsplit(database)
    where = place.netloc.rpartition("@")[2]
    dsn = urlunsplit(place._replace(netloc=f"{login}:{password}@{where}"))
    yield Login(login, password, dsn)
    await connection.execute(f"drop owned by {login}; drop role {login}")


async def test_no_secret_is_in_a_log_an_error_or_a_row(
    fork_server: ForkServer, login: Login, connection: Connection, issuer: Issuer
) -> None:
    signing = f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"
    person_no = await register_actor(connection, "person:test", ActorKind.PERSON)
    made = await create_key(
        connection,
        "key:all",
        scopes=list(Scope),
        tenants=["acme"],
        expires_at=None,
        created_by=person_no,
    )
    assert made is not None
    token = issuer.token(scope=" ".join(Scope))
    forged = f"{token[:-20]}{secrets.token_urlsafe(15)}"
    unknown = f"due_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    keys = [text.split("_", 2)[2] for text in (made.text, unknown)]
    basic = b64encode(f"jane:{login.password}".encode()).decode()
    known = [*keys, *(text.rpartition(".")[2] for text in (token, forged))]
    code = secrets.token_hex(16)
    known += [login.password, signing[6:], basic, CLIENT["secret"], code]
    variables = {
        f"DUELEDGER_{name}".upper(): value if isinstance(value, str) else json.dumps(value)
        for name, value in login_at(issuer.url).items()
    } | {
        "DUELEDGER_HTTP_SECRETS": json.dumps({"acme/renewals": signing}),
        "DUELEDGER_ALERT_WEBHOOK_SECRET": signing,
    }
    serving = await start(fork_server, login.dsn, "serve", "--port", "0", **variables)
    try:
        url, log = await address_of(serving)
        rest = asyncio.create_task(serving.communicate())
        sent = [f"Bearer {made.text}", f"Bearer {token}", f"Bearer {forged}", f"Bearer {unknown}"]
        sent += [f"Basic {basic}", made.text, f"Bearer {made.text} {token}", f"bearer{made.text}"]
        async with aiohttp.ClientSession() as session:
            errors = await _ask_each_route(url, session, sent, [made.text])
            own = {"Authorization": sent[0]}
            errors.append(await _sign_in_with(f"{url}/console/sign-in", session, code))
            issuer.is_down = True
            errors.append(await _sign_in_with(f"{url}/console/sign-in", session, code))
            issuer.is_down = False
            http = {
                "url": f"https://jane:{login.password}@example.com/?{signing}",
                "secret": signing,
            }
            dispatch = {**SCHEDULE, "dispatch": {"http": http}}
            target = f"{url}/v1/definitions/acme/leaks"
            async with session.put(target, json=dispatch, headers=own) as reply:
                assert reply.status == 422
                errors.append(await reply.text())
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1",
                login.name,
            )
            await connection.execute("alter table ledger.pause rename column reason to hidden")
            for _ in range(3):
                async with session.get(f"{url}/v1/pauses", headers=own) as reply:
                    assert reply.status >= 500
                    errors.append(await reply.text())
    finally:
        serving.terminate()
    log += (await rest).decode()
    stored = await connection.fetchval(STORED)
    assert (len(errors) > 200, "request.failed" in log, "pauseFlows" in stored) == (True,) * 3
    text = "\n".join((log, *errors, stored))
    for secret in known:
        assert secret not in text, text[max(0, text.index(secret) - 300) :][:400]
    assert signing not in text
