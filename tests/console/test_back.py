"""A person who decides about an item of a list comes back to the list, with its filter."""

import re
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from dueledger.console.back import CHARS_MAX, known_list
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey
from tests.console.conftest import Browser
from tests.hostile_text import HOSTILE
from tests.service.conftest import Api

HOSTILE_ADDRESSES = (
    "//evil.example/items",
    "///evil.example",
    "https://evil.example/items",
    "https:/items",
    "javascript:alert(1)",
    "\\\\evil.example/items",
    "/\\evil.example",
    "/items\\..\\..",
    "/items/../sign-in",
    "/items/",
    "/items//evil.example",
    "/items@evil.example",
    "/items?a=1\r\nLocation: https://evil.example",
    "/items?a=1#//evil.example",
    "/items?q= x",
    "/items?q=ü",
    "/items\t?q=x",
    "/console/items",
    "/preferences",
    "/reviews/acme/decide",
    "items",
    "?state=Scheduled",
    "",
    f"/items?q={'x' * CHARS_MAX}",
    HOSTILE,
)


@pytest.mark.parametrize("given", HOSTILE_ADDRESSES)
async def test_an_address_that_is_no_list_is_left_out(
    api: Api, browser: Browser, key: NewApiKey, given: str
) -> None:
    assert known_list(given) is None
    [item] = await api.emit(key, api.item(f"B-{HOSTILE_ADDRESSES.index(given)}", kind="Hostile"))
    path = f"/console/items/{item}"
    page = await browser.open(f"{path}?{urlencode({'back': given})}")
    assert page.status == 200
    assert 'class="crumbs"><a href="/console/items">Items</a>' in page.text
    assert 'name="back"' not in page.text
    fields = {"verb": "cancel", "reason": "INC-1", "back": given}
    assert (await browser.send(f"{path}/decide", fields)).location == path


async def test_a_decision_about_an_item_of_a_list_leads_back_to_its_filter(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    lane = "back & on"
    items = await api.emit(key, *(api.item(f"B-{number}", lane=lane) for number in range(3)))
    filters = {"lane": lane, "state": State.SCHEDULED.label, "limit": "2"}
    address = f"/console/items?{urlencode(filters)}"
    listed = (await browser.open(address)).text
    [href, _] = map(unescape, re.findall(r'<th class="c-text"[^>]*><a href="([^"]+)"', listed))
    assert urlsplit(href).path.rpartition("/")[2] in map(str, items)
    page = (await browser.open(href)).text
    [crumb] = re.findall(r'class="crumbs"><a href="([^"]+)">Items</a>', page)
    assert parse_qs(urlsplit(unescape(crumb)).query) == {
        name: [value] for name, value in filters.items()
    }
    [back] = set(re.findall(r'name="back" value="([^"]+)"', page))
    fields = {"verb": "cancel", "reason": "INC-1", "back": unescape(back)}
    decided = await browser.send(f"{urlsplit(href).path}/decide", fields)
    assert (decided.status, decided.location) == (303, unescape(crumb))
    again = (await browser.open(decided.location)).text
    assert "Done: cancel B-" in again
    assert urlsplit(href).path not in again


async def test_who_takes_a_parked_item_stays_at_it_and_may_go_back_to_the_list(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    [item] = await api.emit(key, api.item("B-1", kind="Taken"))
    await api.park(item)
    listed = (await browser.open("/console/reviews/parked?kind=Taken")).text
    [href] = re.findall(rf'href="(/console/items/{item}[^"]*)"', listed)
    page = (await browser.open(unescape(href))).text
    forms = page.partition('aria-label="Taken by"')[2].partition("</section>")[0]
    [back] = set(re.findall(r'name="back" value="([^"]+)"', forms))
    fields = {"item": str(item), "back": unescape(back)}
    for path, more in (("take", {}), ("comments", {"comment": "asked"}), ("return", {})):
        done = await browser.send(f"/console/reviews/acme/{path}", fields | more)
        assert (done.status, done.location) == (303, unescape(href)), path
    page = (await browser.open(done.location)).text
    assert 'href="/console/reviews/parked?kind=Taken">Parked items</a>' in page
