"""What pages show is had by REST, too, each tenant's for its own keys."""

import csv
import io
import json
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from dueledger.client import calls, models
from dueledger.console.app import PAGES
from dueledger.lateness import LATENESS_READ, WORST
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.service.auditing import resource_of
from dueledger.service.scoped_routes import CallRoute
from tests.console.conftest import Browser
from tests.console.test_schedules import CRONTAB, NIGHTLY
from tests.logins import with_login
from tests.service.conftest import EVENT, Api
from tests.service.test_events import RULE
from tests.service.test_pull import pull
from tests.service.test_requests import problem


@pytest.fixture(scope="module")
async def other(api: Api) -> NewApiKey:
    """A key of another tenant with every scope."""
    return await api.make_key("umbra", *Scope, tenants=["umbra"])


@pytest.fixture(scope="module")
async def everyone(api: Api) -> NewApiKey:
    """A key of all tenants with every scope."""
    return await api.make_key("everyone", *Scope, tenants=None)


async def test_days_with_missing_items_are_those_of_the_page(
    api: Api, browser: Browser, key: NewApiKey, other: NewApiKey
) -> None:
    first, second = await api.find("acme", 2)
    await api.owner.execute(
        "update ledger.finding set effective_date = '2026-01-01' where id = $1", first
    )
    listed = await browser.open("/console/reconciliation/missing?tenant=acme&format=csv")
    days = [row["effective_date"] for row in csv.DictReader(io.StringIO(listed.text))]
    assert days == ["2026-01-01", "2026-03-01"]
    path, found = "/v1/findings/missing?tenant=acme&kind=LetterDue&limit=1", list[str]()
    cursor = ""
    while cursor is not None and len(found) < 3:
        answer = await api.ask("GET", path + (cursor and f"&cursor={cursor}"), key=key)
        found += [
            each["effective_date"] for each in answer.document["items"] if each["missing"] == 1
        ]
        cursor = answer.document["next_cursor"]
    assert found == days
    hidden = await api.ask("GET", "/v1/findings/missing", key=other)
    assert hidden.document == {"items": [], "next_cursor": None}
    reader = await api.make_key("reads", Scope.READ)
    problem(await api.ask("GET", "/v1/findings/missing", key=reader), 403, "NOT_PERMITTED")
    assert second != first


async def test_a_text_names_by_rest_what_it_names_in_the_search_field(
    api: Api, key: NewApiKey, other: NewApiKey, everyone: NewApiKey
) -> None:
    [alone] = await api.emit(key, api.item("ALONE-1"))
    await api.emit(key, api.item("TWICE"), api.item("TWICE", cycle="2028"))
    await api.define("acme", "renewals", RULE)
    event = {**EVENT, "id": "renewed", "data": {"policy": "P-EV", "renews_on": "2026-03-01"}}
    assert (await api.ask("POST", "/v1/events", key=key, body=event)).status == 200
    [claimed] = await pull(api, key, "RenewalDue")
    item = str(UUID(claimed["item"]))
    fence = claimed["fence"]
    await api.owner.execute(
        "update ledger.claim set topic = 'due.work', partition = 3, base_offset = 70"
    )
    for text, named, items in (
        (f" {alone} ", "item", [str(alone)]),
        ("ALONE-1", "business key", [str(alone)]),
        (f"{item}:{fence}", "item", [item]),
        ("due.work/3/70", "Kafka record", [item]),
        (f"claim {fence}", "claim", [item]),
        ("renewed", "event", [item]),
        ("due.work/3/71", None, []),
        ("", None, []),
    ):
        path = f"/v1/search?q={text}"
        found = (await api.ask("GET", path, key=key)).document["items"]
        matching = [each for each in found if each["named"] == named]
        assert [each["id"] for one in matching for each in one["items"]] == items, text
        assert bool(found) == bool(items), text
        assert all((each["event"] is not None) == (named == "event") for each in matching)
        assert (await api.ask("GET", path, key=other)).document == {"items": []}
    twice = (await api.ask("GET", "/v1/search?q=TWICE", key=key)).document["items"]
    assert [len(each["items"]) for each in twice] == [2]
    problem(await api.ask("GET", "/v1/search", key=key), 422, "INVALID_INPUT")
    for asked, keys in ((everyone, ["TWICE"]), (key, ["TWICE"]), (other, [])):
        suggested = await api.ask("GET", "/v1/search/keys?q=TWI", key=asked)
        assert suggested.document == {"items": keys}


async def test_the_load_of_a_week_is_that_of_the_calendar(
    api: Api, browser: Browser, key: NewApiKey, other: NewApiKey
) -> None:
    hourly = {
        **NIGHTLY,
        "kind": "HourlyDue",
        "when": {"cron": "15 * * * *", "timezone": "UTC"},
    }
    await api.define("acme", "hourly", hourly)
    await api.owner.execute(
        "update ledger.definition set effective_from = '2026-01-01T00:00:00Z' where name = 'hourly'"
    )
    now = await read_now(api.owner)
    for start in (None, now - timedelta(days=9)):
        after = "" if start is None else f"&start={start:%Y-%m-%dT%H:%M:%SZ}"
        answer = await api.ask("GET", f"/v1/load?kind=HourlyDue&quiet=50{after}", key=key)
        load = answer.document
        assert (load["definitions"], load["is_cut"], load["not_counted"]) == (1, False, [])
        assert [(each["due"], each["start"][13:]) for each in load["items"]] == [
            (1, ":15:00Z")
        ] * 168
        assert len(load["quiet"]) > 160
        assert (load["quiet_is_cut"], load["hour"]) == (False, None)
        assert load["peaks"][0]["most_of"] == [
            {"tenant": "acme", "kind": "HourlyDue", "definition": "hourly", "items": 1}
        ]
    calendar = "/console/schedules/calendar?kind=HourlyDue&format=csv"
    table = await browser.open(f"{calendar}&table=hours")
    hours = list(csv.DictReader(io.StringIO(table.text)))
    assert sum(int(row["due"]) for row in hours) == 168
    hour = hours[30]["start"]
    owed = await browser.open(f"{calendar}&table=owed&hour={quote(hour)}")
    [row] = csv.DictReader(io.StringIO(owed.text))
    path = f"/v1/load?kind=HourlyDue&hour={quote(hour)}"
    of_hour = (await api.ask("GET", path, key=key)).document["hour"]
    assert of_hour["items"] == [
        {"tenant": "acme", "kind": "HourlyDue", "definition": row["definition"], "items": 1}
    ]
    assert of_hour["start"] == hour
    assert (await api.ask("GET", path, key=other)).document["hour"]["items"] == []
    beyond = await api.ask("GET", "/v1/load?kind=HourlyDue&hour=2199-01-01T00:00:00Z", key=key)
    problem(beyond, 422, "INVALID_INPUT")
    none = (await api.ask("GET", "/v1/load?kind=HourlyDue&tenant=acme", key=other)).document
    assert (none["definitions"], none["items"]) == (0, [])
    for start in ("1970-01-01T00:00:00Z", "2199-12-31T23:59:00Z"):
        edge = await api.ask("GET", f"/v1/load?start={start}", key=key)
        assert edge.status == 200, edge.text


async def test_quiet_windows_that_are_left_out_are_said(api: Api, key: NewApiKey) -> None:
    often = {**NIGHTLY, "kind": "OftenDue", "when": {"cron": "*/5 * * * *", "timezone": "UTC"}}
    await api.define("acme", "often", often)
    load = (await api.ask("GET", "/v1/load?kind=OftenDue&quiet=1", key=key)).document
    assert (len(load["quiet"]), load["quiet_is_cut"]) == (1_000, True)


async def test_a_week_with_more_than_may_be_computed_is_refused(api: Api, key: NewApiKey) -> None:
    crowded = {
        **NIGHTLY,
        "kind": "CrowdedDue",
        "when": {"cron": "* * * * *", "timezone": "UTC"},
    }
    for number in range(20):
        await api.define("acme", f"crowded-{number}", {**crowded, "business_key": f"c-{number}"})
    answer = await api.ask("GET", "/v1/load?kind=CrowdedDue", key=key)
    problem(answer, 422, "WINDOW_TOO_LARGE")


async def test_late_items_are_counted_by_time_and_the_worst_are_listed(
    api: Api, key: NewApiKey, other: NewApiKey
) -> None:
    now = await read_now(api.owner)
    ages = [timedelta(minutes=30), timedelta(days=2), *[timedelta(days=9)] * WORST]
    await api.emit(
        key,
        *(
            api.item(f"L-{number}", kind="Tardy", due_at=(now - age).isoformat())
            for number, age in enumerate(ages)
        ),
    )
    await api.owner.execute("update ledger.kind set grace_seconds = 60 where name = 'Tardy'")
    path = "/v1/lateness?kind=Tardy&tenant=acme&lane="
    late = (await api.ask("GET", path, key=key)).document
    assert (late["counted"], late["is_cut"]) == (len(ages), False)
    bars = {each["from_seconds"]: each["items"] for each in late["bars"] if each["items"]}
    assert bars == {300: 1, 86_400: 1, 3 * 86_400: WORST}
    assert [each["below_seconds"] for each in late["bars"]][-1] is None
    assert {each["business_key"] for each in late["items"]} == {
        f"L-{number}" for number in range(2, 2 + WORST)
    }
    assert (await api.ask("GET", path, key=other)).document["items"] == []
    more = [
        api.item(f"M-{number}", kind="Tardy", due_at=(now - timedelta(days=4)).isoformat())
        for number in range(LATENESS_READ)
    ]
    await api.emit(key, *more)
    full = (await api.ask("GET", "/v1/lateness?kind=Tardy", key=key)).document
    assert (full["counted"], full["is_cut"]) == (LATENESS_READ, True)
    assert (full["late"], full["late_capped"]) == (len(ages) + len(more), True)


async def test_checks_are_those_of_the_page_for_keys_of_all_tenants_alone(
    api: Api, key: NewApiKey, everyone: NewApiKey, browser: Browser
) -> None:
    checks = (await api.ask("GET", "/v1/checks", key=everyone)).document["items"]
    assert {each["name"] for each in checks} >= {"postgres", "schema", "snapshots", "processes"}
    assert {each["health"] for each in checks} <= {"ok", "warn", "fail"}
    assert (await api.ask("GET", "/v1/checks", key=key)).document == {"items": []}
    await api.owner.execute(
        "insert into ledger.stalled_partition (topic, partition, worker_no, waits_for_handlers,"
        " stalled_at) values ('due.Stalled', 3, $1, true, ledger.machine_now())",
        api.person_no,
    )
    path = "/v1/topics/due.Stalled/partitions"
    [partition] = (await api.ask("GET", path, key=everyone)).document["items"]
    assert (partition["partition"], partition["items"]) == (3, 0)
    assert partition["stalled_at"] is not None
    assert (await api.ask("GET", path, key=key)).document == {"items": []}
    await browser.sign_in(everyone)
    listed = await browser.open("/console/system?format=csv&table=checks")
    rows = list(csv.DictReader(io.StringIO(listed.text)))
    assert [row["name"] for row in rows] == [each["name"].replace("_", " ") for each in checks]


async def test_what_hinders_each_flow_and_what_is_next_is_as_on_the_first_page(
    api: Api, browser: Browser, key: NewApiKey, other: NewApiKey
) -> None:
    now = await read_now(api.owner)
    hour = timedelta(hours=1)
    [parked, *_] = await api.emit(
        key,
        api.item("S-1", kind="StatusParked", due_at=(now - hour).isoformat()),
        api.item("S-2", kind="StatusPaused", due_at=(now - hour).isoformat()),
        api.item("S-3", kind="StatusNext", due_at=(now + timedelta(seconds=90)).isoformat()),
    )
    await api.park(parked)
    scope = FlowScope("acme", "StatusPaused", "")
    await pause_flows(api.owner, scope, reason="INC-2", actor_no=api.person_no)
    status = (await api.ask("GET", "/v1/status?tenant=acme", key=key)).document
    codes = {
        flow["kind"]: (group["code"], flow["due"], flow["parked"])
        for group in status["items"]
        for flow in group["flows"]
    }
    assert codes["StatusParked"] == ("PARKED", 0, 1)
    assert codes["StatusPaused"] == ("PAUSED", 1, 0)
    assert status["shown"] == status["flows"] == len(codes)
    assert "StatusNext" in [each["kind"] for each in status["coming"]]
    page = (await browser.open("/console/")).text
    groups = re.findall(r'<tr class="group"><th[^>]*>(.*?)</th></tr>', page)
    assert len(groups) == len(status["items"])
    rows = (await browser.open("/console/?format=csv")).text
    listed = {row["kind"]: int(row["due"]) for row in csv.DictReader(io.StringIO(rows))}
    assert listed == {kind: due for kind, (_, due, _) in codes.items()}
    covered = "/v1/status?tenant=acme&kind=StatusPaused"
    for lane, expected in (("", (1, 1)), ("&lane=", (1, 1)), ("&lane=n", (0, 0))):
        of_pause = (await api.ask("GET", covered + lane, key=key)).document
        assert (of_pause["flows"], of_pause["due"]) == expected, lane
    until = (now + hour).isoformat()
    flow = "/v1/flows/acme/StatusNext"
    coming = (await api.ask("GET", f"{flow}?until={quote(until)}", key=key)).document
    assert (coming["falls_due"], coming["falls_due_capped"]) == (1, False)
    [at] = [each["available_at"] for each in status["coming"] if each["kind"] == "StatusNext"]
    assert coming["next_due_at"] == at
    shown = (await browser.open(f"/console/flows/acme/StatusNext?until={until[:16]}")).text
    assert "fall due until" in shown
    unasked = (await api.ask("GET", flow, key=key)).document
    assert (unasked["falls_due"], unasked["next_due_at"]) == (None, at)
    first = (await api.ask("GET", "/v1/status?limit=1", key=key)).document
    assert (first["shown"], first["flows"]) == (1, status["flows"])
    for path in ("/v1/status", "/v1/status?tenant=acme"):
        hidden = (await api.ask("GET", path, key=other)).document
        assert (hidden["flows"], hidden["items"], hidden["coming"]) == (0, [], [])


async def test_settings_are_those_of_the_page_without_secrets_for_keys_of_all_tenants_alone(
    api: Api, browser: Browser, key: NewApiKey, everyone: NewApiKey
) -> None:
    answer = await api.ask("GET", "/v1/settings", key=everyone)
    settings = answer.document["items"]
    by_name = {each["variable"]: each for each in settings}
    assert by_name["DUELEDGER_DSN"]["value"] == "secret"
    port = by_name["DUELEDGER_SERVICE_PORT"]
    assert (port["value"], port["is_set"]) == ("0", True)
    assert by_name["DUELEDGER_SERVICE_HOST"]["is_set"] is False
    for dsn in (api.dsn, with_login(api.dsn, "service")):
        assert dsn.partition("://")[2].partition("@")[0] not in answer.text
    assert (await api.ask("GET", "/v1/settings", key=key)).document == {"items": []}
    await browser.sign_in(everyone)
    listed = await browser.open("/console/system?format=csv&table=settings")
    rows = [row["variable"] for row in csv.DictReader(io.StringIO(listed.text))]
    assert rows == [each["variable"] for each in settings]


async def test_findings_of_an_item_are_listed_by_its_id_and_go_on(
    api: Api, other: NewApiKey
) -> None:
    item = uuid4()
    key = await api.make_key("of-item", Scope.AUDIT, tenants=["of-item"])
    ids = list(map(str, await api.find("of-item", 4)))
    await api.owner.execute(
        "update ledger.finding set item_id = $2, first_seen_at = first_seen_at - n * interval"
        " '1 hour', type = case n when 3 then 'OVERDUE' else type end,"
        " closed_at = case n when 4 then ledger.now() end,"
        " resolution = case n when 4 then 'repaired' else resolution end"
        " from unnest($1::uuid[]) with ordinality u (of, n) where id = of",
        ids,
        item,
    )
    for filters, expected in (
        ("", [ids[2], ids[1], ids[0]]),
        ("&newest_first=true", ids[:3]),
        ("&closed=true", ids[::-1]),
        ("&type=OVERDUE", ids[2:3]),
        ("&tenant=umbra", []),
    ):
        found = list[str]()
        cursor = ""
        while cursor is not None:
            path = f"/v1/findings?item={item}&limit=1{filters}"
            answer = await api.ask("GET", path + (cursor and f"&cursor={cursor}"), key=key)
            found += [each["id"] for each in answer.document["items"]]
            cursor = answer.document["next_cursor"]
        assert found == expected, filters
    person = await api.make_key("takes-of-item", Scope.APPROVE, tenants=["of-item"])
    await api.ask("POST", f"/v1/findings/{ids[1]}/take", key=person, body={})
    answer = await api.ask("GET", f"/v1/findings?item={item}", key=key)
    takers = {each["id"]: each["taken_by"] for each in answer.document["items"]}
    assert takers == {ids[0]: None, ids[1]: "key:takes-of-item", ids[2]: None}
    hidden = await api.ask("GET", f"/v1/findings?item={item}", key=other)
    assert hidden.document == {"items": [], "next_cursor": None}


async def test_findings_are_listed_newest_first_and_of_a_day_too(
    api: Api, other: NewApiKey, everyone: NewApiKey, browser: Browser
) -> None:
    ids = list(map(str, await api.find("ordered", 4)))
    await api.owner.execute(
        "update ledger.finding set first_seen_at = first_seen_at - n * interval '1 hour',"
        " effective_date = '2026-04-01'::date + n::integer % 2"
        " from unnest($1::uuid[]) with ordinality u (of, n) where id = of",
        ids,
    )
    own = await api.make_key("ordered", *Scope, tenants=["ordered"])
    for asked, filters in ((own, ""), (everyone, "&tenant=ordered"), (own, "&closed=true")):
        found = list[str]()
        cursor = ""
        while cursor is not None and len(found) < 5:
            path = f"/v1/findings?newest_first=true&limit=1{filters}"
            answer = await api.ask("GET", path + (cursor and f"&cursor={cursor}"), key=asked)
            found += [each["id"] for each in answer.document["items"]]
            cursor = answer.document["next_cursor"]
        assert found == ids
    oldest = (await api.ask("GET", "/v1/findings", key=own)).document["items"]
    assert [each["id"] for each in oldest] == ids[::-1]
    day = (await api.ask("GET", "/v1/findings?effective_date=2026-04-01", key=own)).document
    assert [each["id"] for each in day["items"]] == [ids[3], ids[1]]
    wrong = await api.ask("GET", "/v1/findings?effective_date=1700000000", key=own)
    problem(wrong, 422, "INVALID_INPUT")
    await browser.sign_in(own)
    path = "/console/reconciliation/findings?newest_first=true"
    listed = await browser.open(f"{path}&format=csv")
    seen = [row["first_seen_at"] for row in csv.DictReader(io.StringIO(listed.text))]
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(ids)
    assert "Newest first" in (await browser.open(path)).text
    hidden = await api.ask("GET", "/v1/findings?newest_first=true&tenant=ordered", key=other)
    assert hidden.document["items"] == []


OPENAPI = Path(__file__).parents[2] / "docs/openapi.json"
NOTED = {
    *("pauseFlows", "resumeFlows", "setFlowLimits", "createOperation", "putDefinition"),
    *("drainProcess", "commentOnReviews"),
}
"""Operations of which the function notes what it changes."""


def test_the_audit_names_what_an_action_of_a_page_changes_as_it_does_by_rest() -> None:
    paths = json.loads(OPENAPI.read_text())["paths"]
    by_rest = {
        route["operationId"]: resource_of(path)
        for path, routes in paths.items()
        for method, route in routes.items()
        if method != "get"
    }
    actions = [each for each in PAGES if isinstance(each, CallRoute) and each.is_audited]
    for each in actions:
        known = each.target, by_rest[each.operation_id or ""]
        if each.operation_id == "decideItems":
            assert known == ("items/{item}", "tenants/{tenant}")  # of one item, by its page
        elif each.operation_id in NOTED:
            assert each.target is None
        else:
            assert known[0] == known[1], each.operation_id


async def test_a_file_of_another_scheduler_is_converted_as_its_page_does(
    api: Api, browser: Browser, key: NewApiKey, other: NewApiKey
) -> None:
    asked = calls.convert_schedules(
        "acme",
        models.ConvertRequest(text=CRONTAB.replace("\n", "\r\n"), timezone="Europe/Berlin"),
    )
    assert asked.body is not None
    given = await api.ask(asked.method, asked.path, key=key, text=asked.body)
    assert given.status == 200, given.text
    found = asked.answer(given.text.encode())
    [job] = found.jobs
    fields = {"text": CRONTAB, "tenant": "acme", "timezone": "Europe/Berlin"}
    await browser.open("/console/schedules/import")
    page = await browser.send("/console/schedules/import?format=json&table=jobs", fields)
    [shown] = json.loads(page.text)
    assert (job.definition, job.frequency) == (shown["definition"], shown["frequency"])
    assert (job.where, [each.where for each in found.left_out]) == (shown["where"], ["text:3"])
    assert found.other_lines[0].text.startswith("MAILTO")
    assert {each.question for each in found.questions} == set(job.decide)
    count = "select count(*) from ledger.definition"
    before = await api.owner.fetchval(count)
    path = f"/v1/definitions/acme/{job.definition}"
    made = await api.ask("PUT", path, key=key, body=job.document)
    assert made.status == 200, made.text
    assert await api.owner.fetchval(count) == before + 1
    done = await browser.send("/console/schedules/import/define", fields)
    assert done.status == 303
    assert await api.owner.fetchval(count) == before + 1  # the page defines the same
    body = {"text": CRONTAB}
    problem(await api.ask("POST", asked.path, key=other, body=body), 404, "NOT_FOUND")
    reader = await api.make_key("only-reads", Scope.READ)
    problem(await api.ask("POST", asked.path, key=reader, body=body), 403, "NOT_PERMITTED")
    wrong = await api.ask("POST", asked.path, key=key, body={**body, "timezone": "Europe/Berln"})
    assert (wrong.status, "Europe/Berlin" in wrong.text) == (422, True)
