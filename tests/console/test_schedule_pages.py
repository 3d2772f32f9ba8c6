"""Pages of schedules: an hour of the calendar, quiet windows, times past and next, pauses."""

import csv
import io
import re
from datetime import timedelta
from html import unescape

from dueledger.console.pages.flow_pauses import CONFIRM_ABOVE
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.ledger.store.clock import read_now
from tests.console.conftest import Browser
from tests.console.test_schedules import EVERY_HOUR, define
from tests.service.conftest import EVENT, Api
from tests.service.test_events import RULE

CALENDAR = "/console/schedules/calendar"
HOUR = timedelta(hours=1)
FIRST_OF_MONTH = {"cron": "0 9 1 * *", "timezone": "UTC"}


async def rows_of(browser: Browser, path: str) -> list[dict[str, str]]:
    page = await browser.open(path)
    assert page.status == 200, page.text
    return list(csv.DictReader(io.StringIO(page.text)))


async def started_earlier(api: Api, name: str, days: int) -> None:
    """Let the first version of a definition be in force since some days."""
    await api.owner.execute(
        "update ledger.definition set effective_from = effective_from - make_interval(days => $2)"
        " where tenant = 'acme' and name = $1 and version = 1",
        name,
        days,
    )


async def test_a_coming_hour_of_the_calendar_leads_to_the_schedules_that_owe_in_it(
    api: Api, browser: Browser
) -> None:
    for name, cron in (("busy", "*/10 * * * *"), ("calm", "5 * * * *")):
        await define(api, name, kind="OfHourDue", when={"cron": cron, "timezone": "UTC"})
    page = await browser.open(f"{CALENDAR}?quiet=5&kind=OfHourDue")
    links = [
        unescape(each) for each in re.findall(r'<a class="load n\d" href="([^"]+)"', page.text)
    ]
    assert len(links) >= 7 * 24
    assert all("hour=" in each for each in links[1:])
    last, fragment = links[-2].split("#")  # beyond what is in the ledger
    shown = (await browser.open(last)).text
    assert f'id="{fragment}">Due from ' in shown
    section = shown.partition('aria-labelledby="owed"')[2].partition("</section>")[0]
    found = re.findall(r'href="/console/schedules/acme/(\w+)"', section)
    assert found == ["busy", "calm"]
    owed = await rows_of(browser, f"{last}&format=csv&table=owed")
    assert [(row["definition"], row["due"]) for row in owed] == [("busy", "6"), ("calm", "1")]
    for address in (f"{CALENDAR}?kind=OfHourDue", last):
        other = await browser.open(address.replace("hour=", "was=").split("&was=")[0])
        assert 'aria-labelledby="owed"' not in other.text
    later = await browser.open(f"{CALENDAR}?kind=OfHourDue&hour=2190-01-01T00:00")
    assert "The chosen hour is not in this week" in later.text


async def test_an_hour_of_the_calendar_leads_to_just_the_items_that_it_counts(
    api: Api, browser: Browser
) -> None:
    await define(api, "begun", kind="BegunDue", when={"cron": "* * * * *", "timezone": "UTC"})
    await started_earlier(api, "begun", 1)
    page = await browser.open(f"{CALENDAR}?kind=BegunDue")
    link, due = re.findall(r'<a class="load n\d" href="([^"]+)">(\d+)<', page.text)[0]
    now = await read_now(api.owner)
    hour = now.replace(minute=0, second=0, microsecond=0)
    ends = {f"{each:%Y-%m-%dT%H%%3A%M%%3A%SZ}" for each in (hour + HOUR, hour)}
    assert re.findall(r"due_before=([^&]+)", unescape(link).replace(":", "%3A"))[0] in ends
    assert int(due) <= 60


async def test_quiet_windows_that_are_not_shown_are_said_and_downloaded(
    api: Api, browser: Browser
) -> None:
    await define(api, "often", kind="OftenDue", when=EVERY_HOUR)
    path = f"{CALENDAR}?kind=OftenDue&quiet=50"
    found = await rows_of(browser, f"{path}&format=csv")
    assert len(found) in range(166, 170)
    page = (await browser.open(path)).text
    assert f"The first 20 of {len(found)}; the download has all." in page
    assert page.partition("<h2>Quiet for")[2].partition("</table>")[0].count('scope="row"') == 20


async def test_a_schedule_was_due_last_and_is_due_next(api: Api, browser: Browser) -> None:
    path = await define(api, "monthly", kind="LastDue", when=FIRST_OF_MONTH)
    [row] = await rows_of(browser, "/console/schedules?kind=LastDue&format=csv")
    assert row["last_due_at"] == ""
    assert "The last occurrence" not in (await browser.open(path)).text
    await started_earlier(api, "monthly", 300)
    [row] = await rows_of(browser, "/console/schedules?kind=LastDue&format=csv")
    now = await read_now(api.owner)
    first = now.replace(day=1, hour=9, minute=0, second=0, microsecond=0)
    expected = first if first < now else (first - timedelta(days=2)).replace(day=1)
    assert row["last_due_at"] == f"{expected:%Y-%m-%dT%H:%M:%SZ}"
    assert row["next_due_at"] > f"{now:%Y-%m-%dT%H:%M:%SZ}"
    page = (await browser.open(path)).text
    assert f'The last occurrence was <time datetime="{row["last_due_at"]}"' in page


async def test_the_history_of_a_definition_begins_with_now(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.define("acme", "ruled", {**RULE, "kind": "RuledDue"})
    for name, day in (("P-PAST", "2026-03-01"), ("P-LATER", "2190-03-01")):
        event = {**EVENT, "id": name, "data": {"policy": name, "renews_on": day}}
        sent = await api.ask("POST", "/v1/events", key=key, body=event)
        assert sent.document["emitted"] >= 1, sent.text
    path = "/console/schedules/acme/ruled"
    history = await rows_of(browser, f"{path}?format=csv")
    assert [row["cycle"] for row in history] == ["2026-03-01"]
    page = (await browser.open(path)).text
    [link] = re.findall(r'<a href="([^"]+)">Items not due yet</a>', page)
    coming = (await browser.open(unescape(link))).text
    assert ["P-LATER" in coming, "P-PAST" in coming] == [True, False]


async def test_next_times_are_in_utc_too_and_skipped_ones_are_rows_between_them(
    api: Api, browser: Browser
) -> None:
    when = {"cron": "30 2 * 3 0", "timezone": "Europe/Berlin", "gap": "skip"}
    path = await define(api, "sundays", kind="SundaysDue", when=when)
    page = (await browser.open(path)).text
    assert '<th scope="col">UTC</th>' not in page
    browser.session.cookie_jar.update_cookies({"dueledger_zone": "Asia/Tokyo"}, browser.origin)
    await browser.send("/console/preferences", {"zone": "browser", "to": "/console/"})
    for shown in (path, f"{path}/edit"):
        page = (await browser.open(shown)).text
        table = page.partition('aria-label="Next occurrences"')[2].partition("</table>")[0]
        assert '<th scope="col">UTC</th>' in table
        rows = table.split("<tr>")[2:]
        skipped = ["does not exist on this day: skipped" in row for row in rows]
        assert [skipped.count(False), any(skipped)] == [10, True]
        assert [" 01:30</td>" in row for row in rows] == [not each for each in skipped]
        local = [re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", row)[0] for row in rows]
        assert local == sorted(local)
    listed = await rows_of(browser, f"{path}?format=csv&table=occurrences")
    assert [row["due_at"] == "" for row in listed] == skipped


async def test_a_pause_of_many_due_items_takes_their_number_on_the_page_of_a_schedule(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    path = await define(api, "heaped", kind="HeapedDue")
    due = CONFIRM_ABOVE + 1
    items = [api.item(f"H-{number}", kind="HeapedDue") for number in range(due)]
    await api.emit(key, *items)
    page = (await browser.open(path)).text
    assert f"{due} items of HeapedDue are due now" in page
    assert f"Type {due} to confirm" in page
    given = {"reason": "INC-8", "shown": f"{due}"}
    refused = await browser.send(f"{path}/pause", given)
    assert (refused.status, "Type their number" in refused.text) == (422, True)
    assert (await browser.send(f"{path}/pause", {**given, "typed": f" {due}"})).location == path


async def test_a_resume_on_the_page_of_a_schedule_says_what_fell_due_and_takes_a_rate(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    path = await define(api, "resumed", kind="ResumedDue")
    await api.emit(key, api.item("R-1", kind="ResumedDue"))
    await browser.open(path)
    await browser.send(f"{path}/pause", {"reason": "INC-9"})
    now = await read_now(api.owner)
    late = api.item(
        "R-2", kind="ResumedDue", due_at=f"{now + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    )
    await api.emit(key, late)
    page = (await browser.open(path)).text
    assert re.search(r"\d item(s)? fell due meanwhile", page)
    assert 'name="rate_per_second"' in page
    done = await browser.send(f"{path}/resume", {"reason": "INC-9 ended", "rate_per_second": "5"})
    assert done.location == path
    [flow] = await api.owner.fetch(
        "select f.rate_per_second, f.paused_at from ledger.flow f where f.kind = 'ResumedDue'"
    )
    assert tuple(flow) == (5, None)
    audited = await api.owner.fetch(
        "select operation, detail from ledger.audit where target like '%definitions/acme/resumed'"
        " or target like '%schedules/acme/resumed' order by audit_no"
    )
    assert [row["operation"] for row in audited] == ["pauseDefinition", "resumeDefinition"]
    assert "rate_per_second" in str(audited[1]["detail"])
