"""Sign-in at an OpenID Connect issuer: a code that only this browser can redeem, and only once."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc.jwk import RSAKey

from dueledger.console import open_console
from dueledger.service.attempts import FAILURES_MAX
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.forks import ForkServer
from tests.service.commands import key_command
from tests.service.conftest import Api, open_api
from tests.service.issuer import CLIENT, Issuer, login_at, open_issuer

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

PROXIED = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
PROXIED_HTTP = {"X-Forwarded-For": "203.0.113.8"}
BEGIN = "/console/sign-in/issuer"


@pytest.fixture(scope="module")
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        yield opened


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase, issuer: Issuer) -> AsyncGenerator[Api]:
    async with open_api(make_database, open_console, **login_at(issuer.url)) as opened:
        yield opened


async def begin(browser: Browser, issuer: Issuer, to: str = "") -> str:
    """Begin to sign in, and return the path by which the issuer sends the browser back."""
    shown = await browser.open("/console/sign-in", params={"to": to} if to else {})
    link = BEGIN + (f"?{urlencode({'to': to})}" if to else "")
    assert f'href="{link if to.startswith("/console/") else BEGIN}"' in shown.text
    begun = await browser.open(link)
    assert begun.status == 303
    assert begun.location.startswith(f"{issuer.url}/authorize?realm=staff&")
    async with browser.session.get(begun.location, allow_redirects=False) as reply:
        back = urlsplit(reply.headers["Location"])
    assert f"{back.scheme}://{back.netloc}" == browser.url
    assert back.path == "/console/sign-in/callback"
    return f"{back.path}?{back.query}"


async def test_a_person_signs_in_at_the_issuer_and_has_the_rights_of_its_token(
    api: Api, stranger: Browser, issuer: Issuer
) -> None:
    back = await begin(stranger, issuer, "/console/items?late=true")
    done = await stranger.open(back, {"Sec-Fetch-Site": "cross-site"})
    assert (done.status, done.location) == (303, "/console/items?late=true")
    assert sorted(stranger.cookies()) == [f"dueledger_session_{stranger.origin.port}"]
    page = await stranger.open(done.location)
    assert page.status == 200
    assert "oidc:jane" in page.text
    assert "acme" in page.text
    assert (await stranger.open("/console/reconciliation")).status == 403, "no scope `audit`"
    row = await api.owner.fetchrow(
        "select s.key_no, s.scopes, s.tenants from ledger.console_session s"
        " join ledger.actor a using (actor_no) where a.name = 'oidc:jane'"
        " order by s.created_at desc limit 1"
    )
    assert row is not None
    assert tuple(row) == (None, ["emit", "read"], ["acme"])


async def test_signing_out_and_the_end_of_a_session_hold_at_once(
    fork_server: ForkServer, api: Api, stranger: Browser, issuer: Issuer
) -> None:
    async def sign_in(browser: Browser) -> None:
        assert (await browser.open(await begin(browser, issuer))).location == "/console/"
        assert (await browser.open("/console/")).status == 200

    async def is_out(browser: Browser) -> bool:
        return (await browser.open("/console/")).location.startswith("/console/sign-in?")

    await sign_in(stranger)
    async with open_browser(api) as copy:
        copy.session.cookie_jar.update_cookies(stranger.cookies(), copy.origin)
        assert (await copy.open("/console/")).status == 200
        assert (await stranger.send("/console/sign-out", {})).location == "/console/sign-in"
        assert await is_out(copy)
        assert await is_out(stranger)
    await sign_in(stranger)
    expire = "update ledger.console_session set expires_at = ledger.machine_now()"
    await api.owner.execute(expire)
    assert await is_out(stranger)
    await sign_in(stranger)
    [ended] = await key_command(fork_server, api.dsn, "sign-out", "oidc:jane")
    assert ended == {"actor": "oidc:jane", "sessions_ended": 1}
    assert await is_out(stranger)
    [again] = await key_command(fork_server, api.dsn, "sign-out", "oidc:jane")
    assert again["sessions_ended"] == 0


async def test_what_another_sent_back_opens_no_session(
    api: Api, stranger: Browser, issuer: Issuer
) -> None:
    """A forged state, a code of another browser, and one that was redeemed."""
    back = await begin(stranger, issuer)
    query = {name: value for name, [value] in parse_qs(urlsplit(back).query).items()}

    async def refused(browser: Browser, words: str, **changes: str) -> None:
        path = f"/console/sign-in/callback?{urlencode(query | changes)}"
        page = await browser.open(path, PROXIED_HTTP)
        assert page.status == 403, page.text
        assert words in page.text
        assert f'href="{BEGIN}"' in page.text, "it leads to another try"
        assert not any("session" in name for name in browser.cookies())

    for state in ("", "0" * 64, "é", query["state"][:-1], query["state"].upper() + " "):
        await refused(stranger, "not begun in this browser", state=state)
    async with open_browser(api) as other:
        await refused(other, "not begun in this browser")
        own = await begin(other, issuer)
        state = parse_qs(urlsplit(own).query)["state"][0]
        await refused(other, "refuses the code", state=state)  # it has not the verifier
        await refused(other, "not begun in this browser", state=state)  # an attempt ends with it
    assert query["code"] not in issuer.codes, "a code ends with its first use"
    await refused(stranger, "refuses the code")
    back = await begin(stranger, issuer)
    kept = stranger.cookies()
    assert (await stranger.open(back)).status == 303
    async with open_browser(api) as copy:
        copy.session.cookie_jar.update_cookies(kept, copy.origin)
        page = await copy.open(back)
        assert (page.status, "refuses the code" in page.text) == (403, True), "replayed"


WRONG: Mapping[str, tuple[Mapping[str, object], str]] = {
    "another sign-in": ({"nonce": "0" * 64}, "`nonce`"),
    "no sign-in": ({"nonce": None}, "`nonce`"),
    "another client": ({"aud": "https://due.example.com"}, "`aud`"),
    "given to another client": ({"aud": [CLIENT["id"], "other"], "azp": "other"}, "`azp`"),
    "another issuer": ({"iss": "https://other.example.com"}, "`iss`"),
    "expired": ({"exp": 1_700_000_000}, "expired"),
    "no tenant": ({"tenants": []}, "`tenants`"),
    "no scope": ({"scope": "openid profile"}, "no right here"),
}


async def test_a_token_that_is_not_of_this_sign_in_opens_no_session(
    stranger: Browser, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case, (claims, words) in WRONG.items():
        monkeypatch.setattr(issuer, "claims", claims)
        page = await stranger.open(await begin(stranger, issuer), PROXIED_HTTP)
        assert page.status == 403, case
        assert words.replace("`", "") in page.text.replace("<code>", "").replace("</code>", "")
        assert not any("session" in name for name in stranger.cookies()), case
    monkeypatch.setattr(issuer, "claims", {})
    monkeypatch.setattr(issuer, "key", RSAKey.generate_key(2048, {"kid": "unpublished"}))
    page = await stranger.open(await begin(stranger, issuer), PROXIED_HTTP)
    assert (page.status, "not published" in page.text) == (403, True)


async def test_what_the_issuer_refuses_is_said_and_counted(
    stranger: Browser, issuer: Issuer
) -> None:
    guessing = {"X-Forwarded-For": "203.0.113.9"}
    back = urlsplit(await begin(stranger, issuer))
    state = parse_qs(back.query)["state"][0]
    denied = urlencode({"state": state, "error": "<b>access_denied"})
    page = await stranger.open(f"{back.path}?{denied}", guessing)
    assert (page.status, "&lt;b&gt;access_denied" in page.text) == (403, True)
    back = urlsplit(await begin(stranger, issuer))
    state = parse_qs(back.query)["state"][0]
    mixed = urlencode({"state": state, "code": "1", "iss": "https://other.example.com"})
    page = await stranger.open(f"{back.path}?{mixed}", guessing)
    assert (page.status, "of another issuer" in page.text) == (403, True)
    statuses: list[int] = []
    for _ in range(FAILURES_MAX + 1):
        state = parse_qs(urlsplit(await begin(stranger, issuer)).query)["state"][0]
        wrong = urlencode({"state": state, "code": "guessed"})
        statuses.append((await stranger.open(f"{back.path}?{wrong}", guessing)).status)
    assert statuses == [403] * FAILURES_MAX + [429]


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/\\evil", "/v1/items"])
async def test_the_issuer_leads_back_to_pages_of_the_console_alone(
    stranger: Browser, issuer: Issuer, to: str
) -> None:
    assert (await stranger.open(await begin(stranger, issuer, to))).location == "/console/"


async def test_behind_https_the_attempt_is_kept_for_this_host_and_no_script(
    stranger: Browser,
) -> None:
    begun = await stranger.open(BEGIN, PROXIED)
    given = begun.headers["Set-Cookie"]
    assert given.startswith("__Host-dueledger_login=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax", "Max-Age=600"} <= set(given.split("; "))
    asked = parse_qs(urlsplit(begun.location).query)
    [back] = asked["redirect_uri"]
    assert back == f"https://{stranger.origin.authority}/console/sign-in/callback"
    assert asked["scope"] == ["openid due"]
    secret = given.partition("=")[2].partition(".")[0]
    assert secret not in begun.location
    assert CLIENT["secret"] not in begun.location
    async with stranger.session.get(begun.location, allow_redirects=False) as reply:
        query = urlsplit(reply.headers["Location"]).query
    done = await stranger.open(
        f"/console/sign-in/callback?{query}", {**PROXIED, "Cookie": given.partition(";")[0]}
    )
    cookies = cast("CIMultiDictProxy[str]", done.headers).getall("Set-Cookie")
    attempt, session = sorted(cookies)
    assert session.startswith("__Host-dueledger_session=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= set(session.split("; "))
    assert attempt.startswith('__Host-dueledger_login="";')
    assert "Max-Age=0" in attempt


@asynccontextmanager
async def signing_in_at(
    make_database: MakeDatabase, issuer: str
) -> AsyncGenerator[tuple[Api, Browser]]:
    async with (
        open_api(make_database, open_console, **login_at(issuer)) as api,
        open_browser(api) as browser,
    ):
        yield api, browser


async def test_while_the_issuer_is_down_the_page_says_what_to_do(
    make_database: MakeDatabase,
) -> None:
    async with open_issuer() as own, signing_in_at(make_database, own.url) as (_, browser):
        own.is_down = True
        page = await browser.open(BEGIN, params={"to": "/console/items"})
        assert page.status == 503
        assert "or use an API key" in page.text
        assert 'name="to" value="/console/items"' in page.text
    async with open_issuer() as own, signing_in_at(make_database, own.url) as (_, browser):
        own.method = "client_secret_post"
        back = await begin(browser, own)
        own.is_down = True
        page = await browser.open(back)
        assert (page.status, "or use an API key" in page.text) == (503, True)
        own.is_down = False
        assert (await browser.open(await begin(browser, own))).location == "/console/"


async def test_without_a_client_nobody_is_led_to_an_issuer(make_database: MakeDatabase) -> None:
    async with open_api(make_database, open_console) as api, open_browser(api) as browser:
        assert BEGIN not in (await browser.open("/console/sign-in")).text
        assert (await browser.open(BEGIN)).status == 404
        assert (await browser.open("/console/sign-in/callback")).status == 404
