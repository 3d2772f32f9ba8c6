"""Badges: one fact of a kind as a picture, for those who may see the fact."""

import json
from xml.etree import ElementTree as ET

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

PATH = "/console/badges/acme/Badged"
SETTLED = "/console/badges/acme/Settled"


async def words_of(browser: Browser, fact: str, path: str = PATH) -> str:
    badge = await browser.open(f"{path}/{fact}")
    assert (badge.status, badge.headers["Content-Type"]) == (200, "image/svg+xml"), badge.text
    return ET.fromstring(badge.text).attrib["aria-label"]  # noqa: S314 - our own picture


async def test_a_badge_shows_the_state_the_late_items_or_the_findings_of_a_kind(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    items = [
        api.item(f"B-{number}", kind="Badged", due_at=f"20{year}-01-01T09:00:00Z")
        for number, year in enumerate((26, 26, 96))
    ]
    await api.emit(key, *items)
    [finding] = await api.find("acme")
    await api.owner.execute("update ledger.finding set kind = 'Badged' where id = $1", finding)
    assert await words_of(browser, "state") == "Badged state: no allocator"
    assert await words_of(browser, "late") == "Badged late: 2"
    assert await words_of(browser, "findings") == "Badged findings: 1"
    document = json.loads((await browser.open(f"{PATH}/late?format=json")).text)
    assert document == {"label": "Badged late", "words": "2", "tone": "bad"}
    await api.owner.execute(
        "update ledger.finding set closed_at = ledger.now(), resolution = 'explained'"
        " where id = $1",
        finding,
    )
    assert await words_of(browser, "findings") == "Badged findings: 0"
    assert (await browser.open(f"{PATH}/secrets")).status == 422
    assert (await browser.open("/console/badges/acme/Mistyped/late")).status == 404
    reader = await api.make_key("badge-reader", Scope.READ)
    elsewhere = await api.make_key("badge-elsewhere", *Scope, tenants=["umbra"])
    for who, fact, status in (
        (reader, "late", 200),
        (reader, "findings", 403),
        (elsewhere, "late", 404),
    ):
        async with open_browser(api) as other:
            await other.sign_in(who)
            assert (await other.open(f"{PATH}/{fact}")).status == status


async def test_a_badge_says_up_to_when_a_kind_is_settled(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("B-S", kind="Settled"))

    async def shown() -> dict[str, str | None]:
        return json.loads((await browser.open(f"{SETTLED}/settled?format=json")).text)

    assert await words_of(browser, "settled", SETTLED) == "Settled settled: not reconciled"
    assert (await shown())["tone"] == "warn"
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " values ('umbra', 'Settled', '2020-01-01', ledger.now()), ('acme', 'Settled', null,"
        " ledger.now())"
    )
    assert await words_of(browser, "settled", SETTLED) == "Settled settled: not complete"
    assert (await shown())["tone"] == "bad"
    change = (
        "update ledger.watermark set complete_before = {}, blocked_by = {} where tenant = 'acme'"
    )
    await api.owner.execute(change.format("timestamptz '2026-03-01 09:00Z'", "'an item'"))
    settled = "complete before 2026-03-01 09:00:00 UTC"
    assert await words_of(browser, "settled", SETTLED) == f"Settled settled: {settled}"
    assert await shown() == {
        "label": "Settled settled",
        "words": settled,
        "tone": "bad",
        "complete_before": "2026-03-01T09:00:00Z",
        "blocked_by": "an item",
    }
    for blocked_by, tone in (("'an item'", "warn"), ("null", "good")):
        await api.owner.execute(change.format("ledger.now() - interval '1 hour'", blocked_by))
        assert (await shown())["tone"] == tone
    elsewhere = await api.make_key("settled-elsewhere", *Scope, tenants=["umbra"])
    async with open_browser(api) as other:
        await other.sign_in(elsewhere)
        assert (await other.open(f"{SETTLED}/settled")).status == 404
