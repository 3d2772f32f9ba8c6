"""Schedules: what each owes next, changed and imported only as it was previewed."""

import csv
import io
import re
from datetime import timedelta
from html import unescape
from tempfile import gettempdir

import pytest

from dueledger.console.pages.schedules import VERSIONS_SHOWN
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowScope, resume_flows
from dueledger.time_spans import brief_span
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import SCHEDULE, Api
from tests.service.test_events import RULE

NIGHTLY = {
    **SCHEDULE,
    "kind": "NightlyDue",
    "business_key": "nightly",
    "when": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
}
EVERY_HOUR = {"cron": "5 * * * *", "timezone": "UTC"}
TEXT = """\
tenant: acme
definition: edited
kind: NightlyDue
business_key: edited
when: {cron: "45 3 * * *", timezone: Europe/Berlin}
dispatch: {direct: {}}
"""
CRONTAB = """\
MAILTO=ops@example.com
15 4 * * * /usr/local/bin/close-books --day yesterday
0 25 * * * /usr/local/bin/never
"""
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: rotate, namespace: ops}
spec:
  schedule: "*/30 * * * *"
  jobTemplate:
    spec:
      template:
        spec: {containers: [{name: rotate, image: rotate}]}
"""


@pytest.fixture(scope="module")
async def nightly(api: Api) -> str:
    """The path of a definition that a clock change concerns."""
    return await define(api, "nightly")


async def define(api: Api, name: str, **changes: object) -> str:
    await api.define("acme", name, {**NIGHTLY, "business_key": name, **changes})
    return f"/console/schedules/acme/{name}"


async def test_a_schedule_shows_what_it_owes_next_and_what_clock_changes_do(
    api: Api, browser: Browser
) -> None:
    owner = {"labels": {"owner": "payments"}}
    await api.define("acme", "shown", NIGHTLY | {"kind": "ShownDue"} | owner)
    path = "/console/schedules/acme/shown"
    listed = await browser.open("/console/schedules")
    assert path in listed.text
    page = await browser.open(path)
    for each in (listed, page, await browser.open(f"{path}/edit")):
        assert "At 02:30 every day, Europe/Berlin" in each.text
        assert "cron 30 2 * * *, Europe/Berlin" in each.text
    assert page.text.count('<th scope="row">') == 10
    assert "does not exist on this day" in page.text
    assert "exists twice on this day" in page.text
    assert "Version 1" in page.text
    policies = "Occurrences that were missed get their items later. "
    assert policies + "Several items of one key may run at the same time." in page.text
    assert "owner payments" in page.text
    document, defaults = page.text.partition("<h2>Document</h2>")[2].split("<details>")[:2]
    for name, is_default in (("30 2 * * *", False), ("owner: payments", False), ("retry", True)):
        assert (name in document, name in defaults) == (not is_default, is_default), name
    assert "No item was due yet" in page.text
    assert (await browser.open("/console/schedules/acme/other")).status == 404


async def test_a_schedule_that_smears_says_by_how_much_each_item_is_later(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    path = await define(api, "smeared", smear="PT1H")
    document = await api.ask("GET", "/v1/definitions/acme/smeared/occurrences?count=10", key=key)
    smears = [each["smear_seconds"] for each in document.document["occurrences"]]
    assert max(smears) >= 60
    texts = [brief_span(timedelta(seconds=seconds)) for seconds in smears if seconds]
    for shown in (path, f"{path}/edit"):
        page = (await browser.open(shown)).text
        assert re.findall(r"smeared: due (.+?) later", page) == texts, shown


async def test_a_schedule_is_paused_resumed_and_triggered_with_a_reason(
    api: Api, browser: Browser
) -> None:
    nightly = await define(api, "triggered", kind="TriggeredDue")
    await browser.open(nightly)
    assert (await browser.send(f"{nightly}/pause", {})).status == 422
    pause = {"reason": "INC-5", "until": "2190-01-01T09:00"}
    assert (await browser.send(f"{nightly}/pause", pause)).location == nightly
    paused = await browser.open(nightly)
    assert "INC-5" in paused.text
    assert 'until <time datetime="2190-01-01T09:00:00Z"' in paused.text
    assert "Resume" in paused.text
    for covered in ("/console/schedules", "/console/schedules/calendar"):
        for query, is_covered in (("", True), ("?kind=TriggeredDue", True), ("?kind=Q", False)):
            assert ("INC-5" in (await browser.open(covered + query)).text) == is_covered, query
    assert (await browser.send(f"{nightly}/resume", {})).status == 422
    resume = {"reason": "INC-5 ended"}
    assert (await browser.send(f"{nightly}/resume", resume)).location == nightly
    resumed = (await browser.open(nightly)).text
    assert "Resumed the kind of acme triggered.</" in resumed
    assert "INC-5" not in resumed
    made = await browser.send(f"{nightly}/trigger", {"reason": "the file came late"})
    assert made.location.startswith("/console/items/")
    assert "Triggered triggered" in (await browser.open(made.location)).text
    assert made.location in (await browser.open(nightly)).text
    audited = await api.owner.fetch(
        "select operation, reason from ledger.audit where operation in"
        " ('pauseDefinition', 'resumeDefinition', 'triggerDefinition')"
        " and target = 'definitions/acme/triggered' order by audit_no"
    )
    assert [tuple(row) for row in audited] == [
        ("pauseDefinition", "INC-5"),
        ("resumeDefinition", "INC-5 ended"),
        ("triggerDefinition", "the file came late"),
    ]


async def test_what_cannot_be_triggered_says_so_as_rest_does(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    documents: dict[str, dict[str, object]] = {
        "ended-trigger": {**NIGHTLY, "ended": True},
        "declared-trigger": {"kind": "DeclaredDue", "dispatch": {"direct": dict[str, object]()}},
        "ruled-trigger": {**RULE, "kind": "RuledDue"},
    }
    for name, document in documents.items():
        await api.define("acme", name, document)
        page = (await browser.open(f"/console/schedules/acme/{name}")).text
        assert "/trigger" not in page
        [why] = re.findall(r'Trigger</button> <span id="action-trigger">([^<]+)', page)
        path = f"/v1/definitions/acme/{name}/trigger"
        refused = await api.ask("POST", path, key=key, body={"reason": "the file came late"})
        assert (refused.status in {404, 422}, why in refused.text) == (True, True), refused.text


async def test_a_pause_of_a_tenant_is_not_ended_by_its_schedules(
    api: Api, browser: Browser
) -> None:
    path = await define(api, "wider", kind="WiderDue")
    wide = {"over": "tenant", "kind": "WiderDue", "reason": "INC-6"}
    try:
        await browser.open(path)
        await browser.send("/console/flows/acme/pause", wide)
        page = (await browser.open(path)).text
        assert "INC-6" in page
        assert "Open the pause" in page
        assert (
            "acme (all kinds)</a>" in (await browser.open("/console/schedules?kind=WiderDue")).text
        )
        assert f"{path}/resume" not in page
        await browser.send(f"{path}/pause", {"reason": "INC-7"})
        assert f"{path}/resume" in (await browser.open(path)).text
        await browser.send(f"{path}/resume", {"reason": "INC-7 ended"})
        page = (await browser.open(path)).text
        assert "All kinds of acme are paused still." in page
        assert "INC-6" in page
    finally:
        await resume_flows(api.owner, FlowScope("acme"), actor_no=api.person_no)


async def test_an_edited_definition_is_previewed_and_put_in_force_over_the_version_it_had(
    api: Api, browser: Browser
) -> None:
    nightly = await define(api, "edited")
    page = await browser.open(f"{nightly}/edit")
    text, _, preview = page.text.partition("</textarea>")
    assert "30 2 * * *" in text
    assert "Nothing changes" in preview
    assert "timezone: Europe/Berlin" in text
    for name in ("reinstate", "deadlines", "shift_forward"):
        assert (name in text, name in preview) == (False, True), name
    wrong = await browser.send(
        "/console/schedules/preview", {"text": TEXT.replace("45 3", "45 99")}
    )
    assert wrong.status == 200
    assert "when.cron" in wrong.text
    shown = await browser.send("/console/schedules/preview", {"text": TEXT, "base_version": "1"})
    assert "Version 2" in shown.text
    assert "At 03:45 every day, Europe/Berlin" in shown.text
    assert "replaces version 1" in shown.text
    assert "<del>" in shown.text
    assert "03:45:00" in shown.text
    path = "/console/schedules/preview?format=csv&table=occurrences"
    coming = csv.DictReader(io.StringIO((await browser.send(path, {"text": TEXT})).text))
    assert {(row["local"][11:19], row["zone"]) for row in coming} == {("03:45:00", "Europe/Berlin")}
    assert "7 items" in shown.text
    assert "Version 2" not in (await browser.open(nightly)).text
    stale = {"text": TEXT, "base_version": "7"}
    assert (await browser.send("/console/schedules/define", stale)).status == 412
    fields = {"text": TEXT.replace("\n", "\r\n"), "base_version": "1"}
    done = await browser.send("/console/schedules/define", fields)
    assert done.location == nightly
    defined = (await browser.open(nightly)).text
    assert "Version 2 is defined" in defined
    _, _, history = defined.partition("<h2>Versions</h2>")
    assert "<summary>changes when</summary>" in history
    changed = history.partition("</ul>")[0]
    assert [each in changed for each in ("<del>", "30 2 * * *", "45 3 * * *")] == [True] * 3
    other = TEXT.replace("tenant: acme", "tenant: umbra")
    for path in ("preview", "define"):
        refused = await browser.send(f"/console/schedules/{path}", {"text": other})
        assert "knows no tenant umbra" in refused.text
    assert not await api.owner.fetchval(
        "select exists (select from ledger.definition where tenant = 'umbra')"
    )


async def test_a_schedule_with_many_versions_says_that_the_newest_are_shown(
    api: Api, browser: Browser
) -> None:
    path = await define(api, "versioned")
    assert "newest.</p>" not in (await browser.open(path)).text
    for number in range(VERSIONS_SHOWN):
        await define(api, "versioned", payload={"n": number})
    page = (await browser.open(path)).text
    assert f"The {VERSIONS_SHOWN} newest.</p>" in page
    shown = [int(each) for each in re.findall(r"<strong>Version (\d+)<", page)]
    assert shown == [*range(VERSIONS_SHOWN + 1, 1, -1)]


def days_of(page: str) -> list[str]:
    """Return the rows of the calendar: the coming week has parts of eight days."""
    return page.partition('<tbody class="cells">')[2].partition("</tbody>")[0].split("</tr>")[:-1]


async def test_the_calendar_counts_by_hour_and_finds_quiet_windows(
    api: Api, browser: Browser
) -> None:
    hourly = {**SCHEDULE, "kind": "HourlyDue", "business_key": "h", "when": EVERY_HOUR}
    await api.define("acme", "hourly", hourly)
    page = await browser.open("/console/schedules/calendar?kind=HourlyDue&quiet=50")
    _, *days, _ = days_of(page.text)
    assert len(days) in {5, 6}  # in the first quarter of a day the week has seven days
    assert [day.count(">1</a></td>") for day in days] == [24] * len(days)
    assert "Quiet for 50 minutes or longer" in page.text
    assert '<option value="HourlyDue"></option>' in page.text
    assert '<a href="/console/schedules/calendar">Clear</a>' in page.text
    hours = await browser.open("/console/schedules/calendar?kind=HourlyDue&format=csv&table=hours")
    due = [row["due"] for row in csv.DictReader(io.StringIO(hours.text))]
    assert due[1:-1] == ["1"] * (len(due) - 2)
    assert 7 * 24 <= len(due) <= 7 * 24 + 1
    none = await browser.open("/console/schedules/calendar?kind=HourlyDue&quiet=90")
    assert "No window is quiet for 90 minutes" in none.text
    empty = await browser.open("/console/schedules/calendar?kind=Nothing")
    assert "Nothing is due" in empty.text
    changed = {**hourly, "when": EVERY_HOUR | {"cron": "5 6 * * *"}}
    await api.define("acme", "hourly", changed)
    await api.owner.execute(
        "update ledger.definition set effective_from = effective_from - interval '30 days'"
        " where tenant = 'acme' and name = 'hourly' and version = 1"
    )
    now = await read_now(api.owner)
    path = f"/console/schedules/calendar?kind=HourlyDue&from={(now - timedelta(days=9)).date()}"
    past = await browser.open(path)
    assert [day.count(">1</a></td>") for day in days_of(past.text)] == [24] * 7
    assert "open=true" not in "".join(days_of(past.text))
    for query in ("quiet=0", "from=1900-01-01", "from=x"):
        answer = await browser.open(f"/console/schedules/calendar?{query}")
        assert answer.status == 422, query


@pytest.mark.parametrize(
    ("text", "file_name", "jobs", "words"),
    [
        (CRONTAB, "crontab.txt", 1, ("close-books", "1 left out", "MAILTO")),
        (CRON_JOB, "jobs.yaml", 1, ("rotate", "0 left out")),
    ],
)
async def test_a_file_is_imported_as_it_was_shown(
    api: Api, browser: Browser, text: str, file_name: str, jobs: int, words: tuple[str, ...]
) -> None:
    count = "select count(*) from ledger.definition"
    before = await api.owner.fetchval(count)
    await browser.open("/console/schedules/import")
    fields = {"text": text, "file_name": file_name, "tenant": "acme"}
    shown = await browser.send("/console/schedules/import", fields)
    assert shown.status == 200
    assert f"Put {jobs} in force" in shown.text
    for word in words:
        assert word in shown.text
    for link in map(unescape, re.findall('formaction="([^"]+format=[^"]+)"', shown.text)):
        given = await browser.send(link, fields)
        assert given.headers["Content-Disposition"].startswith("attachment"), link
    jobs_sent = await browser.send("/console/schedules/import?format=csv&table=jobs", fields)
    [row] = csv.DictReader(io.StringIO(jobs_sent.text))
    assert words[0] in row["definition"]
    assert await api.owner.fetchval(count) == before
    done = await browser.send("/console/schedules/import/define", fields)
    assert (done.status, done.location) == (303, "/console/schedules")
    assert await api.owner.fetchval(count) == before + jobs
    for path in ("import", "import/define"):
        other = await browser.send(f"/console/schedules/{path}", {**fields, "tenant": "umbra"})
        assert "knows no tenant umbra" in other.text


async def test_what_cannot_be_imported_says_why(browser: Browser) -> None:
    await browser.open("/console/schedules/import")
    for fields, words in (
        ({"text": "a: [", "scheduler": "kubernetes"}, "cannot be read"),
        ({"text": CRONTAB, "timezone": "Europe/Berln"}, "Europe/Berlin"),
        ({"text": "nothing at all"}, "0 converted"),
    ):
        shown = await browser.send("/console/schedules/import", fields)
        assert shown.status == 200, shown.text
        assert words in shown.text
        assert gettempdir() not in shown.text


async def test_schedules_of_others_are_not_shown(api: Api, nightly: str) -> None:
    other = await api.make_key("umbra-schedules", *Scope, tenants=["umbra"])
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        for path in ("/console/schedules", "/console/schedules/calendar"):
            assert "nightly" not in (await stranger.open(path)).text
        for path in (nightly, f"{nightly}/edit"):
            assert (await stranger.open(path)).status == 404
        assert (await stranger.send(f"{nightly}/pause", {"reason": "x"})).status == 404


async def test_a_reader_is_shown_no_action(api: Api, nightly: str) -> None:
    reader: NewApiKey = await api.make_key("reads", Scope.READ)
    async with open_browser(api) as browser:
        await browser.sign_in(reader)
        page = await browser.open(nightly)
        assert "Pause" not in page.text
        assert f"{nightly}/edit" not in page.text
        assert "New schedule" not in (await browser.open("/console/schedules")).text
