"""Tokens of an OpenID Connect issuer beside API keys: whom they name, and which are refused."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from ipaddress import ip_network
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from joserfc.jwk import ECKey, RSAKey
from pydantic import SecretStr

from dueledger.console import open_console
from dueledger.ledger.errors import InvalidSetting, Unavailable
from dueledger.ledger.runtime.setting_problems import read_settings
from dueledger.ledger.store.api_keys import Scope
from dueledger.service import ServiceSettings
from dueledger.service.attempts import FAILURES_MAX
from dueledger.service.issuer_keys import (
    KEYS_SECONDS,
    KEYS_SECONDS_MAX,
    UNKNOWN_KEY_SECONDS,
    IssuerKeys,
)
from dueledger.service.tokens import TOKEN_CHARS_MAX
from dueledger.workers.http.allow_list import AllowList, read_origin
from dueledger.workers.http.client import HttpClient
from tests.console.conftest import open_browser
from tests.databases import MakeDatabase
from tests.service.certified_issuer import FOLDER, LOCK, VERSION
from tests.service.conftest import Api, open_api
from tests.service.issuer import AUDIENCE, LOOPBACK, Issuer, login_at, oidc, open_issuer
from tests.service.test_requests import NO_ITEM, problem


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase, issuer: Issuer) -> AsyncGenerator[Api]:
    async with open_api(make_database, **oidc(issuer.url)) as opened:
        yield opened


async def test_a_token_acts_for_its_tenants_in_the_name_of_its_subject(
    api: Api, issuer: Issuer
) -> None:
    token = issuer.token()
    body = {"items": [api.item("P-own")]}
    own, again = [await api.ask("POST", "/v1/items", key=token, body=body) for _ in range(2)]
    assert (own.status, again.status) == (200, 200), own.text
    [item] = [each["id"] for each in own.document["items"]]
    assert (await api.ask("GET", f"/v1/items/{item}", key=token)).status == 200
    actor = await api.owner.fetchrow(
        "select a.name, a.kind from ledger.due_item i join ledger.actor a using (actor_no)"
        " where i.id = $1::text::uuid",
        item,
    )
    assert actor is not None
    assert tuple(actor) == ("oidc:jane", "oidc")
    other = {"items": [api.item("P-other", tenant="umbra")]}
    problem(await api.ask("POST", "/v1/items", key=token, body=other), 403, "NOT_PERMITTED")
    every = issuer.token(tenants="*")  # of the same subject, at the same time
    made = await api.ask("POST", "/v1/items", key=every, body=other)
    assert made.status == 200, made.text
    hidden = f"/v1/items/{made.document['items'][0]['id']}"
    problem(await api.ask("GET", hidden, key=token), 404, "NOT_FOUND")
    assert (await api.ask("GET", hidden, key=every)).status == 200
    problem(await api.ask("GET", "/v1/keys", key=token), 403, "NOT_PERMITTED")


async def test_terms_of_an_item_are_compared_for_the_tenants_of_the_token_alone(
    api: Api, issuer: Issuer
) -> None:
    token = issuer.token(tenants="acme umbra")
    await api.ask("POST", "/v1/items", key=token, body={"items": [api.item("P-terms")]})
    changed = {"items": [api.item("P-terms", due_at="2026-01-02T09:00:00Z")]}
    found = problem(
        await api.ask("POST", "/v1/items", key=token, body=changed), 409, "KEY_CONFLICT"
    )
    assert [each.pointer for each in found.errors] == ["/items/0/due_at"]


async def test_an_api_key_is_valid_beside_tokens(api: Api) -> None:
    key = await api.make_key("beside", Scope.READ)
    problem(await api.ask("GET", NO_ITEM, key=key), 404, "NOT_FOUND")
    problem(await api.ask("GET", NO_ITEM, key=key.text[:-1] + "!"), 401, "KEY_MISSING")


def encoded(content: bytes | Mapping[str, object]) -> str:
    given = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(given).rstrip(b"=").decode()


def altered(issuer: Issuer) -> str:
    header, claims, signature = issuer.token().split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"tenants": "*"}
    return ".".join((header, encoded(changed), signature))


def without_signature(issuer: Issuer) -> str:
    claims = issuer.token().split(".")[1]
    return f"{encoded({'alg': 'none', 'kid': 'first'})}.{claims}."


def confused(issuer: Issuer) -> str:
    """Return a token signed by the public key as if it were a shared secret."""
    claims = issuer.token().split(".")[1]
    signed = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{claims}"
    secret = issuer.key.as_pem(private=False)
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def with_own_key(issuer: Issuer) -> str:
    """Return a token that brings the key by which it is signed, under the name of the issuer's."""
    other = RSAKey.generate_key(2048, {"kid": "first"})
    claims = issuer.token().split(".")[1]
    header = {"alg": "RS256", "kid": "first", "jwk": other.as_dict(private=False)}
    signature = issuer.token(other).split(".")[2]
    return f"{encoded(header)}.{claims}.{signature}"


REFUSED: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda issuer: issuer.token(exp=1_700_000_000), "expired"),
    "not yet": (lambda issuer: issuer.token(nbf=4_000_000_000), "`nbf`"),
    "for ever": (lambda issuer: issuer.token(exp=None), "`exp`"),
    "other audience": (lambda issuer: issuer.token(aud="https://other.example.com"), "`aud`"),
    "no audience": (lambda issuer: issuer.token(aud=None), "`aud`"),
    "other issuer": (lambda issuer: issuer.token(iss="https://other.example.com"), "`iss`"),
    "unknown key": (
        lambda issuer: issuer.token(RSAKey.generate_key(2048, {"kid": "unknown"})),
        "not published",
    ),
    "other type of key": (
        lambda issuer: issuer.token(ECKey.generate_key("P-256", {"kid": "first"}), "ES256"),
        "no signed JSON Web Token",
    ),
    "altered": (altered, "changed since"),
    "not signed": (without_signature, "algorithm"),
    "confused": (confused, "algorithm"),
    "own key": (with_own_key, "RFC 7519"),
    "oversized": (lambda issuer: issuer.token(name="x" * TOKEN_CHARS_MAX), "longer than"),
    "no tenants": (lambda issuer: issuer.token(tenants=[]), "`tenants`"),
    "no claim of tenants": (lambda issuer: issuer.token(tenants=None), "`tenants`"),
    "impossible tenant": (lambda issuer: issuer.token(tenants=["acme", "a/b"]), "`tenants`"),
    "no subject": (lambda issuer: issuer.token(sub=None), "`sub`"),
    "forged subject": (lambda issuer: issuer.token(sub="jane\nperson:root"), "`sub`"),
    "no token": (lambda _: "a.b.c", "RFC 7519"),
}


async def test_a_bad_token_is_a_problem_that_shows_none_of_it_and_is_counted(
    api: Api, issuer: Issuer
) -> None:
    came_from = {"X-Forwarded-For": "203.0.113.1"}  # as a trusted proxy says
    for case, (make, reason) in REFUSED.items():
        token = make(issuer)
        answer = await api.ask("GET", NO_ITEM, key=token, headers=came_from)
        assert reason in problem(answer, 401, "TOKEN_INVALID").detail, case
        assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
        assert not any(part in answer.text for part in token.split(".") if len(part) > 1), case
    for _ in range(FAILURES_MAX - len(REFUSED)):
        await api.ask("GET", NO_ITEM, key="a.b.c", headers=came_from)
    refused = await api.ask("GET", NO_ITEM, key="a.b.c", headers=came_from)
    problem(refused, 429, "TOO_MANY_ATTEMPTS")
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    valid = await api.ask("GET", NO_ITEM, key=issuer.token(), headers=came_from)
    problem(valid, 404, "NOT_FOUND")


async def test_an_address_with_wrong_keys_waits_and_a_valid_key_behind_it_does_not(
    api: Api,
) -> None:
    key = await api.make_key("patient", Scope.READ)
    guessing, other = ({"X-Forwarded-For": f"198.51.100.{host}"} for host in (1, 2))
    wrong = "due_" + "0" * 60
    for _ in range(FAILURES_MAX):
        answer = await api.ask("GET", NO_ITEM, key=wrong, headers=guessing)
        problem(answer, 401, "KEY_MISSING")
    refused = await api.ask("GET", NO_ITEM, key=wrong, headers=guessing)
    problem(refused, 429, "TOO_MANY_ATTEMPTS")
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    problem(await api.ask("GET", NO_ITEM, key=key, headers=guessing), 404, "NOT_FOUND")
    problem(await api.ask("GET", NO_ITEM, key=wrong, headers=other), 401, "KEY_MISSING")


def kids(keys: object) -> set[str]:
    return {each["kid"] for each in keys.as_dict()["keys"]}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


async def test_keys_are_fetched_again_for_an_unknown_one_at_most_once_a_minute() -> None:
    now = 0.0
    guard = AllowList([read_origin("http://127.0.0.1:*")], [ip_network(LOOPBACK[0])])
    async with open_issuer() as issuer, HttpClient(guard) as client:
        keys = IssuerKeys(client, issuer.url, lambda: now)
        assert kids(await keys.read()) == {"first"}
        issuer.rotate()
        for _ in range(3):
            assert kids(await keys.read(has_unknown=True)) == {"first"}
        assert issuer.fetches == 1
        now = UNKNOWN_KEY_SECONDS
        both = await asyncio.gather(*(keys.read(has_unknown=True) for _ in range(3)))
        assert [kids(each) for each in both] == [{"first", "second"}] * 3
        assert issuer.fetches == 2
        issuer.is_down = True
        now += KEYS_SECONDS
        assert kids(await keys.read()) == {"first", "second"}, "the issuer may be down for a time"
        now += KEYS_SECONDS_MAX
        with pytest.raises(Unavailable):
            await keys.read()
        issuer.is_down = False
        now += KEYS_SECONDS
        await keys.read()
        assert issuer.fetches == 3


async def test_nobody_waits_for_keys_that_another_needs(
    api: Api, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    guard = AllowList([read_origin("http://127.0.0.1:*")], [ip_network(LOOPBACK[0])])
    async with open_issuer() as own, HttpClient(guard) as client:
        keys = IssuerKeys(client, own.url, lambda: now)
        await keys.read()
        own.answers.clear()
        now = KEYS_SECONDS
        assert kids(await keys.read()) == {"first"}, "old ones will do while new ones are fetched"
        unknown = asyncio.create_task(keys.read(has_unknown=True))
        assert kids(await keys.read()) == {"first"}
        assert not unknown.done()
        own.rotate()
        own.answers.set()
        assert kids(await unknown) == {"first", "second"}
        own.answers.clear()
        now += KEYS_SECONDS
        await keys.read()
        await keys.close()
        own.answers.set()
    # A poll that waits has its token verified: the loop that serves all of them fetches no key.
    token = issuer.token(scope="work")
    emitter = await api.make_key("beside-polls", Scope.EMIT)
    body = {"kinds": ["PolledByToken"], "wait_seconds": 60}
    poll = asyncio.create_task(api.ask("POST", "/v1/claims", key=token, body=body))
    await api.polling(1)

    async def hang(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(IssuerKeys, "read", hang)
    await api.emit(emitter, api.item("P-polled", kind="PolledByToken"))
    assert [each["business_key"] for each in (await poll).document["items"]] == ["P-polled"]


async def test_keys_are_fetched_from_no_network_that_is_not_allowed() -> None:
    async with open_issuer() as issuer:
        async with HttpClient(AllowList([read_origin(issuer.url)])) as client:
            with pytest.raises(Unavailable):
                await IssuerKeys(client, issuer.url).read()
        assert issuer.fetches == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"service_oidc_issuer": "http://login.example.com"}, "OIDC_ISSUER"),
        ({"service_oidc_issuer": "https://login.example.com?a=b"}, "OIDC_ISSUER"),
        ({"service_oidc_issuer": "login"}, "OIDC_ISSUER"),
        ({"service_oidc_audience": None}, "OIDC_AUDIENCE"),
        ({"service_oidc_client_id": "due", "service_oidc_login_scopes": "due"}, "LOGIN_SCOPES"),
        (
            {
                "service_oidc_client_id": "due",
                "service_oidc_issuer": None,
                "service_oidc_audience": None,
            },
            "CLIENT_ID",
        ),
    ],
)
def test_an_issuer_whose_keys_could_be_replaced_or_that_is_half_set_up_is_refused(
    settings: dict[str, object], named: str
) -> None:
    given = oidc("https://login.example.com") | settings
    with pytest.raises(InvalidSetting, match=named):
        read_settings(ServiceSettings, dsn=SecretStr("postgresql://127.0.0.1/none"), **given)


def test_the_issuer_that_the_document_names_is_the_one_that_is_pinned_and_run() -> None:
    text = (FOLDER.parents[1] / "docs" / "keys-and-tokens.md").read_text("utf-8")
    assert re.findall(r"oidc-provider\) (\S+),", text) == [VERSION]
    packages = {name: one for name, one in LOCK["packages"].items() if name}
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert not [name for name, one in packages.items() if "resolved" in one]


async def test_another_issuer_process_signs_in_and_its_tokens_are_accepted(
    make_database: MakeDatabase,
) -> None:
    """Its tokens have no `kid`, for it has one key."""
    claims = json.dumps({"sub": "joe", "scope": "read", "tenants": "acme"})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oidc_provider_mock", "--port", "0", "--user-claims", claims),
        stderr=asyncio.subprocess.STDOUT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = None
        while url is None:
            line = await process.stdout.readline()
            assert line, "the issuer did not start"
            url = re.search(rb"running on (http://127\.0\.0\.1:[0-9]+)", line)
        issuer = url[1].decode()
        async with (
            open_api(make_database, open_console, **login_at(issuer)) as api,
            open_browser(api) as browser,
        ):
            begun = await browser.open("/console/sign-in/issuer")
            async with api.session.post(
                begun.location, data={"sub": "joe"}, allow_redirects=False
            ) as reply:
                back = urlsplit(reply.headers["Location"])
            assert (await browser.open(f"{back.path}?{back.query}")).location == "/console/"
            assert "oidc:joe" in (await browser.open("/console/")).text
            token = await log_in(api.session, issuer)
            problem(await api.ask("GET", NO_ITEM, key=token), 404, "NOT_FOUND")
            problem(await api.ask("GET", "/v1/keys", key=token), 403, "NOT_PERMITTED")
            problem(await api.ask("GET", NO_ITEM, key=token[:-9]), 401, "TOKEN_INVALID")
    finally:
        process.terminate()
        await process.communicate()


async def log_in(session: aiohttp.ClientSession, issuer: str) -> str:
    """Return a token by the code flow (OpenID Connect Core 1.0, section 3.1)."""
    back = "https://due.example.com/back"
    asked = {"client_id": AUDIENCE, "redirect_uri": back, "response_type": "code"}
    async with session.post(
        f"{issuer}/oauth2/authorize",
        params={**asked, "scope": "openid"},
        data={"sub": "joe"},
        allow_redirects=False,
    ) as login:
        [code] = parse_qs(urlsplit(login.headers["Location"]).query)["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
    reply = await session.post(
        f"{issuer}/oauth2/token", data={**form, "client_id": AUDIENCE, "client_secret": "any"}
    )
    return (await reply.json())["id_token"]
