"""Sign-in and tokens of a real issuer: oidc-provider, certified for OpenID Connect."""

from collections.abc import AsyncGenerator
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest

from dueledger.console import open_console
from dueledger.ledger.store.api_keys import Scope
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.service.certified_issuer import (
    CALLBACK,
    MISSING,
    CertifiedIssuer,
    is_missing,
    open_certified_issuer,
)
from tests.service.conftest import Api, open_api
from tests.service.issuer import login_at
from tests.service.test_requests import NO_ITEM, problem

pytestmark = pytest.mark.skipif(is_missing(), reason=MISSING)

BEGIN = "/console/sign-in/issuer"


@pytest.fixture(scope="module")
async def certified() -> AsyncGenerator[CertifiedIssuer]:
    async with open_certified_issuer() as opened:
        yield opened


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase, certified: CertifiedIssuer) -> AsyncGenerator[Api]:
    async with open_api(make_database, open_console, **login_at(certified.url)) as opened:
        yield opened


async def sign_in(browser: Browser, issuer: CertifiedIssuer, name: str) -> str:
    """Sign in at the issuer, and return the path by which it sends the browser back."""
    begun = await browser.open(BEGIN)
    back = await issuer.sign_in(browser.session, begun.location, name)
    assert back.startswith(f"{browser.url}{CALLBACK}?")
    return back.removeprefix(browser.url)


async def test_a_person_signs_in_at_a_real_issuer_and_a_code_opens_one_session(
    api: Api, certified: CertifiedIssuer
) -> None:
    """The client has a colon in its name, and a secret with a blank and a per cent sign."""
    async with open_browser(api) as browser, open_browser(api) as copy:
        back = await sign_in(browser, certified, "jane")
        copy.session.cookie_jar.update_cookies(browser.cookies(), copy.origin)
        assert (await browser.open(back)).location == "/console/"
        page = await browser.open("/console/")
        assert (page.status, "oidc:jane" in page.text) == (200, True)
        assert (await browser.open("/console/reconciliation")).status == 403, "no scope `audit`"
        replayed = await copy.open(back)
        assert (replayed.status, "refuses the code" in replayed.text) == (403, True)
    row = await api.owner.fetchrow(
        "select s.scopes, s.tenants from ledger.console_session s"
        " join ledger.actor a using (actor_no) where a.name = 'oidc:jane'"
    )
    assert row is not None
    assert tuple(row) == (["read"], ["acme"])


async def test_a_code_of_a_real_issuer_is_of_the_browser_that_began(
    api: Api, certified: CertifiedIssuer
) -> None:
    async with open_browser(api) as browser, open_browser(api) as other:
        back = await sign_in(browser, certified, "joe")
        page = await other.open(back)
        assert (page.status, "not begun in this browser" in page.text) == (403, True)
        of_other = parse_qs(urlsplit(await sign_in(other, certified, "ann")).query)
        query = parse_qs(urlsplit(back).query) | {"code": of_other["code"]}
        page = await browser.open(f"{CALLBACK}?{urlencode(query, doseq=True)}")  # another verifier
        assert (page.status, "refuses the code" in page.text) == (403, True)
        assert not any("dueledger_session" in name for name in browser.cookies())


async def test_a_person_who_declines_at_a_real_issuer_has_no_session(
    api: Api, certified: CertifiedIssuer
) -> None:
    async with open_browser(api) as browser:
        begun = await browser.open(BEGIN)
        async with browser.session.get(begun.location) as shown:
            declined = f"{shown.url}/abort"
        back = await certified.sign_in(browser.session, declined, "jane")
        page = await browser.open(back.removeprefix(browser.url))
        assert (page.status, "access_denied" in page.text) == (403, True)
        assert not any("dueledger_session" in name for name in browser.cookies())


async def test_tokens_of_a_real_issuer_act_for_their_scopes_and_tenants(
    api: Api, certified: CertifiedIssuer
) -> None:
    token = await certified.token_of_program(api.session, "read emit")
    own, other = ({"items": [api.item(tenant=each)]} for each in ("acme", "umbra"))
    made = await api.ask("POST", "/v1/items", key=token, body=own)
    assert made.status == 200, made.text
    item = f"/v1/items/{made.document['items'][0]['id']}"
    assert (await api.ask("GET", item, key=token)).document["emitted_by"] == "oidc:billing"
    problem(await api.ask("POST", "/v1/items", key=token, body=other), 403, "NOT_PERMITTED")
    every = await api.make_key("everybody", Scope.EMIT, tenants=None)
    [hidden] = await api.emit(every, api.item(tenant="umbra"))
    problem(await api.ask("GET", f"/v1/items/{hidden}", key=token), 404, "NOT_FOUND")
    reading = await certified.token_of_program(api.session)
    problem(await api.ask("POST", "/v1/items", key=reading, body=own), 403, "NOT_PERMITTED")

    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        given = await certified.tokens_of_person(session, "jane")
        renewed = await certified.ask(
            session,
            {
                "grant_type": "refresh_token",
                "refresh_token": given["refresh_token"],
                "client_id": "desk",
            },
        )
    tokens = given["access_token"], renewed["access_token"]
    assert len(set(tokens)) == 2
    for each in tokens:
        assert (await api.ask("GET", item, key=each)).status == 200
        problem(await api.ask("POST", "/v1/items", key=each, body=own), 403, "NOT_PERMITTED")
    # Tokens about a person, or for renewing, are for no request.
    for each, reason in ((given["id_token"], "`aud`"), (given["refresh_token"], "RFC 7519")):
        refused = problem(await api.ask("GET", NO_ITEM, key=each), 401, "TOKEN_INVALID")
        assert reason in refused.detail


async def test_a_token_of_a_real_issuer_for_others_or_of_another_time_is_refused(
    api: Api, certified: CertifiedIssuer
) -> None:
    async def refused(token: str, reason: str) -> None:
        found = problem(await api.ask("GET", NO_ITEM, key=token), 401, "TOKEN_INVALID")
        assert reason in found.detail

    elsewhere = "https://other.example.com"
    await refused(await certified.token_of_program(api.session, resource=elsewhere), "`aud`")
    for seconds, reason in ((-7_200, "expired"), (120, "`iat`")):
        await certified.set_clock(seconds)
        token = await certified.token_of_program(api.session)
        await certified.set_clock(0)
        await refused(token, reason)
    async with open_certified_issuer() as foreign:
        await refused(await foreign.token_of_program(api.session), "not published")
    valid = await certified.token_of_program(api.session)
    problem(await api.ask("GET", NO_ITEM, key=valid), 404, "NOT_FOUND")
    await refused(f"{valid[:-8]}AAAAAAAA", "not signed")
