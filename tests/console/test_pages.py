"""Pages of the console: for whom each is, what each shows, and that no text of theirs is code."""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from html import unescape
from inspect import iscoroutinefunction
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from dueledger.console.app import PAGES
from dueledger.console.navigation import NAVIGATION
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.states import State
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.service.app import ROUTES as SERVICE_ROUTES
from dueledger.service.query_parameters import query_parameters
from dueledger.service.scoped_routes import CallRoute
from tests.console.conftest import Browser, Shown, open_browser
from tests.console.hostile_pages import (
    HOSTILE_EVENT,
    SCRIPT,
    TOPIC,
    emit_hostile_item,
    record_hostile_texts,
)
from tests.hostile_text import HOSTILE, SHOWN, unsafe_characters
from tests.service.conftest import SCHEDULE, Api

STREAM = "/live"
"""It is answered until the page is closed."""
ROUTES = [route for route in PAGES if isinstance(route, CallRoute) and route.path != STREAM]
ROLES = {
    "viewer": {Scope.READ},
    "operator": {Scope.READ, Scope.OPERATE},
    "approver": {Scope.READ, Scope.AUDIT, Scope.APPROVE},
    "auditor": {Scope.READ, Scope.AUDIT},
    "admin": {*Scope},
}
"""The scopes of people's keys, as docs/keys-and-tokens.md gives them."""
SESSIONS = {**{scope.value: {scope} for scope in Scope}, **ROLES}
OF_ALL = {
    route.path
    for route in ROUTES
    for entry in NAVIGATION
    if entry.is_of_all and f"{route.path}/".startswith(f"{entry.path}/")
}
ACTIONS_OF_ALL = {
    route.path for route in ROUTES if route.path in OF_ALL and "GET" not in (route.methods or ())
}
FORM_FIELDS = {
    name
    for path, module in [*sys.modules.items()]
    if path.startswith("dueledger.console.pages.")
    for form in vars(module).values()
    if isinstance(form, type) and issubclass(form, BaseModel)
    for name in form.model_fields
}
DATA = ("application/json", "text/csv")
"""No browser reads their texts as markup."""
TOPIC_OF = {path: {"name": TOPIC} for path in ("/system/topic", "/system/process")}
_TABLE = re.compile('<table(?! class="strip")')
"""The strip of two days is followed by the same as numbers."""
_TEXTAREA = re.compile("<textarea.*?</textarea>", re.DOTALL)
HOSTILE_KEY = HOSTILE.replace("\r\n", " ").replace("\x7f", "")


@pytest.fixture(scope="module")
async def item(api: Api, key: NewApiKey) -> UUID:
    """An item of the tenant acme, each of whose texts is hostile."""
    return await emit_hostile_item(api, key)


@pytest.fixture(scope="module")
async def hostile(api: Api, item: UUID, key: NewApiKey) -> dict[str, str]:
    """What paths may name, after its neighbours have hostile texts, too."""
    return await record_hostile_texts(api, item, key)


def test_each_page_has_a_scope() -> None:
    assert all(isinstance(route, CallRoute) for route in PAGES)
    paths = {route.path for route in ROUTES}
    assert {entry.path for entry in NAVIGATION} <= paths


def test_no_function_of_a_route_or_page_is_called_in_a_thread() -> None:
    def functions(dependant: Dependant) -> Iterator[object]:
        yield dependant.call
        for each in dependant.dependencies:
            yield from functions(each)

    called = [
        function
        for route in [*PAGES, *SERVICE_ROUTES]
        if isinstance(route, APIRoute)
        for function in functions(route.dependant)
    ]
    assert len(called) > len(PAGES)
    assert [each for each in called if not iscoroutinefunction(each)] == []


@pytest.mark.parametrize(
    ("name", "tenants"), [*((name, ("acme",)) for name in SESSIONS), (Scope.READ.value, None)]
)
async def test_a_session_reaches_the_pages_of_its_scopes_and_is_shown_no_others(
    api: Api, hostile: dict[str, str], name: str, tenants: tuple[str, ...] | None
) -> None:
    scopes = SESSIONS[name]
    key = await api.make_key(f"only-{name}-{tenants}", *scopes, tenants=tenants)
    async with open_browser(api) as browser:
        await browser.send("/console/sign-in", {"key": key.text})
        shown = await browser.open("/console/")
        for entry in NAVIGATION:
            is_shown = f">{entry.name}</a>" in shown.text
            assert is_shown == (
                entry.scope in scopes and (tenants is None or not entry.is_of_all)
            ), entry
        for route in ROUTES:
            path = "/console" + route.path.format(**hostile)
            page = (
                await browser.open(path)
                if "GET" in (route.methods or ())
                else await browser.send(path, {})
            )
            is_of_all = tenants is not None and route.path in OF_ALL
            is_refused = route.scope not in scopes or is_of_all
            expected = {403} if is_refused else {200, 303, 409, 422}
            assert page.status in expected, (path, page.status)
        if Scope.READ not in scopes:
            assert (await browser.open(f"/console{STREAM}")).status == 403


def check_harmless(page: Shown, where: object) -> None:
    assert page.status < 500, where
    if page.headers.get("Content-Type", "").startswith(DATA):
        assert page.headers["X-Content-Type-Options"] == "nosniff", where
    else:
        for markup in (SCRIPT, "<b>lane", "<img", "<i>"):
            assert markup not in page.text, where
    shown = page.text.replace("\r\n", "\n")  # as lines of CSV end
    shown = _TEXTAREA.sub("", shown)  # a text that is edited stays as it was typed
    assert unsafe_characters(shown) == set(), where


async def test_no_text_of_the_ledger_is_code_or_cannot_be_seen(
    api: Api, browser: Browser, hostile: dict[str, str]
) -> None:
    async with open_browser(api) as everybody:
        await everybody.sign_in(await api.make_key("sees-all", *Scope, tenants=None))
        for path in OF_ALL - ACTIONS_OF_ALL:
            page = await everybody.open(f"/console{path}", params=TOPIC_OF.get(path, {}))
            assert page.status == 200, page.text
            assert "lane&lt;/b&gt;" in page.text, path
            check_harmless(page, path)
    for route in ROUTES:
        if "GET" not in (route.methods or ()) or route.path in OF_ALL:
            continue
        page = await browser.open("/console" + route.path.format(**hostile))
        assert page.status == 200, page.text
        assert not route.waits or SHOWN in page.text, route.path
        check_harmless(page, route.path)
    for text in (HOSTILE, HOSTILE_KEY, f"{TOPIC}/0/7", f"claim {SCRIPT}"):
        check_harmless(await browser.open("/console/search", params={"q": text}), text)
    found = await browser.open("/console/search", params={"q": HOSTILE_EVENT})
    assert "Event" in found.text
    check_harmless(found, HOSTILE_EVENT)


async def test_no_text_of_a_request_is_code_or_cannot_be_seen(
    browser: Browser, hostile: dict[str, str]
) -> None:
    for route in ROUTES:
        path = "/console" + route.path.format(**hostile)
        if "GET" in (route.methods or ()):
            for name in (*query_parameters(route.dependant), SCRIPT):
                check_harmless(await browser.open(path, params={name: HOSTILE}), (path, name))
            continue
        everything = dict.fromkeys(FORM_FIELDS, HOSTILE)
        check_harmless(await browser.send(path, everything), path)
        for name in FORM_FIELDS & {"text", "reason", "shown"}:
            check_harmless(await browser.send(path, {name: HOSTILE}), (path, name))
    for path in ("/console/sign-in", "/console/preferences"):
        fields: dict[str, str] = dict.fromkeys(("key", "to", "theme", "zone"), HOSTILE)
        check_harmless(await browser.send(path, fields), path)


async def test_a_session_sees_its_tenants_alone(api: Api, item: UUID) -> None:
    other = await api.make_key("stranger", *Scope, tenants=["umbra"])
    async with open_browser(api) as browser:
        await browser.sign_in(other)
        for path in ("/console/", "/console/items", "/console/items?open=true"):
            assert "PolicyRenewalDue" not in (await browser.open(path)).text
        assert (await browser.open(f"/console/items/{item}")).status == 404
        decided = await browser.send(
            f"/console/items/{item}/decide", {"verb": "cancel", "reason": "INC-1"}
        )
        assert decided.status == 404


async def test_filters_of_items_suggest_what_the_caller_may_see(api: Api, key: NewApiKey) -> None:
    everyone = await api.make_key("suggested", *Scope, tenants=None)
    items = [api.item(f"S-{lane}", tenant="hints", lane=lane) for lane in ("", "north", "\u202eup")]
    await api.emit(everyone, *items)
    await api.define("hints", "statements-of-hints", SCHEDULE)
    worker_no = await register_actor(api.owner, "worker:host:7:abcd", ActorKind.WORKER)
    await api.owner.execute(
        "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
        " select $1, 'worker', 'host', '0.1.0', n, n from ledger.machine_now() n",
        worker_no,
    )
    names = ("north", "statements-of-hints", "worker:host:7:abcd")
    for asked, suggested in (
        (everyone, names),
        (await api.make_key("hints", *Scope, tenants=["hints"]), names[:2]),
        (key, ()),
    ):
        async with open_browser(api) as other:
            await other.sign_in(asked)
            page = (await other.open("/console/items")).text
        found = set(re.findall('<option value="([^"]+)"></option>', page))
        assert found & set(names) == set(suggested)
        assert unsafe_characters(page) == set()


async def test_a_list_is_a_page_a_download_and_a_document(
    api: Api, browser: Browser, key: NewApiKey, hostile: dict[str, str]
) -> None:
    assert hostile["item"]
    await api.emit(key, *(api.item(f"L-{number}", kind="LetterDue") for number in range(3)))
    path = "/console/items?kind=LetterDue&limit=2"
    page = await browser.open(path)
    assert page.text.count("L-") == 2
    assert 'name="kind" list="names-kind"' in page.text
    assert '<option value="LetterDue"></option>' in page.text
    assert page.text.count('class="changed" role="status"') == 1
    assert page.text.count('role="status"') == 2  # the other counts the rows that are selected
    [following] = {part.partition('"')[0] for part in page.text.split('rel="next" href="')[1:]}
    assert (await browser.open(following.replace("&amp;", "&"))).text.count("L-") == 1
    text = await browser.open("/console/items?format=csv&q=%3D2%2B5")
    assert text.headers["Content-Type"] == "text/csv; charset=utf-8"
    [row] = csv.DictReader(io.StringIO(text.text))
    assert row["business_key"] == "'=2+5"
    assert row["due_at"] == "2026-01-01T09:00:00Z"
    document = json.loads((await browser.open(f"{path}&format=json")).text)
    assert {each["business_key"][:2] for each in document} == {"L-"}
    cut = await browser.open(f"{path}&format=csv")
    assert cut.headers["Link"].endswith('; rel="next"')


async def test_a_list_whose_rows_are_all_shown_is_sorted_by_each_column(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    made = [api.item(f"S-{number}", kind="SortDue", lane=f"{number % 2}") for number in range(3)]
    await api.emit(key, *made)
    path = "/console/items?kind=SortDue"
    for sort, keys in (
        ("business_key", ["S-0", "S-1", "S-2"]),
        ("-business_key", ["S-2", "S-1", "S-0"]),
        ("-kind", ["S-1"]),
    ):
        given = await browser.open(f"{path}&format=csv&sort={sort}")
        rows = csv.DictReader(io.StringIO(given.text))
        assert [row["business_key"] for row in rows][: len(keys)] == keys, sort
    page = (await browser.open(f"{path}&sort=business_key")).text
    assert page.count('aria-sort="ascending"') == 1
    assert "sort=-business_key" in page
    assert "Latest effective date first." not in page
    cut = (await browser.open(f"{path}&limit=2")).text
    assert "Latest effective date first." in cut
    assert re.search("[?;]sort=", cut) is None
    refused = await browser.open(f"{path}&sort=secret")
    assert (refused.status, "business_key | state" in refused.text) == (422, True)


async def test_each_table_has_a_download_that_is_answered(
    api: Api, browser: Browser, hostile: dict[str, str]
) -> None:
    named: set[str] = set()
    async with open_browser(api) as everybody:
        await everybody.sign_in(await api.make_key("downloads-all", *Scope, tenants=None))
        for path in [route.path.format(**hostile) for route in ROUTES if not route.waits]:
            page = await (everybody if path in OF_ALL else browser).open(f"/console{path}")
            for table in _TABLE.split(page.text)[1:]:
                assert 'class="downloads"' in table or 'class="more"' in table, path
            links: list[str] = re.findall(r'href="([^"]*[?&]format=(?:csv|json)[^"]*)"', page.text)
            for link in map(unescape, links):
                given = await everybody.open(link)
                assert given.status == 200, (path, link, given.text)
                assert given.headers["Content-Disposition"].startswith("attachment"), link
                named |= {*parse_qs(urlsplit(link).query).get("table", [path])}
    assert named >= {"alerts", "topics", "checks", "settings", "pauses", "changes", "counts"}
    assert named >= {"hours", "/schedules/calendar", "occurrences", "evidence_list", "findings"}
    assert named >= {"/items", "/flows", "/audit", "/reconciliation", "/system"}
    unknown = await browser.open("/console/flows?format=csv&table=filters")
    assert unknown.status == 404


async def test_a_key_or_an_id_leads_to_the_item(api: Api, browser: Browser, key: NewApiKey) -> None:
    [made] = await api.emit(key, api.item("F-1"))
    for named in ("F-1", str(made), f"  {str(made).upper()} "):
        found = await browser.open(f"/console/items?q={named}")
        assert (found.status, found.location) == (303, f"/console/items/{made}")
    assert "No item has the business key F-2" in (await browser.open("/console/items?q=F-2")).text


async def test_what_is_decided_on_the_page_is_in_the_journal_with_name_and_reason(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    [made] = await api.emit(key, api.item("D-1"))
    path = f"/console/items/{made}"
    page = await browser.open(path)
    assert "No allocator runs" in page.text or "no allocator runs" in page.text
    assert all(words in page.text for words in ("Start now", "Cancel"))
    refused = await browser.send(f"{path}/decide", {"verb": "cancel"})
    assert refused.status == 422
    assert "reason" in refused.text
    done = await browser.send(f"{path}/decide", {"verb": "cancel", "reason": "INC-9"})
    assert (done.status, done.location) == (303, path)
    after = await browser.open(path)
    assert "Done: cancel." in after.text
    assert "INC-9" in after.text
    assert "key:person" in after.text
    assert "Done: cancel." not in (await browser.open(path)).text
    again = await browser.send(f"{path}/decide", {"verb": OperationVerb.TRIGGER, "reason": "INC-9"})
    assert again.status == 409
    ended = await api.owner.fetchval(
        "select s.name from ledger.transition t join ledger.transition_event e using (event)"
        " join ledger.state s on s.state = e.after_state"
        " join ledger.due_item i using (item_no) where i.id = $1",
        made,
    )
    assert ended == State.CANCELLED.label
    first = (await browser.open(f"{path}?limit=1")).text
    assert "First steps" not in first
    assert '<li class="cancelled">' not in first
    [later] = re.findall(r'rel="next" href="([^"#]+)#history"', first)
    last = (await browser.open(unescape(later))).text
    assert '<li class="cancelled">' in last
    assert "First steps" in last
    assert "Later steps" not in last
