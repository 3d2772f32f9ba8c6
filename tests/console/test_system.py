"""The system: for keys of all tenants alone, without secrets, and in the reader's zone."""

import re
from html import unescape

import pytest

from dueledger.alerts.rules import RULES
from dueledger.console import open_console
from dueledger.console.pages.runbook import PAGES
from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.runtime.setting_problems import read_settings
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.service import ServiceSettings
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.hostile_text import HOSTILE, unsafe_characters
from tests.logins import with_login
from tests.service.conftest import Api, open_api
from tests.service.test_pull import pull

ANCHOR = re.compile(r'<h2 id="(\w+)">')


async def test_processes_topics_alerts_and_settings_are_shown_without_secrets(
    api: Api, key: NewApiKey
) -> None:
    await api.emit(key, api.item("T-1", kind="Topical"), api.item("T-2", kind="Topical"))
    await api.owner.execute(
        "update ledger.process set failure = $1, failing_since = now()", HOSTILE
    )
    await api.owner.execute(
        "insert into ledger.alert (name, labels, value, since, sent_to)"
        " values ('TopicSilent', $1::jsonb, 1, ledger.now(), '[]'),"
        " ('Forgotten', '[]', 1, ledger.now(), '[]')",
        ["<b>due.Topical</b>"],
    )
    worker = await api.make_key("works", *Scope)
    for _ in range(2):
        assert await pull(api, worker, "Topical", items_max=1)
    await api.owner.execute(
        "update ledger.run set worker_no = (select process_no from ledger.process limit 1)"
        " where run_no = (select min(run_no) from ledger.run)"
    )
    await api.owner.execute(
        "update ledger.process set ticked_at = now(), tick_seconds = 0.25, outbox_items = 10000"
    )
    number = await api.report("acme")
    await api.owner.execute(
        "update ledger.reconciliation set finished_at = started_at + interval '12 seconds'"
        " where reconciliation_no = $1",
        number,
    )
    async with open_browser(api) as browser:
        everybody = await api.make_key("everybody", *Scope, tenants=None)
        await browser.sign_in(everybody)
        assert ">System</a>" in (await browser.open("/console/")).text
        page = await browser.open("/console/system")
        [held] = re.findall(r'data-label="Leases"><a href="([^"]+)">1<', page.text)
        running = await browser.open(unescape(held))
        now = await browser.open("/console/")
        runbook = await browser.open("/console/runbook")
        text = runbook.text.partition('class="runbook"')[2].partition("<footer")[0]
        paths = set(re.findall(r'href="(/console/[^"]*)"', text))
        assert {(await browser.open(path)).status for path in paths} == {200}
    assert {f"/console{path}" for path in PAGES.values()} >= paths >= {"/console/items?late=true"}
    assert page.status == 200, page.text
    for each in (page, now):
        assert 'href="/console/runbook#topicsilent"' in each.text
    assert '<h2 id="topicsilent">TopicSilent</h2>' in runbook.text
    assert {rule.name.lower() for rule in RULES} == set(ANCHOR.findall(runbook.text))
    assert {rule.name for rule in RULES} == set(re.findall(r'<a href="#\w+">(\w+)<', runbook.text))
    assert not re.search(r'href="[^"]*[.]md', runbook.text)
    assert "The consumers of &lt;b&gt;due.Topical&lt;/b&gt; report no outcomes" in page.text
    assert "Forgotten" not in page.text
    assert "due.Topical</code>" in page.text
    assert "service</td>" in page.text
    assert ", took 12 s." in page.text
    assert 'data-label="Took">0.25 s</td>' in page.text
    assert 'data-label="Outbox rows">10,000+</td>' in page.text
    [listed] = (await api.ask("GET", "/v1/processes", key=everybody)).document["items"]
    assert (listed["tick_seconds"], listed["outbox_items"]) == (0.25, 10_000)
    assert listed["outbox_capped"] is True
    assert (listed["leases"], listed["leases_capped"]) == (1, False)
    assert len(re.findall(r">T-\d<", running.text)) == 1
    assert "Workers that pull by REST hold 1 lease." in page.text
    assert "the pinned package" in page.text
    assert "DUELEDGER_SERVICE_PORT" in page.text
    assert ">secret</td>" in page.text
    for dsn in (api.dsn, with_login(api.dsn, "service")):
        assert dsn.partition("://")[2].partition("@")[0] not in page.text
    assert "<script>alert" not in page.text
    assert unsafe_characters(page.text) == set()


async def test_the_system_leads_to_the_runbook_while_no_alert_fires(api: Api) -> None:
    await api.owner.execute("delete from ledger.alert")
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("quiet", *Scope, tenants=None))
        page = (await browser.open("/console/system")).text
        assert "What to do</a></td>" not in page
        assert (await browser.open("/console/runbook")).status == 200
    assert 'href="/console/runbook">runbook</a>' in page


async def test_the_system_is_not_shown_to_keys_of_some_tenants(browser: Browser) -> None:
    assert ">System</a>" not in (await browser.open("/console/")).text
    assert "<em>System</em>, or" in (await browser.open("/console/runbook")).text
    refused = await browser.open("/console/system")
    assert refused.status == 403
    assert "all tenants" in refused.text


async def test_times_are_in_the_zone_of_the_tenant_if_one_is_set(
    make_database: MakeDatabase,
) -> None:
    zones = {"acme": "Europe/Berlin", "umbra": "Asia/Kathmandu"}
    async with (
        open_api(make_database, open_console, service_zones=zones) as api,
        open_browser(api) as browser,
    ):
        await browser.sign_in(await api.make_key("berliner", Scope.READ))
        page = await browser.open("/console/")
        assert 'value="Europe/Berlin"' in page.text
        assert "Kathmandu" not in page.text
        chosen = {"zone": "Europe/Berlin", "to": "/console/"}
        assert (await browser.send("/console/preferences", chosen)).status == 303
        footer = (await browser.open("/console/")).text.partition("As of")[2].partition("<span")[0]
        assert "UTC" not in footer
        assert any(offset in footer for offset in ("+01:00", "+02:00"))
        assert "Times in Europe/Berlin</p>" in (await browser.open("/console/")).text
        await api.emit(
            await api.make_key("emits", Scope.EMIT),
            api.item("Z-1", kind="Zoned", due_at="2030-07-01T07:00:00Z"),
        )
        browser.session.cookie_jar.update_cookies({"dueledger_zone": "Asia/Tokyo"}, browser.origin)
        titles = (
            "2030-07-01 09:00:00 +02:00 · 2030-07-01 16:00:00 +09:00 · 2030-07-01T07:00:00Z",
            "2030-07-01 07:00:00 UTC · 2030-07-01 16:00:00 +09:00 · 2030-07-01 09:00:00 +02:00 · ",
        )
        for zone, title in zip(("Europe/Berlin", "utc"), titles, strict=True):
            await browser.send("/console/preferences", {"zone": zone})
            assert f'title="{title}' in (await browser.open("/console/items?kind=Zoned")).text
        await browser.send("/console/preferences", {"zone": "Asia/Kathmandu"})
        assert "UTC" in (await browser.open("/console/")).text.partition("As of")[2]


def test_a_zone_that_is_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELEDGER_SERVICE_ZONES", '{"acme": "Europe/Berln"}')
    with pytest.raises(InvalidSetting) as refused:
        read_settings(ServiceSettings, dsn="postgresql:///nothing", bootstrap_servers=None)
    assert "DUELEDGER_SERVICE_ZONES" in str(refused.value)


async def test_the_kind_that_is_least_complete_is_shown_with_what_blocks_it(api: Api) -> None:
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, blocked_by, as_of) values"
        " ('acme', 'Topical', '2026-02-01T09:00Z', 'items in their grace', ledger.now()),"
        " ('acme', 'Untopical', '2026-03-01T09:00Z', null, ledger.now())"
    )
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("completeness", *Scope, tenants=None))
        page = await browser.open("/console/system")
    least = page.text.partition("All kinds are complete before")[2].partition("</p>")[0]
    assert 'datetime="2026-02-01T09:00:00Z"' in least
    assert "acme Topical, held back by: items in their grace." in least
    assert '<a href="/console/reconciliation/watermarks">' in least
