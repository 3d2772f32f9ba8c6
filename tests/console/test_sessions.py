"""Sessions of the console: opened by a key, bound to it, and to their own forms."""

import re
from pathlib import Path

import pytest

from dueledger import console
from dueledger.console import open_console
from dueledger.console.headers import POLICY
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.service.attempts import FAILURES_MAX
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.service.conftest import Api, open_api

PRIVATE = "no-store"


async def test_without_a_session_each_page_leads_to_the_form(stranger: Browser) -> None:
    first = await stranger.open("/")
    assert (first.status, first.location) == (303, "/console/")
    page = await stranger.open("/console/?format=html")
    to = "/console/sign-in?to=%2Fconsole%2F%3Fformat%3Dhtml"
    assert (page.status, page.location) == (303, to)
    form = await stranger.open(page.location)
    assert form.status == 200
    assert 'value="/console/?format=html"' in form.text
    fetched = await stranger.open("/console/", {"Accept": "application/json"})
    assert fetched.status == 401


async def test_a_session_ends_with_its_key(api: Api, stranger: Browser) -> None:
    key = await api.make_key("leaver", Scope.READ)
    await stranger.sign_in(key)
    assert (await stranger.open("/console/")).status == 200
    await api.revoke(key)
    assert (await stranger.open("/console/")).location.startswith("/console/sign-in")


async def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(
    api: Api, browser: Browser
) -> None:
    cookies = browser.cookies()
    async with open_browser(api) as copy:
        copy.session.cookie_jar.update_cookies(cookies, copy.origin)
        assert (await copy.open("/console/")).status == 200
        left = await browser.send("/console/sign-out", {})
        assert (left.status, left.location) == (303, "/console/sign-in")
        assert (await copy.open("/console/")).status == 303


async def test_the_cookie_is_for_this_host_and_no_script(stranger: Browser, key: NewApiKey) -> None:
    answer = await stranger.send("/console/sign-in", {"key": key.text})
    plain = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(plain.split("; "))
    assert key.text not in plain


async def test_behind_https_the_cookie_is_secure_and_bound_to_the_host(
    make_database: MakeDatabase,
) -> None:
    proxies = ["127.0.0.0/8"]
    prefix = "/ledger"
    async with (
        open_api(
            make_database,
            open_console,
            service_trusted_proxies=proxies,
            service_path_prefix=prefix,
        ) as api,
        open_browser(api) as browser,
    ):
        key = await api.make_key("proxied", Scope.READ)
        proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
        answer = await browser.send("/console/sign-in", {"key": key.text}, proxied)
        assert answer.location == f"{prefix}/console/"
        given = answer.headers["Set-Cookie"]
        assert given.startswith("__Host-dueledger_session=")
        assert {"Secure", "HttpOnly", "Path=/"} <= set(given.split("; "))
        cookie = given.partition(";")[0]
        for path in (f"{prefix}/console/", "/console/"):  # the proxy removes it, or not
            page = await browser.open(path, {"Cookie": cookie, **proxied})
            assert page.status == 200
            assert f'href="{prefix}/console/assets/' in page.text
            assert page.headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize(
    ("fields", "headers", "with_token"),
    [
        ({}, {}, False),
        ({"csrf": "0" * 64}, {}, True),
        ({}, {"Sec-Fetch-Site": "cross-site"}, True),
        ({}, {"Sec-Fetch-Site": "same-site"}, True),
        ({}, {"Origin": "https://evil.example"}, True),
        ({}, {"Origin": "null"}, True),
    ],
)
async def test_a_form_of_another_site_or_session_is_refused(
    browser: Browser, fields: dict[str, str], headers: dict[str, str], *, with_token: bool
) -> None:
    for path in ("/console/sign-out", "/console/preferences"):
        answer = await browser.send(path, fields, headers, with_token=with_token)
        assert answer.status == 403
    assert (await browser.open("/console/")).status == 200
    if headers:
        answer = await browser.send("/console/sign-in", {"key": "due_x"}, headers)
        assert "of another site" in answer.text


async def test_wrong_keys_are_limited_as_those_of_requests_are(
    make_database: MakeDatabase,
) -> None:
    async with open_api(make_database, open_console) as api, open_browser(api) as browser:
        key = await api.make_key("late", Scope.READ)
        for _ in range(FAILURES_MAX):
            wrong = await browser.send("/console/sign-in", {"key": key.text[:-1] + "!"})
            assert (wrong.status, "no valid key" in wrong.text) == (403, True)
        limited = await browser.send("/console/sign-in", {"key": key.text[:-1] + "!"})
        assert limited.status == 429
        assert "Too many requests with a wrong key" in limited.text
        refused = await api.ask("GET", "/v1/items", key=key.text[:-1] + "!")
        assert refused.status == 429
        assert (await api.ask("GET", "/v1/items", key=key)).status == 200


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "/v1/items"]
)
async def test_signing_in_leads_to_pages_of_the_console_alone(
    stranger: Browser, key: NewApiKey, to: str
) -> None:
    answer = await stranger.send("/console/sign-in", {"key": key.text, "to": to})
    assert answer.location == "/console/"


async def test_each_answer_says_what_it_may_load_and_that_it_is_private(
    browser: Browser,
) -> None:
    for path in ("/console/", "/console/sign-in", "/console/nothing", "/console/?cursor=x"):
        page = await browser.open(path)
        assert page.headers["Content-Security-Policy"] == POLICY
        assert page.headers["Cache-Control"] == PRIVATE
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "<script>" not in page.text
        assert " style=" not in page.text
        assert " on" + "click=" not in page.text
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY


def test_the_cookie_that_the_script_sets_is_secure_on_https() -> None:
    script = (Path(console.__file__).parent / "assets" / "console.js").read_text("utf-8")
    [line] = re.findall(r"document\.cookie = (.*);$", script, re.MULTILINE)
    assert line.endswith("samesite=lax${secure}`")
    assert """const secure = location.protocol === "https:" ? "; secure" : "";""" in script


async def test_assets_are_kept_for_ever_under_names_with_their_digest(browser: Browser) -> None:
    page = await browser.open("/console/")
    names = [part.partition('"')[0] for part in page.text.split("/console/assets/")[1:]]
    assert {name.rpartition(".")[2] for name in names} == {"css", "js", "svg"}
    for name in names:
        asset = await browser.open(f"/console/assets/{name}")
        assert asset.status == 200
        assert asset.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert asset.headers.get("Content-Encoding", "") == ("" if "svg" in name else "gzip")
    # A page has tokens beside what it was asked for: its size compressed would tell of them.
    assert "Content-Encoding" not in page.headers
    assert (await browser.open("/console/assets/console.css")).status == 404


@pytest.mark.parametrize(
    ("shown", "page"),
    [
        ("/console/schedules/preview", "/console/schedules"),
        ("/console/schedules/define?x=1", "/console/schedules"),
        ("/console/schedules/import", "/console/schedules/import"),
        ("/console/schedules/import/define", "/console/schedules/import"),
        ("/console/schedules/acme/nightly/pause", "/console/schedules/acme/nightly"),
        ("/console/reviews/acme/decide?kind=X", "/console/reviews/acme/decide?kind=X"),
        ("/console/flows/acme/pause", "/console/flows"),
        ("/console/nothing", "/console/"),
        ("/console/", "/console/"),
        ("https://evil.example/console/", "/console/"),
    ],
)
async def test_a_preference_leads_back_to_the_page_or_from_an_answer_to_the_one_above(
    browser: Browser, shown: str, page: str
) -> None:
    chosen = await browser.send("/console/preferences", {"theme": "dark", "to": shown})
    assert (chosen.status, chosen.location) == (303, page)
    previewed = await browser.send("/console/schedules/preview", {"text": "x"})
    assert 'name="to" value="/console/schedules/preview"' in previewed.text
