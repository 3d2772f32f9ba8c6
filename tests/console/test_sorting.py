"""Tables of the console: one of which all rows are shown is sorted by the head of each column."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.flows import FlowScope, pause_flows
from tests.console.conftest import Browser, open_browser
from tests.console.hostile_pages import (
    TOPIC,
    emit_hostile_item,
    record_hostile_texts,
)
from tests.console.test_pages import ROUTES
from tests.service.conftest import Api

OWN_ORDER: Final[Mapping[str, str]] = {
    "Next occurrences": "times that are skipped stand between those that are due",
    "By quarter hour": "a row has the time from left to right, the worst flow is first",
    "Items that schedules owe, by day and hour": "rows and columns are days and hours",
    "Items of each kind by the day": "columns are days; its numbers sort",
    "Items of four weeks by weekday": "rows and columns are weekdays and hours; its numbers sort",
}
"""Tables that no head sorts, by how their captions begin, each with why."""
TABLE = re.compile(
    r"<table[^>]*>\s*<caption[^>]*>(?P<caption>.*?)</caption>\s*<thead>(?P<head>.*?)</thead>"
    r"(?P<rest>.*?)(?=<table|\Z)",
    re.DOTALL,
)
HEAD = re.compile(r'<th scope="col(?:group)?"(?P<tag>[^>]*)>(?P<inner>.*?)</th>', re.DOTALL)
LINK = re.compile(r'<a id="(sort-[\w-]+)" href="([^"]+)">')
BUTTON = re.compile(r'<button class="plain" id="sort-[\w-]+" form="import" formaction="([^"]+)">')
ROW = re.compile(r"<tr[^>]*>(?!<th colspan)(.*?)</tr>", re.DOTALL)
TIME = re.compile(r"<time.*?</time>", re.DOTALL)
CRONTAB = "0 9 * * * bin/b\n0 8 * * * bin/a\n@reboot bin/c\n@reboot bin/d\n"


@dataclass(frozen=True)
class Table:
    caption: str
    heads: list[tuple[str, str]]
    rows: list[str]
    leads_on: bool

    @property
    def links(self) -> dict[str, str]:
        """Where the heads lead, by their ids."""
        found = [LINK.match(inner) for _, inner in self.heads]
        return {each[1]: unescape(each[2]) for each in found if each is not None}

    @property
    def orders(self) -> list[str]:
        return [order for tag, _ in self.heads for order in re.findall('aria-sort="(.+?)"', tag)]


def tables_of(text: str) -> Iterator[Table]:
    for found in TABLE.finditer(text):
        body, _, after = found["rest"].partition("</table>")
        heads = [(each["tag"], each["inner"]) for each in HEAD.finditer(found["head"])]
        rows = [TIME.sub("", each) for each in ROW.findall(body)]
        yield Table(found["caption"], heads, rows, 'class="more"' in after)


def table_of(text: str, name: str) -> Table:
    begin = f"sort-{name}-"
    [found] = [each for each in tables_of(text) if any(id_.startswith(begin) for id_ in each.links)]
    return found


@pytest.fixture(scope="module")
async def paths(api: Api, key: NewApiKey) -> list[str]:
    """Each page of the console with rows in its tables, also of tables that are asked for."""
    item = await emit_hostile_item(api, key)
    named = await record_hostile_texts(api, item, key)
    await record_passes(api)
    comment = f"/v1/findings/{named['finding']}/comments"
    written = await api.ask("POST", comment, key=key, body={"comment": "INC-5"})
    assert written.status == 201, written.text
    of_name = {"/system/topic": f"?name={TOPIC}", "/search": f"?q=claim {await claim(api, key)}"}
    return [
        *(
            f"/console{route.path.format(**named)}{of_name.get(route.path, '')}"
            for route in ROUTES
            if not route.waits and "GET" in (route.methods or ())
        ),
        "/console/schedules/past?table=past_days",
        "/console/schedules/past?table=past_hours",
    ]


async def test_each_table_of_all_rows_is_sorted_by_the_head_of_each_column(
    api: Api, paths: list[str]
) -> None:
    sorting: set[str] = set()
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("sorts-all", *Scope, tenants=None))
        for path in paths:
            page = await browser.open(path)
            assert page.status < 500, (path, page.text)
            ids = re.findall(' id="sort-.*?"', page.text)
            assert len(ids) == len(set(ids)), path
            for table in tables_of(page.text):
                if any(table.caption.startswith(each) for each in OWN_ORDER):
                    continue
                if not table.links:
                    assert table.leads_on, (path, table.caption)
                    continue
                heads = [inner for _, inner in table.heads if 'class="hidden"' not in inner]
                assert len(table.links) == len(heads), (path, table.caption)
                for id_, link in table.links.items():
                    sorting.add(id_.split("-")[1])
                    await check_sorted(browser, table, id_, link)
    assert sorting >= {"alerts", "passes", "topics", "checks", "settings", "list", "found_0"}
    assert "comments" in sorting
    assert sorting >= {"pauses", "changes", "counts", "evidence_list", "findings", "strip_listing"}


async def check_sorted(browser: Browser, table: Table, id_: str, link: str) -> None:
    """Follow a head, and then the head that it leads to: the rows are the same ones."""
    for order in ("ascending", "descending"):
        assert link.endswith(f"#{id_}"), link
        page = await browser.open(link)
        assert page.status == 200, (link, page.text)
        [shown] = [each for each in tables_of(page.text) if id_ in each.links]
        assert (shown.orders, page.text.count("aria-sort=")) == ([order], 1), link
        assert len(shown.rows) == len(table.rows), link
        link = shown.links[id_]


async def test_a_table_beside_a_list_is_sorted_alone_and_its_file_is_too(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    lanes = ("b", "c", "a")
    await api.emit(key, *(api.item(f"B-{lane}", kind="Beside", lane=lane) for lane in lanes))
    for lane, reason in zip(lanes, ("INC-2", "INC-1", "INC-3"), strict=True):
        scope = FlowScope("acme", "Beside", lane)
        await pause_flows(api.owner, scope, reason=reason, actor_no=api.person_no)
    first = await browser.open("/console/flows?kind=Beside&limit=1")
    [following] = re.findall(r'rel="next" href="([^"]+)"', first.text)
    page = await browser.open(unescape(following))
    link = table_of(page.text, "pauses").links["sort-pauses-reason"]
    asked = parse_qs(urlsplit(link).query)
    assert {*asked} == {"kind", "limit", "cursor", "table", "sort"}
    page = await browser.open(link)
    assert reasons_of(page.text) == ["INC-1", "INC-2", "INC-3"]
    listed, _, _ = page.text.partition("Pauses in force")
    assert re.findall(r'class="lane">(\w)</span>', listed)[-1:] == ["b"]
    page = await browser.open(table_of(page.text, "pauses").links["sort-pauses-reason"])
    assert reasons_of(page.text) == ["INC-3", "INC-2", "INC-1"]
    files = [unescape(each) for each in re.findall(r'href="([^"]+format=csv[^"]*)"', page.text)]
    sent = [(await browser.open(each)).text for each in files]
    lists = [[row["lane"] for row in csv.DictReader(io.StringIO(each))] for each in sent]
    assert lists == [["a", "b", "c"], ["a", "b", "c"]]
    by_reason = [row["reason"] for row in csv.DictReader(io.StringIO(sent[1]))]
    assert by_reason == ["INC-3", "INC-2", "INC-1"]
    back = re.findall(r'href="([^"]+)"[^>]*>Original order</a>', page.text)
    own = await browser.open(unescape(back[0]))
    assert reasons_of(own.text) == ["INC-2", "INC-1", "INC-3"]
    refused = await browser.open("/console/flows?table=pauses&sort=secret")
    assert (refused.status, "| reason" in refused.text) == (422, True)


def reasons_of(text: str) -> list[str]:
    return re.findall(r"INC-\d", text.partition('id="pauses"')[2])


async def record_passes(api: Api) -> None:
    """Give three allocators a last pass each, unless they have one."""
    for name, seconds in (("b", 9.5), ("a", 100.0), ("c", 10.25)):
        number = await register_actor(api.owner, f"allocator:host:{name}:0", ActorKind.WORKER)
        await api.owner.execute(
            "insert into ledger.process (process_no, role, host, version, started_at, seen_at,"
            " ticked_at, tick_seconds) select $1, 'allocator', 'host', '0.1.0', n, n, n, $2"
            " from ledger.machine_now() n on conflict do nothing",
            number,
            seconds,
        )


async def claim(api: Api, key: NewApiKey) -> int:
    """Claim two items at once, and return the number of the claim."""
    await api.emit(key, *(api.item(f"C-{number}", kind="Claimed") for number in range(2)))
    body = {"kinds": ["Claimed"], "items_max": 2}
    claimed = await api.ask("POST", "/v1/claims", key=key, body=body)
    fence: int = claimed.document["items"][0]["fence"]
    return fence


async def test_a_span_is_sorted_by_its_length(api: Api) -> None:
    await record_passes(api)
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("sorts-passes", *Scope, tenants=None))
        page = await browser.open("/console/system?table=passes&sort=took")
        rows = table_of(page.text, "passes").rows
        found = [name for row in rows for name in re.findall(r"allocator:host:(\w):0</a>", row)]
        assert found == ["b", "c", "a"]


async def test_flows_of_the_first_page_are_in_groups_until_they_are_sorted(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, *(api.item(f"G-{kind}", kind=f"Grouped{kind}") for kind in "AB"))
    scope = FlowScope("acme", "GroupedA")
    await pause_flows(api.owner, scope, reason="INC-4", actor_no=api.person_no)
    page = await browser.open("/console/")
    assert page.text.count('<tr class="group">') >= 2
    sorted_page = await browser.open("/console/?sort=-kind")
    assert '<tr class="group">' not in sorted_page.text
    rows = table_of(sorted_page.text, "list").rows
    assert len(rows) == len(table_of(page.text, "list").rows)
    kinds = [kind for row in rows for kind in re.findall(r'/flows/acme/Grouped(\w)"', row)]
    assert kinds == ["B", "A"]


async def test_jobs_of_a_file_are_sorted_by_sending_it_again(browser: Browser) -> None:
    form = {
        "text": CRONTAB,
        "file_name": "",
        "scheduler": "",
        "tenant": "acme",
        "kind": "",
        "timezone": "UTC",
    }
    page = await browser.send("/console/schedules/import", form)
    buttons = [unescape(each) for each in BUTTON.findall(page.text)]
    where = {urlsplit(each).query for each in buttons}
    assert {"table=jobs&sort=where", "table=left_out&sort=text"} <= where
    [asked] = [each for each in buttons if "table=jobs&sort=where" in each]
    page = await browser.send(asked, form)
    assert "table=jobs&amp;sort=-where#sort-jobs-where" in page.text
