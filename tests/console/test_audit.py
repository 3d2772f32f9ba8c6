"""The audit as a page: who changed what, for those who may read it, of their tenants alone."""

import csv
import io
import re
from html import unescape

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

PAUSED = {"over": "kind", "kind": "Audited", "reason": "INC-31"}


async def rows_of(browser: Browser, query: str) -> list[dict[str, str]]:
    page = await browser.open(f"/console/audit?format=csv&{query}")
    assert page.status == 200, page.text
    return list(csv.DictReader(io.StringIO(page.text)))


async def test_each_change_is_listed_with_who_what_and_why_newest_first(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("A-1", kind="Audited"))
    await browser.send("/console/flows/acme/pause", PAUSED)
    resumed = {"kind": "Audited", "of_kind": "Audited", "reason": "INC-31 ended"}
    await browser.send("/console/flows/acme/resume", resumed)
    target = "target=flows/acme/Audited"
    newest, oldest = await rows_of(browser, target)
    assert (newest["operation"], newest["reason"]) == ("resumeFlows", "INC-31 ended")
    assert (oldest["operation"], oldest["reason"]) == ("pauseFlows", "INC-31")
    assert (oldest["actor"], oldest["tenants"]) == ("key:person", "acme")
    assert oldest["login"]
    assert oldest["role"] == "ledger_operator"
    assert ">ledger_operator<" in (await browser.open(f"/console/audit?{target}")).text
    assert oldest["request_id"]
    for query, operations in (
        ("operation=pauseFlows", ["pauseFlows"]),
        ("actor=key:person&tenant=acme", ["resumeFlows", "pauseFlows"]),
        ("actor=key:nobody", []),
        ("since=2126-01-01T00:00", []),
        ("until=2000-01-01T00:00", []),
    ):
        found = await rows_of(browser, f"{target}&{query}")
        assert [row["operation"] for row in found] == operations, query
    first = (await browser.open(f"/console/audit?{target}&limit=1")).text
    assert "INC-31 ended" in first
    following = unescape(first.partition('rel="next" href="')[2].partition('"')[0])
    assert "pauseFlows" in (await browser.open(following)).text
    turned = await rows_of(browser, f"{target}&oldest_first=true")
    assert turned == [oldest, newest]
    for href, order in await _turns(browser, f"{target}&limit=1"):
        page = (await browser.open(href)).text
        assert f'aria-sort="{order}"' in page
        assert ("INC-31 ended" in page) is (order == "descending")
    other = await api.make_key("elsewhere-audit", *Scope, tenants=["umbra"])
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        assert await rows_of(stranger, target) == []


async def _turns(browser: Browser, query: str) -> list[tuple[str, str]]:
    """Return where the head of the time leads, and from there, with the order that each has."""
    found = list[tuple[str, str]]()
    href = f"/console/audit?{query}"
    for order in ("ascending", "descending"):
        page = (await browser.open(href)).text
        href = unescape(re.findall(r'<a href="([^"]+)">When</a>', page)[0])
        found.append((href, order))
    return found


async def test_an_empty_audit_says_what_to_do_first(api: Api) -> None:
    key = await api.make_key("empty-audit", Scope.AUDIT, tenants=["empty"])
    async with open_browser(api) as browser:
        await browser.sign_in(key)
        for query, words in (
            ("", "Define a schedule, pause a flow"),
            ("?actor=x", "Remove the filter"),
        ):
            assert words in (await browser.open(f"/console/audit{query}")).text
