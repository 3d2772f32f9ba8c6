"""Definitions by HTTP: changed by version, previewed as they are put, worked, paused, triggered."""

from collections.abc import Sequence
from typing import Any

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import SCHEDULE, Answer, Api
from tests.service.test_requests import problem

PATH = "/v1/definitions/acme"
DAILY = {**SCHEDULE, "when": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}}


@pytest.fixture(scope="module")
async def operator(api: Api) -> NewApiKey:
    return await api.make_key("operator", Scope.READ, Scope.OPERATE)


async def put(
    api: Api, key: NewApiKey, name: str, document: dict[str, object], if_match: str | None = None
) -> Answer:
    headers = {} if if_match is None else {"If-Match": if_match}
    named = {**document, "business_key": name, "kind": f"{name}Due"}
    return await api.ask("PUT", f"{PATH}/{name}", key=key, body=named, headers=headers)


async def test_a_definition_is_changed_only_by_who_knows_its_version(
    api: Api, operator: NewApiKey
) -> None:
    problem(await put(api, operator, "first", SCHEDULE, '"1"'), 412, "PRECONDITION_FAILED")
    made = await put(api, operator, "first", SCHEDULE)
    assert (made.status, made.headers["ETag"]) == (200, '"1"')
    assert (made.document["version"], made.document["changed"]) == (1, True)
    problem(await put(api, operator, "first", DAILY), 428, "PRECONDITION_MISSING")
    problem(await put(api, operator, "first", DAILY, '"2"'), 412, "PRECONDITION_FAILED")
    problem(await put(api, operator, "first", DAILY, 'W/"1"'), 412, "PRECONDITION_FAILED")
    changed = await put(api, operator, "first", DAILY, '"1"')
    assert changed.headers["ETag"] == '"2"'
    assert changed.document["diff"]["fields"] == ["when"]
    same = await put(api, operator, "first", DAILY, '"2"')
    assert (same.document["changed"], same.headers["ETag"]) == (False, '"2"')
    read = await api.ask("GET", f"{PATH}/first", key=operator)
    assert (read.document["version"], read.document["state"]) == (2, "in force")
    assert read.document["defined_by"] == "key:operator"
    known = {"If-None-Match": read.headers["ETag"]}
    again = await api.ask("GET", f"{PATH}/first", key=operator, headers=known)
    assert (again.status, again.text) == (304, "")
    versions = await api.ask("GET", f"{PATH}/first/versions?limit=1", key=operator)
    assert [each["version"] for each in versions.document["items"]] == [2]
    after = f"{PATH}/first/versions?limit=1&cursor={versions.document['next_cursor']}"
    older = await api.ask("GET", after, key=operator)
    assert [each["version"] for each in older.document["items"]] == [1]


async def test_a_preview_says_what_putting_would_change_and_changes_nothing(
    api: Api, operator: NewApiKey
) -> None:
    document = {**SCHEDULE, "business_key": "second", "kind": "secondDue"}
    asked = f"{PATH}/second"
    shown = await api.ask("POST", f"{asked}/preview", key=operator, body=document)
    assert shown.status == 200, shown.text
    problem(await api.ask("GET", asked, key=operator), 404, "NOT_FOUND")
    made = await api.ask("PUT", asked, key=operator, body=document)
    assert {**shown.document["diff"], "since": 0, "until": 0} == {
        **made.document["diff"],
        "since": 0,
        "until": 0,
    }
    assert shown.document["diff"]["counts"]["added"] >= 1
    listed = await api.ask("GET", "/v1/definitions?kind=secondDue", key=operator)
    assert [each["definition"] for each in listed.document["items"]] == ["second"]


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"when": {"cron": "0 9 * *", "timezone": "Europe/Berln"}}, ["/when/cron"]),
        ({"when": None, "colour": 1}, ["/colour"]),
        ({"tenant": "umbra"}, ["/tenant"]),
        ({"cancel_on": [{"foo": 1}]}, ["/cancel_on/0/event", "/cancel_on/0/business_key"]),
        ({"calendar": {"name": "none", "roll": "skip"}}, ["/calendar/name"]),
    ],
)
async def test_a_wrong_member_of_a_document_is_pointed_at(
    api: Api, operator: NewApiKey, change: dict[str, Any], pointers: Sequence[str]
) -> None:
    answer = await put(api, operator, "wrong", {**SCHEDULE, **change})
    found = problem(answer, 422, answer.document["code"])
    assert set(pointers) <= {each.pointer for each in found.errors}
    assert (await api.ask("GET", f"{PATH}/wrong", key=operator)).status == 404


async def test_the_next_times_of_a_schedule_are_listed(api: Api, operator: NewApiKey) -> None:
    await put(api, operator, "third", DAILY)
    asked = f"{PATH}/third/occurrences?count=3&from=2027-03-27T00:00:00Z"
    shown = await api.ask("GET", asked, key=operator)
    assert [each["due_at"] for each in shown.document["occurrences"]] == [
        "2027-03-27T08:00:00Z",
        "2027-03-28T07:00:00Z",
        "2027-03-29T07:00:00Z",
    ]


async def test_a_triggered_item_is_an_execution_in_the_name_of_the_key_once_for_a_cycle(
    api: Api, operator: NewApiKey
) -> None:
    await put(api, operator, "fourth", DAILY)
    body = {"reason": "late", "cycle": "rerun"}
    made, again = [
        await api.ask("POST", f"{PATH}/fourth/trigger", key=operator, body=body) for _ in range(2)
    ]
    assert (made.document["created"], again.document["created"]) == (True, False)
    await api.ask("POST", f"{PATH}/fourth/trigger", key=operator, body={"reason": "late"})
    first = await api.ask("GET", f"{PATH}/fourth/executions?limit=1", key=operator)
    cursor = first.document["next_cursor"]
    rest = await api.ask("GET", f"{PATH}/fourth/executions?cursor={cursor}&limit=1", key=operator)
    found = first.document["items"] + rest.document["items"]
    assert made.document["id"] in {each["id"] for each in found}
    assert {each["definition_version"] for each in found} == {1}
    item = await api.ask("GET", f"/v1/items/{made.document['id']}", key=operator)
    assert item.document["emitted_by"] == "key:operator"


async def test_a_page_of_executions_ends_after_so_many_bytes_of_evidence(
    api: Api, operator: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(api, operator, "evident", DAILY)
    for cycle in "abc":
        body = {"reason": "late", "cycle": cycle}
        await api.ask("POST", f"{PATH}/evident/trigger", key=operator, body=body)
    worker = await api.make_key("evident", Scope.WORK)
    claim = {"kinds": ["evidentDue"], "items_max": 3}
    claimed = (await api.ask("POST", "/v1/claims", key=worker, body=claim)).document["items"]
    names = ("item", "fence", "token", "position")
    outcomes = [
        {name: item[name] for name in names} | {"verdict": "completed", "evidence": {"n": "B"}}
        for item in claimed
    ]
    await api.ask("POST", "/v1/outcomes", key=worker, body={"outcomes": outcomes})
    monkeypatch.setattr("dueledger.items.EXECUTIONS_AT_ONCE", 1)
    monkeypatch.setattr("dueledger.service.routes.definitions.PAGE_BYTES_MAX", 1)
    counts: list[int] = []
    cursor = ""
    while cursor is not None:
        page = await api.ask("GET", f"{PATH}/evident/executions?limit=50{cursor}", key=operator)
        counts.append(len(page.document["items"]))
        cursor = page.document["next_cursor"] and f"&cursor={page.document['next_cursor']}"
    assert counts == [1, 1, 1]


async def test_a_pause_stops_the_kind_and_resuming_ends_it(api: Api, operator: NewApiKey) -> None:
    await put(api, operator, "fifth", DAILY)
    body = {"reason": "INC-1"}
    await api.ask("POST", f"{PATH}/fifth/trigger", key=operator, body=body)
    paused = await api.ask("POST", f"{PATH}/fifth/pause", key=operator, body=body)
    assert [each["kind"] for each in paused.document["flows"]] == ["fifthDue"]
    assert [each["reason"] for each in paused.document["pauses"]] == ["INC-1"]
    again = await api.ask("POST", f"{PATH}/fifth/pause", key=operator, body=body)
    assert again.document == {"pauses": [], "flows": []}
    resumed = await api.ask("POST", f"{PATH}/fifth/resume", key=operator)
    assert [each["kind"] for each in resumed.document["flows"]] == ["fifthDue"]


async def test_kinds_of_others_that_share_a_topic_are_not_named(
    api: Api, operator: NewApiKey
) -> None:
    topic = {"kafka": {"topic": "shared.statements", "compression": "gzip"}}
    await api.define("umbra", "hidden", {**SCHEDULE, "kind": "HiddenDue", "dispatch": topic})
    topic = {"kafka": {"topic": "shared.statements", "compression": "lz4"}}
    answer = await put(api, operator, "sixth", {**SCHEDULE, "dispatch": topic})
    found = problem(answer, 422, "INVALID_INPUT")
    assert "another tenant" in found.errors[0].detail
    assert "umbra" not in answer.text
    assert "Hidden" not in answer.text
