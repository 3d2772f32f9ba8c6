"""What people decide by HTTP: about items, operations, flows, findings and repairs."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.operations import advance_operation
from tests.service.conftest import Answer, Api
from tests.service.test_requests import problem

DECISIONS = "/v1/tenants/acme/decisions"
OPERATIONS = "/v1/tenants/acme/operations"
NEWEST = "/v1/reviews?kind=Reviewed&newest_first=true"
FLOW = "/v1/flows/acme/PolicyRenewalDue"
UNTIL = "2199-01-01T09:00:00Z"
SNOOZE = {"verb": "snooze"}
NAMED = {"ids": [str(UUID(int=1))]}
NO_TIMES = (
    *(None, "", "infinity", "2199-01-01T09:00", "2199-01-01", "1e9", 4_102_444_800),
    *("2020-01-01T09:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
)
"""Not to come, without a zone, or beyond the years of items."""


@pytest.fixture(scope="module")
async def operator(api: Api) -> NewApiKey:
    """A key of the tenant acme that may read and operate."""
    return await api.make_key("ops", Scope.READ, Scope.OPERATE)


async def parked(api: Api, key: NewApiKey, *keys: str) -> list[UUID]:
    ids = await api.emit(key, *(api.item(each, kind="Reviewed") for each in keys))
    await api.park(*ids)
    return ids


async def results(api: Api, key: NewApiKey, body: dict[str, Any], **headers: str) -> list[str]:
    answer = await api.ask("POST", DECISIONS, key=key, body=body, headers=headers)
    assert answer.status == 200, answer.text
    return [each["result"] for each in answer.document["items"]]


async def test_g2_parked_items_are_listed_and_decided_in_the_name_of_the_key(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    first, second, third = await parked(api, key, "R-1", "R-2", "R-3")
    page = await api.ask("GET", "/v1/reviews?kind=Reviewed&limit=2", key=operator)
    more = f"/v1/reviews?kind=Reviewed&limit=2&cursor={page.document['next_cursor']}"
    rest = await api.ask("GET", more, key=operator)
    listed = [*page.document["items"], *rest.document["items"]]
    assert {each["id"] for each in listed} == {str(each) for each in (first, second, third)}
    assert len(listed) == 3
    newest = await api.ask("GET", f"{NEWEST}&limit=2", key=operator)
    more = f"{NEWEST}&limit=2&cursor={newest.document['next_cursor']}"
    older = await api.ask("GET", more, key=operator)
    assert [*newest.document["items"], *older.document["items"]] == listed[::-1]
    assert older.document["next_cursor"] is None
    assert '"payload":{"premium":"123.45"}' in page.text.replace(" ", "")
    assert (listed[0]["reason"], rest.document["next_cursor"]) == ("attempts exhausted", None)

    redriven = {"verb": "redrive", "ids": [str(first), str(uuid4())], "reason": "INC-1"}
    for _ in range(2):  # as after a lost response
        found = await results(api, operator, redriven, **{"Idempotency-Key": "redrive-1"})
        assert found == ["done", "unknown"]
    assert await results(api, operator, redriven) == ["illegal", "unknown"]
    named = {"verb": "write_off", "business_keys": ["R-2", "R-3"], "reason": "INC-1"}
    assert await results(api, operator, named) == ["done", "done"]
    timeline = await api.ask("GET", f"/v1/items/{second}/timeline", key=operator)
    last = timeline.document["items"][-1]
    assert (last["event"], last["actor"]) == ("written_off", "key:ops")
    assert last["detail"] == {"reason": "INC-1"}
    assert problem(
        await api.ask("POST", DECISIONS, key=operator, body=named), 404, "NOT_FOUND"
    ).detail.startswith("write-off applies to no item of R-2, R-3")


async def test_an_operation_is_counted_recorded_carried_out_paused_and_aborted(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    others = await api.make_key("emits-for-umbra", Scope.EMIT, tenants=["umbra"])
    theirs = await api.emit(others, api.item("R-4", kind="Counted", tenant="umbra"))
    ids = await api.emit(key, *(api.item(f"R-{no}", kind="Counted") for no in (4, 5)))
    await api.park(*ids, *theirs)
    filtered = {"verb": "redrive", "kind": "Counted", "parked_reason": "attempts exhausted"}
    counted = await api.ask("POST", f"{OPERATIONS}/preview", key=operator, body=filtered)
    assert (counted.document["items"], counted.document["capped"]) == (2, False)
    assert sorted(counted.document["groups"][0]["business_keys"]) == ["R-4", "R-5"]

    body = filtered | {"reason": "INC-2"}
    headers = {"Idempotency-Key": "operation-1"}
    made = [
        await api.ask("POST", OPERATIONS, key=operator, body=body, headers=headers)
        for _ in range(2)
    ]
    assert [each.status for each in made] == [202, 202]
    assert made[0].document == made[1].document
    number = made[0].document["operation_no"]
    assert {each.headers["Location"] for each in made} == {f"/v1/operations/{number}"}
    assert (made[0].document["matched"], made[0].document["requested_by"]) == (2, "key:ops")
    await advance_operation(api.owner, number)
    shown = (await api.ask("GET", f"/v1/operations/{number}", key=operator)).document
    assert (shown["status"], shown["done"]) == ("done", 2)
    for change in ("pause", "resume", "abort"):
        path = f"/v1/operations/{number}/{change}"
        late = await api.ask("POST", path, key=operator, body={"reason": "late"})
        assert "it has ended" in problem(late, 409, "CONFLICT").detail
    again = await api.ask("POST", OPERATIONS, key=operator, body=body)
    assert "No item matches" in problem(again, 404, "NOT_FOUND").detail

    body = {"verb": "cancel", "kind": "Counted", "reason": "INC-3"}
    number = (await api.ask("POST", OPERATIONS, key=operator, body=body)).document["operation_no"]
    for change, status in (("pause", "paused"), ("resume", "waiting")):
        for reason in ("INC-4", "INC-5"):
            path = f"/v1/operations/{number}/{change}"
            shown = await api.ask("POST", path, key=operator, body={"reason": reason})
            assert shown.document["status"] == status
            assert shown.document["pause_reason"] == ("INC-4" if change == "pause" else None)
    for _ in range(2):
        aborted = await api.ask(
            "POST", f"/v1/operations/{number}/abort", key=operator, body={"reason": "wrong kind"}
        )
        assert (aborted.document["status"], aborted.document["aborted_by"]) == (
            "aborted",
            "key:ops",
        )
    listed = (await api.ask("GET", "/v1/operations?limit=1", key=operator)).document
    assert [each["operation_no"] for each in listed["items"]] == [number]


@pytest.mark.parametrize(
    ("path", "change", "pointer"),
    [
        (DECISIONS, {"ids": []}, "/ids"),
        (DECISIONS, {"ids": ["P-1"]}, "/ids/0"),
        (DECISIONS, {}, ""),
        (DECISIONS, {"ids": [str(uuid4())], "business_keys": ["P-1"]}, ""),
        (DECISIONS, {"ids": [str(uuid4())], "lane": "eu"}, ""),
        (DECISIONS, {"business_keys": ["P\u0000"]}, "/business_keys/0"),
        (DECISIONS, {"verb": "delete", "business_keys": ["P-1"]}, "/verb"),
        (OPERATIONS, {"reason": ""}, "/reason"),
        (OPERATIONS, {"tenant": "umbra"}, "/tenant"),
        (OPERATIONS, {"since": 1_800_000_000}, "/since"),
        (OPERATIONS, {"error": "\u001b[2J"}, "/error"),
        (f"{OPERATIONS}/preview", {"reason": "none is taken"}, "/reason"),
        (DECISIONS, {"until": UNTIL, **NAMED}, "/until"),
        *((OPERATIONS, {"until": until} | SNOOZE, "/until") for until in NO_TIMES),
        *((DECISIONS, {"until": until, **NAMED} | SNOOZE, "/until") for until in NO_TIMES),
        *((f"{OPERATIONS}/preview", {"until": until} | SNOOZE, "/until") for until in NO_TIMES),
    ],
)
async def test_a_wrong_decision_is_pointed_at(
    api: Api, operator: NewApiKey, path: str, change: dict[str, Any], pointer: str
) -> None:
    body = {"verb": "redrive"} | ({} if path.endswith("preview") else {"reason": "INC-1"})
    answer = await api.ask("POST", path, key=operator, body=body | change)
    found = problem(answer, 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == [pointer]


async def test_the_limits_of_a_flow_are_changed_within_their_bounds_or_not_at_all(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    await api.emit(key, api.item("F-1"), api.item("F-2", lane="eu"))
    body = {"rate_per_second": 50, "concurrency_max": 10, "circuit_failure_ratio": 0.5}
    changed = await api.ask("PATCH", FLOW, key=operator, body=body)
    assert [(each["lane"], each["rate_per_second"]) for each in changed.document["flows"]] == [
        ("", 50.0)
    ]
    body = {"lane": None, "rate_per_second": None, "weight": 3}
    changed = await api.ask("PATCH", FLOW, key=operator, body=body)
    limits = [(f["lane"], f["rate_per_second"], f["weight"]) for f in changed.document["flows"]]
    assert limits == [("", None, 3), ("eu", None, 3)]
    for wrong, pointer in (
        ({}, ""),
        ({"lane": "eu"}, ""),
        ({"weight": None}, "/weight"),
        ({"weight": 1.5}, "/weight"),
        ({"rate_per_second": 0}, "/rate_per_second"),
        ({"retry_share": 2, "lane": None}, "/retry_share"),
        ({"priority": 1}, "/priority"),
    ):
        answer = await api.ask("PATCH", FLOW, key=operator, body=wrong)
        assert [each.pointer for each in problem(answer, 422, "INVALID_INPUT").errors] == [pointer]
    shown = await api.ask("GET", f"{FLOW}?lane=eu", key=operator)
    assert (shown.document["weight"], shown.document["due"]) == (3, 1)
    assert shown.document["available_since"] is not None
    assert shown.document["in_flight"] is None
    problem(await api.ask("GET", f"{FLOW}?lane=us", key=operator), 404, "NOT_FOUND")
    author = await api.owner.fetchval(
        "select a.name from ledger.flow_change c join ledger.actor a using (actor_no) limit 1"
    )
    assert author == "key:ops"


async def test_of_two_changes_of_the_limits_that_were_read_the_second_is_refused(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    lanes = ("", "eu")
    await api.emit(key, *(api.item(f"F-9{lane}", kind="Matched", lane=lane) for lane in lanes))
    path = "/v1/flows/acme/Matched"
    read = (await api.ask("GET", path, key=operator)).headers["ETag"]
    given = {"If-Match": read}

    async def change(**body: object) -> Answer:
        return await api.ask("PATCH", path, key=operator, body=body, headers=given)

    first = await change(weight=3)
    assert first.document["flows"][0]["weight"] == 3
    second = problem(await change(weight=4), 412, "PRECONDITION_FAILED")
    assert first.headers["ETag"] in second.detail
    shown = await api.ask("GET", path, key=operator)
    assert (shown.document["weight"], shown.headers["ETag"]) == (3, first.headers["ETag"])
    for if_match in (read, "*"):
        given = {"If-Match": if_match}
        found = problem(await change(lane=None, weight=4), 422, "INVALID_INPUT")
        assert [each.pointer for each in found.errors] == ["/lane"]
        problem(await change(lane="us", weight=4), 404, "NOT_FOUND")
    assert (await change(weight=2)).status == 200  # whatever the limits of this flow are
    given = {}
    assert (await change(weight=1)).headers["ETag"] == read


async def test_flows_are_paused_and_resumed_with_a_reason(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    await api.emit(key, api.item("F-3", kind="Paused"), api.item("F-4", kind="Paused", lane="eu"))
    wide = {"kind": "Paused", "reason": "INC-4"}
    paused = await api.ask("POST", "/v1/tenants/acme/pause", key=operator, body=wide)
    assert [each["lane"] for each in paused.document["flows"]] == ["", "eu"]
    narrow = wide | {"lane": "eu", "reason": "INC-5", "until": "2190-01-01T10:00:00+01:00"}
    for _ in range(2):
        await api.ask("POST", "/v1/tenants/acme/pause", key=operator, body=narrow)
    over = narrow | {"until": "2026-01-01T00:00:00Z"}
    refused = await api.ask("POST", "/v1/tenants/acme/pause", key=operator, body=over)
    assert [each.pointer for each in problem(refused, 422, "INVALID_INPUT").errors] == ["/until"]
    audited = await api.owner.fetch(
        "select detail ->> 'until' as until from ledger.audit where target = 'flows/acme/Paused/eu'"
    )
    assert [row["until"] for row in audited] == ["2190-01-01T10:00:00+01:00"]
    first = (await api.ask("GET", "/v1/pauses?limit=1", key=operator)).document
    rest = await api.ask("GET", f"/v1/pauses?limit=1&cursor={first['next_cursor']}", key=operator)
    shown = [
        (e["lane"], e["reason"], e["paused_by"], e["paused_until"])
        for e in (*first["items"], *rest.document["items"])
    ]
    assert shown == [
        (None, "INC-4", "key:ops", None),
        ("eu", "INC-5", "key:ops", "2190-01-01T09:00:00Z"),
    ]
    flows = await api.ask("GET", "/v1/flows?kind=Paused", key=operator)
    assert {each["pause_reason"] for each in flows.document["items"]} == {"INC-4"}
    resumed = await api.ask(
        "POST", "/v1/tenants/acme/resume", key=operator, body={"kind": "Paused", "lane": "eu"}
    )
    assert [each["reason"] for each in resumed.document["flows"]] == ["INC-4"]
    await api.ask("POST", "/v1/tenants/acme/resume", key=operator, body={"kind": "Paused"})
    assert (await api.ask("GET", "/v1/pauses", key=operator)).document["items"] == []


async def test_g11_findings_are_resolved_and_repairs_approved_by_others_than_their_proposers(
    api: Api,
) -> None:
    """The actor decides, not the key: keys that replace each other are one."""
    auditor = await api.make_key("audit", Scope.AUDIT)
    maker, checker = [await api.make_key(name, Scope.APPROVE) for name in ("maker", "checker")]
    maker_no = await api.owner.fetchval(
        "select actor_no from ledger.actor where name = 'key:maker'"
    )
    first, second, third = await api.find("acme", 3)
    repair = await api.propose(first, maker_no)
    page = await api.ask("GET", "/v1/findings?kind=LetterDue&type=MISSING&limit=2", key=auditor)
    more = f"/v1/findings?kind=LetterDue&type=MISSING&limit=2&cursor={page.document['next_cursor']}"
    rest = await api.ask("GET", more, key=auditor)
    ids = {each["id"] for each in (*page.document["items"], *rest.document["items"])}
    assert ids == {str(first), str(second), str(third)}
    [waiting] = (await api.ask("GET", "/v1/repairs", key=auditor)).document["items"]
    assert (waiting["id"], waiting["would"]) == (str(repair), "Emit it.")

    reason = {"reason": "a bank holiday"}
    approving = f"/v1/repairs/{repair}/approve"
    own = await api.ask("POST", approving, key=maker, body=reason)
    assert "somebody else" in problem(own, 409, "CONFLICT").detail
    own = await api.ask("POST", f"/v1/findings/{first}/accept", key=maker, body=reason)
    assert "somebody else" in problem(own, 409, "CONFLICT").detail
    approved = await api.ask("POST", approving, key=checker, body=reason)
    assert approved.document == {"id": str(repair), "result": "done"}
    twice = await api.ask("POST", approving, key=checker, body=reason)
    assert "is approved already" in problem(twice, 409, "CONFLICT").detail

    explained = await api.ask("POST", f"/v1/findings/{second}/explain", key=maker, body=reason)
    assert explained.document == {"id": str(second), "resolution": "explained"}
    late = await api.ask("POST", f"/v1/findings/{second}/accept", key=checker, body=reason)
    assert "is explained already" in problem(late, 409, "CONFLICT").detail
    shown = (await api.ask("GET", f"/v1/findings/{second}", key=auditor)).document
    assert (shown["resolution"], shown["resolved_by"]) == ("explained", "key:maker")
    found = (await api.ask("GET", f"/v1/findings/{first}", key=auditor)).document
    assert found["repairs"][0]["approved_by"] == "key:checker"


async def test_items_are_snoozed_by_id_and_by_filter_in_the_name_of_the_key(
    api: Api, key: NewApiKey, operator: NewApiKey
) -> None:
    first, second = await api.emit(key, *(api.item(f"S-{no}", kind="Dozing") for no in (1, 2)))
    named = {"verb": "snooze", "ids": [str(first)], "reason": "INC-1", "until": UNTIL}
    assert await results(api, operator, named) == ["done"]
    answer = await api.ask("POST", DECISIONS, key=operator, body=named)
    [again] = answer.document["items"]
    assert again["result"] == "illegal"
    assert again["reason"] == "it is not handed out before that anyway"
    why = (await api.ask("GET", f"/v1/items/{first}/why", key=operator)).document
    assert why["code"] == "PUT_OFF"
    assert why["sentence"].startswith("key:ops snoozed it until 2199-01-01 09:00:00 UTC, ")
    assert why["sentence"].endswith(" from now: INC-1.")
    timeline = await api.ask("GET", f"/v1/items/{first}/timeline", key=operator)
    last = timeline.document["items"][-1]
    assert (last["event"], last["actor"]) == ("snoozed", "key:ops")
    assert last["detail"]["until"] == "2199-01-01T09:00:00+00:00"

    filtered = {"verb": "snooze", "kind": "Dozing", "until": UNTIL}
    counted = await api.ask("POST", f"{OPERATIONS}/preview", key=operator, body=filtered)
    assert counted.document["items"] == 1
    asked = await api.ask("POST", OPERATIONS, key=operator, body={**filtered, "reason": "INC-2"})
    assert asked.status == 202, asked.text
    assert asked.document["until"] == UNTIL
    await advance_operation(api.owner, asked.document["operation_no"])
    why = (await api.ask("GET", f"/v1/items/{second}/why", key=operator)).document
    assert why["code"] == "PUT_OFF"
    details = await api.owner.fetch(
        "select detail from ledger.audit where detail ->> 'verb' = 'snooze' order by audit_no"
    )
    assert {row["detail"]["until"] for row in details} == {"2199-01-01T09:00:00+00:00"}
    assert len(details) == 2
