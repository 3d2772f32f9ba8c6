"""Lists without rows: what to do first, or that the filter leaves none, with a way out of it."""

import re
from collections.abc import AsyncGenerator
from html import unescape

import pytest

from dueledger.console.activity import LedgerActivity
from dueledger.console.app import PAGES
from dueledger.console.overview import OverviewRefresh
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.query_parameters import query_parameters
from dueledger.service.scoped_routes import CallRoute
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

EMPTY = re.compile(r'<p class="empty">(.*?)</p>', re.DOTALL)
OUT = re.compile(r'<a href="([^"]+)">Remove the filter</a>')
FIRST_STEPS = {
    "/items": "There is no item yet.",
    "/schedules": "There is no schedule yet.",
    "/flows": "There is no flow yet.",
    "/reviews": "No item waits for a person.",
    "/reviews/parked": "No item waits for a person.",
    "/reviews/findings": "No finding waits for a decision.",
    "/reviews/operations": "There is no operation yet.",
    "/reconciliation/findings": "No finding is open.",
    "/reconciliation/findings?closed=true": "No finding was recorded yet.",
    "/reconciliation/findings?newest_first=true": "No finding is open.",
    "/reconciliation/missing": "No item is missing",
    "/reconciliation/repairs": "No repair is pending.",
    "/reconciliation/reports": "There is no report yet.",
    "/reconciliation/watermarks": "No kind was reconciled yet.",
    "/audit": "Nobody has changed anything yet.",
}
"""Lists with a filter, and how each begins for a tenant that has nothing."""
ELSEWHERE = {"/schedules/calendar", "/schedules/past"}
"""Pages with a filter that are a calendar."""


@pytest.fixture(scope="module")
async def nobody(api: Api) -> AsyncGenerator[Browser]:
    """A browser that is signed in for a tenant of which the ledger has nothing."""
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("nobody", *Scope, tenants=["nobody"]))
        yield browser


def test_each_list_with_a_filter_is_tried() -> None:
    filtered = {
        route.path
        for route in PAGES
        if isinstance(route, CallRoute)
        and "GET" in (route.methods or ())
        and "tenant" in query_parameters(route.dependant)
        and "{" not in route.path
    }
    assert filtered - ELSEWHERE == {path.partition("?")[0] for path in FIRST_STEPS}


@pytest.mark.parametrize("path", FIRST_STEPS)
async def test_an_empty_list_says_what_to_do_first_or_that_the_filter_leaves_none(
    nobody: Browser, path: str
) -> None:
    page = (await nobody.open(f"/console{path}")).text
    assert FIRST_STEPS[path] in unescape(page)
    assert "Remove the filter" not in page
    query = "&" if "?" in path else "?"
    filtered = (await nobody.open(f"/console{path}{query}tenant=other")).text
    assert FIRST_STEPS[path] not in unescape(filtered)
    empty = EMPTY.findall(filtered)
    assert empty
    for words in empty:
        assert "match" in words or "No pause covers" in words, words
        [out] = OUT.findall(words)
        assert unescape(out) == f"/console{path}"


async def test_a_list_whose_filter_is_empty_has_none(nobody: Browser) -> None:
    page = (await nobody.open("/console/flows?tenant=&kind=")).text
    assert FIRST_STEPS["/flows"] in page
    page = (await nobody.open("/console/reviews/operations?awaits_approval=false")).text
    assert FIRST_STEPS["/reviews/operations"] in page


async def test_who_waits_for_a_person_is_not_denied_under_a_filter(nobody: Browser) -> None:
    for query, words in (
        ("", "Nothing waits for a person."),
        ("?taken=mine", "You have taken nothing that waits."),
        ("?kind=Other", "Nothing that waits for a person matches the filter."),
        ("?kind=Other&taken=mine", "Nothing that waits for a person matches the filter."),
    ):
        page = (await nobody.open(f"/console/reviews{query}")).text
        assert f'<h1 class="verdict">{words}</h1>' in page


async def test_who_may_not_write_is_not_asked_to(api: Api, nobody: Browser) -> None:
    assert "Write one, or import a crontab." in (await nobody.open("/console/schedules")).text
    async with open_browser(api) as reader:
        key = await api.make_key("nobody-reads", Scope.READ, tenants=["nobody"])
        await reader.sign_in(key)
        page = (await reader.open("/console/schedules")).text
    assert "Write one, or import a crontab." not in page
    assert "A key with the scope <code>operate</code> writes one" in page


async def test_reconciliation_says_which_pass_has_looked_and_when(
    api: Api, nobody: Browser
) -> None:
    await api.owner.execute("delete from ledger.reconciliation")
    key = await api.make_key("marks", Scope.AUDIT, tenants=["marks"])
    none = {"items": list[object](), "is_cut": False, "last_pass": None}
    assert (await api.ask("GET", "/v1/watermarks", key=key)).document == none
    page = (await nobody.open("/console/reconciliation")).text
    assert "No finding is open." in page
    assert "No reconciliation has looked yet: start <code>dueledger reconcile</code>" in page
    number = await api.owner.fetchval(
        "insert into ledger.reconciliation (started_at, as_of, actor_no, scope)"
        " values (ledger.now(), timestamptz '2026-03-01 09:00Z', $1, '{}')"
        " returning reconciliation_no",
        api.person_no,
    )
    page = (await nobody.open("/console/reconciliation")).text
    assert f"The last reconciliation, number {number}, began" in page
    assert "2026-03-01T09:00:00Z" in page
    assert "and has not ended." in page
    await api.owner.execute("update ledger.reconciliation set finished_at = ledger.now()")
    page = (await nobody.open("/console/reconciliation")).text
    assert f"The last reconciliation, number {number}, looked" in page
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, as_of)"
        " values ('marks', 'FirstDue', ledger.now()), ('marks', 'SecondDue', ledger.now())"
    )
    for limit, is_cut in ((1, True), (2, False)):
        marks = (await api.ask("GET", f"/v1/watermarks?limit={limit}", key=key)).document
        assert (len(marks["items"]), marks["is_cut"]) == (limit, is_cut)
        last = marks["last_pass"]
        assert (last["reconciliation_no"], last["as_of"]) == (number, "2026-03-01T09:00:00Z")
        assert last["finished_at"] is not None


async def test_a_strip_without_items_says_what_to_do_first(api: Api, nobody: Browser) -> None:
    await OverviewRefresh(LedgerActivity(api.lend), budget_seconds=30).refresh(api.owner)
    page = (await nobody.open("/console/")).text
    strip = page.partition('class="heat"')[2].partition("</section>")[0]
    assert "Nothing was due in the last 24 hours" in strip
    assert "<code>dueledger emit</code>" in strip
