"""Reviews: parked items by reason and error, decided together; a second person for repairs."""

import csv
import io
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape

from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.operations import advance_operation
from dueledger.ledger.store.processes import ProcessRole, end_process, register_process
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

DECIDE = re.compile(r'href="/console(/reviews/acme/decide\?[^"]*Timeout[^"]*)"')


@asynccontextmanager
async def upkeep(api: Api) -> AsyncGenerator[None]:
    """Have an allocator that lives, which does upkeep."""
    number = await register_actor(api.owner, "allocator:host:7:abcd", ActorKind.ALLOCATOR)
    await register_process(
        api.owner,
        number,
        ProcessRole.ALLOCATOR,
        host="host",
        version="0.1.0",
        yields=False,
        kinds=None,
    )
    yield
    await end_process(api.owner, number)


async def test_parked_items_of_one_error_are_redriven_as_one_operation(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    ids = await api.emit(key, *(api.item(f"G-{number}", kind="Grouped") for number in range(3)))
    await api.owner.execute(
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at,"
        " detail) select effective_date, item_no, 6, 1, $2, ledger.now(), $3::jsonb"
        " from ledger.due_item where id = any ($1::uuid[])",
        ids[:2],
        api.person_no,
        {"error": "TimeoutError", "message": "no answer in 5 s"},
    )
    await api.park(*ids)
    item = (await browser.open(f"/console/items/{ids[0]}")).text
    causes = re.findall('<p class="cause">([^<]+)</p>', item)
    assert causes == ["TimeoutError", "no answer in 5 s"]
    listed = await browser.open("/console/reviews?kind=Grouped&format=csv")
    groups = list(csv.DictReader(io.StringIO(listed.text)))
    assert [(each["error"], each["items"]) for each in groups] == [("TimeoutError", "2"), ("", "1")]
    page = await browser.open("/console/reviews?kind=Grouped")
    assert "3 items wait for a person." in page.text
    assert "no answer in 5 s" in page.text
    [decide] = {unescape(each) for each in DECIDE.findall(page.text)}
    preview = await browser.open(f"/console{decide}")
    assert "2 items match" in preview.text
    assert "Redrive: 2 items</button>" in preview.text
    assert "How long that takes is not known" in preview.text
    assert "parked items of the kind: 1 with another last error.</p>" in preview.text
    assert [f"G-{number}" in preview.text for number in range(3)] == [True, True, False]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', preview.text))
    assert fields["error"] == "TimeoutError"
    path = "/console/reviews/acme/decide"
    assert (await browser.send(path, fields)).status == 422
    done = await browser.send(path, {**fields, "reason": "INC-1"})
    assert done.status == 303, done.text
    number = int(done.location.rpartition("/")[2])
    waiting = await browser.open(done.location)
    assert "No process carries operations out" in waiting.text
    assert "How long it takes is not known before its first step." in waiting.text
    await advance_operation(api.owner, number)
    shown = await browser.open(done.location)
    assert "2 of 2 items are done" in shown.text
    assert "INC-1" in shown.text
    late = await browser.send(f"{done.location}/abort", {"reason": "late"})
    assert late.status == 409
    assert "it has ended" in late.text
    assert '/abort"' not in shown.text
    assert 'Abort</button> <span id="action-abort">it has ended</span>' in shown.text
    left = await browser.open("/console/reviews/parked?kind=Grouped&format=csv")
    assert [each["business_key"] for each in csv.DictReader(io.StringIO(left.text))] == ["G-2"]
    entry = await api.owner.fetchrow(
        "select operation, target, tenants, reason from ledger.audit order by audit_no desc limit 1"
    )
    assert entry is not None
    assert tuple(entry) == ("createOperation", f"operations/{number}", ["acme"], "INC-1")


async def test_a_person_takes_parked_items_and_others_see_who_has_them(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    ids = await api.emit(key, *(api.item(f"W-{number}", kind="Wanted") for number in range(2)))
    await api.park(*ids)
    item, decide = f"/console/items/{ids[0]}", "/console/reviews/acme/decide?kind=Wanted"
    assert "Nobody has taken it." in (await browser.open(item)).text
    assert "Nobody has taken any of them." in (await browser.open(decide)).text
    lists = "/console/reviews/parked?kind=Wanted&format=csv"
    oldest, newest = [
        [row["business_key"] for row in csv.DictReader(io.StringIO(listed.text))]
        for listed in (await browser.open(lists), await browser.open(f"{lists}&newest_first=true"))
    ]
    assert newest == oldest[::-1]
    assert sorted(newest) == ["W-0", "W-1"]
    path = "/console/reviews/acme"
    done = await browser.send(f"{path}/take", {"item": str(ids[0])})
    assert done.location == item
    page = (await browser.open(item)).text
    assert "Taken: 1 item." in page
    assert "Taken by key:person." in page
    assert f"{path}/return" in page
    async with open_browser(api) as other:
        await other.sign_in(await api.make_key("colleague", *Scope))
        page = (await other.open(decide)).text
        assert "Taken by key:person, 1 of 2." in page
        assert "Take from key:person</button>" in page
        refused = await other.send(f"{path}/take", {"item": str(ids[0])})
        assert (refused.status, "key:person has taken it" in refused.text) == (409, True)
        rest = await other.send(f"{path}/take", {"kind": "Wanted", "default_lane": "true"})
        assert rest.location == f"{decide}&default_lane=true"
        page = (await other.open(rest.location)).text
        assert "Taken: 1 item. 1 stay with key:person." in page
        assert "Taken by key:colleague, key:person." in page
        said = await other.send(f"{path}/comments", {"kind": "Wanted", "comment": "INC-7: asked"})
        assert said.location == decide
        assert "INC-7: asked" in (await other.open(decide)).text
        written = await other.open(f"{decide}&format=csv&table=comments")
        [comment] = csv.DictReader(io.StringIO(written.text))
        assert comment["comment"] == "INC-7: asked"
        named = {"item": str(ids[0]), "instead_of": "key:person"}
        assert (await other.send(f"{path}/take", named)).status == 303
        assert (await other.send(f"{path}/comments", {"item": str(ids[0])})).status == 422
    page = (await browser.open(item)).text
    assert "Taken by key:colleague." in page
    assert "INC-7: asked" in page
    listed = await browser.open("/console/reviews?kind=Wanted&format=csv")
    [group] = csv.DictReader(io.StringIO(listed.text))
    assert group["takers"] == "key:colleague"
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("watches", Scope.READ))
        page = (await reader.open(item)).text
        assert "Taken by key:colleague." in page
        assert f"{path}/take" not in page


async def test_items_end_in_numbers_only_if_the_number_is_typed_and_a_person_may_abort(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.park(*await api.emit(key, api.item("N-1", kind="Numbered")))
    path = "/console/reviews/acme/decide"
    fields = {"verb": "write_off", "kind": "Numbered", "shown": "101", "reason": "INC-2"}
    refused = await browser.send(path, {**fields, "typed": "1"})
    assert refused.status == 422
    assert "Type their number" in refused.text
    done = await browser.send(path, {**fields, "typed": "101"})
    assert done.status == 303
    paused = await browser.send(f"{done.location}/pause", {"reason": "INC-7"})
    shown = (await browser.open(paused.location)).text
    assert "by key:person: INC-7" in shown
    assert 'Pause</button> <span id="action-pause">it is paused already</span>' in shown
    resumed = await browser.send(f"{done.location}/resume", {"reason": "it is up"})
    shown = (await browser.open(resumed.location)).text
    assert 'Resume</button> <span id="action-resume">it is not paused</span>' in shown
    assert "INC-7" not in shown
    aborted = await browser.send(f"{done.location}/abort", {"reason": "wrong kind"})
    assert aborted.location == done.location
    shown = await browser.open(done.location)
    assert "Aborted by key:person: wrong kind" in shown.text
    listed = await browser.open("/console/reviews/operations?format=csv")
    first = next(csv.DictReader(io.StringIO(listed.text)))
    assert (first["verb"], first["status"], first["done"]) == ("write_off", "aborted", "0")


async def test_a_decision_names_the_default_lane_and_no_other(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    items = [api.item(f"L-{lane}", kind="Laned", lane=lane) for lane in ("", "north")]
    await api.park(*await api.emit(key, *items))
    path = "/console/reviews/acme/decide?kind=Laned&default_lane=true"
    preview = await browser.open(path)
    assert "1 item matches" in preview.text
    assert "L-north" not in preview.text
    assert "1 in another lane." in preview.text


async def test_a_pause_of_a_flow_is_named_where_its_items_wait_for_a_person(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    items = [api.item(f"H-{lane}", kind="Halted", lane=lane) for lane in ("", "north")]
    await api.park(*await api.emit(key, *items))
    for reason, lane in (("INC-11", "north"), ("INC-12", "south")):
        scope = FlowScope("acme", "Halted", lane)
        await pause_flows(api.owner, scope, reason=reason, actor_no=api.person_no)
    for query, is_said in (("kind=Halted", True), ("kind=Numbered", False)):
        page = (await browser.open(f"/console/reviews?{query}")).text
        assert ("INC-11" in page, "INC-12" in page) == (is_said, False), query


async def test_conflicting_outcomes_are_listed_where_a_person_decides_to_those_who_audit(
    api: Api, browser: Browser
) -> None:
    conflict, missing = await api.find("acme", 2)
    await api.owner.execute(
        "update ledger.finding set type = 'OUTCOME_CONFLICT', kind = 'Twice' where id = $1",
        conflict,
    )
    page = (await browser.open("/console/reviews?kind=Twice")).text
    assert f"/console/reconciliation/findings/{conflict}" in page
    assert f"/console/reconciliation/findings/{missing}" not in page
    assert "1 finding waits for a person." in page
    [more] = re.findall('href="([^"]+)">All findings that wait for a decision', page)
    listed = await browser.open(f"{unescape(more)}&format=csv")
    assert [row["kind"] for row in csv.DictReader(io.StringIO(listed.text))] == ["Twice"]
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("reads conflicts", Scope.READ))
        page = (await reader.open("/console/reviews?kind=Twice")).text
        assert "Nothing that waits for a person matches the filter." in page
        assert "that wait for a decision" not in page
    page = (await browser.open("/console/reviews?kind=Numbered")).text
    assert f"/console/reconciliation/findings/{conflict}" not in page


async def test_a_repair_is_approved_by_a_second_person(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    [finding] = await api.find("acme")
    own = await api.owner.fetchval("select actor_no from ledger.actor where name = 'key:person'")
    repair = await api.propose(finding, own)
    page = await browser.open("/console/reviews")
    assert f"/console/reconciliation/findings/{finding}" in page.text
    path = f"/console/reconciliation/findings/{finding}"
    own_page = (await browser.open(path)).text
    words = ("Approve", "Explain", "Accept")
    assert [f">{each}</button> <span" in own_page for each in words] == [True] * 3
    assert not any(f'primary">{each}' in own_page for each in words)
    approve = f"/console/reconciliation/repairs/{repair}/approve"
    for action in (approve, f"{path}/explain", f"{path}/accept"):
        refused = await browser.send(action, {"reason": "INC-3"})
        assert refused.status == 409
        [why] = re.findall(r"you proposed [^<.]+", refused.text)
        assert f">{why}</span>" in own_page
    async with open_browser(api) as other:
        await other.sign_in(await api.make_key("checker", *Scope))
        assert "Approve</button>" in (await other.open(path)).text
        assert (await other.send(approve, {"reason": "INC-3"})).status == 303
        shown = await other.open(path)
        assert "approved by key:checker: INC-3" in shown.text
    assert key


async def test_who_may_not_decide_is_shown_no_button(api: Api, key: NewApiKey) -> None:
    await api.park(*await api.emit(key, api.item("B-1", kind="Buttons")))
    [finding] = await api.find("acme")
    await api.propose(finding, api.person_no)
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("reader", Scope.READ))
        page = await reader.open("/console/reviews?kind=Buttons")
        assert "1 item waits for a person." in page.text
        assert "/decide" not in page.text
        assert "Pending repairs" not in page.text
    async with open_browser(api) as auditor:
        await auditor.sign_in(await api.make_key("audits", Scope.READ, Scope.AUDIT))
        assert "Pending repairs" in (await auditor.open("/console/reviews")).text
        found = await auditor.open(f"/console/reconciliation/findings/{finding}")
        assert "Approve</button>" not in found.text
        assert "Explain</button>" not in found.text


async def test_a_decision_and_its_operation_say_how_long_it_takes(api: Api) -> None:
    key = await api.make_key("timed", *Scope, tenants=["timed"])
    items = [api.item(f"T-{number}", tenant="timed", kind="Timed") for number in range(2)]
    await api.park(*await api.emit(key, *items))
    path = "/console/reviews/timed/decide"
    took = (
        "update ledger.operation set done = 1000, matched = 2000, worked_seconds = 240000,"
        " advanced_at = ledger.now()"
    )
    async with open_browser(api) as browser:
        await browser.sign_in(key)
        unknown = await browser.open(f"{path}?kind=Timed")
        assert "How long that takes is not known" in unknown.text
        fields = {"verb": "redrive", "kind": "Timed", "shown": "2", "reason": "INC-1"}
        done = await browser.send(path, fields)
        number = int(done.location.rpartition("/")[2])
        await api.owner.execute(f"{took} where operation_no = $1", number)
        stopped = (await browser.open(done.location)).text
        assert "No process carries operations out, so no item is moved." in stopped
        assert "minutes left" not in stopped
        assert "Running" not in stopped
        lists = ("/console/reviews", "/console/reviews/operations")
        waiting = [(await browser.open(each)).text for each in lists]
        assert all("a process: <code>dueledger allocate</code>" in each for each in waiting)
        assert not any("Running" in each for each in waiting)
        async with upkeep(api):
            running = (await browser.open(done.location)).text
        assert "About 4,000 minutes left, at its rate so far." in running
        assert "No process carries operations out" not in running
        known = await browser.open(f"{path}?kind=Timed")
        assert "It takes about 8 minutes, by the tenant's last operations." in known.text
    body = {"verb": "redrive", "kind": "Timed"}
    counted = await api.ask("POST", "/v1/tenants/timed/operations/preview", key=key, body=body)
    assert (counted.document["items"], counted.document["seconds"]) == (2, 480)
    listed = await api.ask("GET", f"/v1/operations/{number}", key=key)
    assert listed.document["seconds_left"] == 240_000


async def test_operations_in_reviews_are_those_of_its_filter_and_lead_to_all_of_it(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    path, numbers = "/console/reviews/acme/decide", dict[str, str]()
    for kind in ("Kept", "Left"):
        await api.emit(key, api.item("O-1", kind=kind))
        fields = {"verb": "cancel", "kind": kind, "shown": "1", "reason": "INC-5"}
        numbers[kind] = (await browser.send(path, fields)).location.rpartition("/")[2]
    page = (await browser.open("/console/reviews?tenant=acme&kind=Kept")).text
    listed = re.findall(r'href="/console/reviews/operations/(\d+)"', page)
    assert listed == [numbers["Kept"]]
    [more] = re.findall(r'href="([^"]+)">All operations', page)
    assert unescape(more) == "/console/reviews/operations?tenant=acme&kind=Kept"
    rows = (await browser.open(f"{unescape(more)}&format=csv")).text
    assert [row["operation_no"] for row in csv.DictReader(io.StringIO(rows))] == listed


async def test_a_decision_about_a_finding_leads_back_to_the_list_with_its_filter(
    api: Api, browser: Browser
) -> None:
    for start, action, words in (
        ("/console/reviews?kind=Way0", "approve", "Reviews"),
        ("/console/reconciliation/repairs?kind=Way1", "approve", "Pending repairs"),
        ("/console/reconciliation/findings?kind=Way2", "accept", "Findings"),
        ("/console/reconciliation/findings?kind=Way3", "explain", "Findings"),
    ):
        [finding] = await api.find("acme")
        await api.owner.execute(
            "update ledger.finding set kind = $2 where id = $1", finding, start[-4:]
        )
        repair = await api.propose(finding, api.person_no)
        page = (await browser.open(start)).text
        [href] = set(re.findall(rf'href="([^"]+/findings/{finding}[^"]*)"', page))
        shown = (await browser.open(unescape(href))).text
        assert f'<a href="{start}">{words}</a>' in shown
        [back] = set(re.findall(r'name="back" value="([^"]+)"', shown))
        target = f"findings/{finding}" if action != "approve" else f"repairs/{repair}"
        fields = {"reason": "INC-3", "back": unescape(back), "finding": str(finding)}
        done = await browser.send(f"/console/reconciliation/{target}/{action}", fields)
        assert (done.status, done.location) == (303, start)


async def test_who_takes_a_finding_stays_at_it_and_may_go_back_to_the_list(
    api: Api, browser: Browser
) -> None:
    [finding] = await api.find("acme")
    start = "/reconciliation/findings?type=MISSING"
    path = f"/console/reconciliation/findings/{finding}"
    for action, more in (("take", {}), ("comments", {"comment": "asked"}), ("return", {})):
        done = await browser.send(f"{path}/{action}", {"back": start, **more})
        assert done.status == 303, done.text
        page = (await browser.open(done.location)).text
        assert f'<a href="/console{start}">Findings</a>' in page, action
        assert f'name="back" value="{start}"' in page, action
    approved = await api.propose(finding, api.person_no)
    fields = {"reason": "INC-3", "finding": str(finding), "back": "//evil.example"}
    done = await browser.send(f"/console/reconciliation/repairs/{approved}/approve", fields)
    assert done.location == path
