"""One field finds an item by each of its names, and nothing of other tenants."""

import csv
import io
import re
from collections.abc import Callable
from datetime import date
from html import unescape
from uuid import UUID

import orjson

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.search import list_keys_from
from dueledger.search import KEY_ITEMS_MAX, KEYS_MAX
from tests.console.conftest import Browser, open_browser
from tests.hostile_text import unsafe_characters
from tests.service.conftest import EVENT, Api
from tests.service.test_events import RULE
from tests.service.test_pull import pull


async def test_each_name_of_an_item_leads_to_it(api: Api, browser: Browser, key: NewApiKey) -> None:
    [alone] = await api.emit(key, api.item("ALONE-1"))
    await api.emit(key, api.item("TWICE"), api.item("TWICE", cycle="2028"))
    await api.define("acme", "renewals", RULE)
    event = {**EVENT, "data": {"policy": "P-EV", "renews_on": "2026-03-01"}}
    assert (await api.ask("POST", "/v1/events", key=key, body=event)).status == 200
    event_no = await api.owner.fetchval(
        "select event_no from ledger.event where source = '/policies'"
    )
    [claimed] = await pull(api, key, "RenewalDue")
    item = UUID(claimed["item"])
    fence = claimed["fence"]
    await api.owner.execute(
        "update ledger.claim set topic = 'due/work', partition = 3, base_offset = 70"
    )
    other = await api.make_key("umbra-search", *Scope, tenants=["umbra"])
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        for text, target in (
            ("ALONE-1", f"/console/items/{alone}"),
            (str(alone).upper(), f"/console/items/{alone}"),
            (f"{item}:{fence}", f"/console/items/{item}"),
            ("TWICE", "/console/items?q=TWICE"),
            ("due/work/3/70", f"/console/items/{item}"),
            (f"claim {fence}", f"/console/items/{item}"),
            ("1", "Event 1 of /policies"),
            (f"event {event_no}", "Event 1 of /policies"),
            ("due/work/3/71", "Nothing matches"),
            ("due/work/4/70", "Nothing matches"),
            ("99999999999999999999", "Nothing matches"),
            ("<script>alert(1)</script>\u202e", "Nothing matches"),
            ("", "The search field takes"),
        ):
            found = await browser.open("/console/search", params={"q": text})
            if target.startswith("/"):
                assert (found.status, found.location) == (303, target), text
            else:
                assert (found.status, target in found.text) == (200, True), text
            hidden = await stranger.open("/console/search", params={"q": text})
            assert hidden.status == 200, text
            assert f"/items/{item}" not in hidden.text
            assert "<script>alert" not in hidden.text
            assert unsafe_characters(hidden.text) == set()
        shown = await browser.open(f"/console/items/{item}")
        assert 'href="https://kafka-ui.example/due%2Fwork/3?offset=70"' in shown.text
        shown = await browser.open("/console/search", params={"q": f"event {event_no}"})
        assert f"/console/items/{item}" in shown.text
        [download] = re.findall('href="([^"]*format=csv[^"]*)"', shown.text)
        [row] = csv.DictReader(io.StringIO((await browser.open(unescape(download))).text))
        assert row["business_key"] == "P-EV"


async def test_an_event_is_listed_once_with_its_item_among_many_of_a_key(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.define("acme", "renewals", RULE)
    for first in range(3_000, 4_200, 200):
        cycles = range(first, first + 200)
        await api.emit(key, *(api.item("P-MANY", cycle=f"{cycle}") for cycle in cycles))
    owed = {"policy": "P-MANY", "renews_on": "2029-03-01"}
    event = {**EVENT, "id": "many", "source": "/many", "data": owed}
    assert (await api.ask("POST", "/v1/events", key=key, body=event)).status == 200
    number = await api.owner.fetchval("select event_no from ledger.event where id = 'many'")
    await api.owner.execute("update ledger.event set id = event_no::text where id = 'many'")
    await api.owner.execute("update ledger.event_key set id = event_no::text where id = 'many'")
    shown = await browser.open("/console/search", params={"q": f"{number}"})
    assert shown.text.count(f"<h2>Event {number} of /many") == 1
    assert "Due" in shown.text
    assert "It created no item." not in shown.text.partition(" of /many")[2].partition("<h2>")[0]


async def test_the_beginning_of_a_key_suggests_keys_of_the_callers_tenants(
    api: Api, key: NewApiKey
) -> None:
    begun = [f"SUG%<b>-{number:02}" for number in range(KEYS_MAX + 2)]
    await api.emit(key, *(api.item(each) for each in begun), api.item("SUG"))
    await api.emit(key, *(api.item(begun[0], cycle=f"{year}") for year in range(2030, 2033)))
    everybody = await api.make_key("all-search", *Scope, tenants=None)
    other = await api.make_key("own-search", *Scope, tenants=["own"])
    own = [api.item(f"SUG%<b>-{number}", tenant="own") for number in ("09", "99")]
    await api.emit(other, *own, api.item("OWN", tenant="own", kind="Alone"))
    for who, text, keys in (
        (everybody, "SUG%<b>-1", begun[10:20]),
        (key, "SUG%<b>-1", begun[10:20]),
        (everybody, " SUG%", begun[:KEYS_MAX]),
        (everybody, "SUG_", []),
        (everybody, "", []),
        (other, "SUG%", ["SUG%<b>-09", "SUG%<b>-99"]),
        (other, "SUG_", []),
        (other, "OWN", ["OWN"]),
        (other, "", []),
    ):
        async with open_browser(api) as browser:
            await browser.sign_in(who)
            found = await browser.open("/console/search/keys", params={"q": text})
            assert (found.status, orjson.loads(found.text)) == (200, keys), text
            page = (await browser.open("/console/search")).text
            assert "data-suggest" in page
    read = await list_keys_from(api.owner, "SUG%", read_max=5, limit=KEYS_MAX)
    assert read == begun[:2]


async def test_keys_of_a_tenant_are_suggested_beside_thousands_of_another_with_the_same_beginning(
    api: Api, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    crowd = make_drafts(3_000, tenant="crowd", kind="Crowded", prefix="BESIDE")
    await emit_items(api.owner, crowd, actor_no=api.person_no)
    alone = await api.make_key("alone", *Scope, tenants=["alone"])
    asked = "/v1/search/keys?q=BESIDE"
    assert (await api.ask("GET", asked, key=alone)).document == {"items": []}
    latest = [api.item(f"BESIDE-{number}", tenant="alone") for number in (999_998, 999_999)]
    await api.emit(alone, *latest)
    found = ["BESIDE-999998", "BESIDE-999999"]
    assert (await api.ask("GET", asked, key=alone)).document == {"items": found}
    older = make_drafts(
        KEY_ITEMS_MAX + 1, tenant="alone", kind="PolicyRenewalDue", effective_date=date(2027, 3, 2)
    )
    await emit_items(api.owner, older, actor_no=api.person_no)
    assert (await api.ask("GET", asked, key=alone)).document == {"items": []}  # as many are read
    everybody = await api.make_key("all-beside", *Scope, tenants=None)
    assert len((await api.ask("GET", asked, key=everybody)).document["items"]) == KEYS_MAX
