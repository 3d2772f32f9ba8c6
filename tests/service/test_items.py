"""Items by HTTP: emitted once, read as they are, explained."""

import json
from typing import Any

import jsonschema
import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import Api
from tests.service.test_requests import problem

DEFINITION = "/v1/definitions/{tenant}/{name}"
OPERATIONS = {
    ("/health/live", "get"): "getLiveness",
    ("/metrics", "get"): "getMetrics",
    ("/health/ready", "get"): "getReadiness",
    ("/problems", "get"): "listProblems",
    ("/v1/items", "get"): "listItems",
    ("/v1/items", "post"): "emitItems",
    ("/v1/items/{item}", "get"): "getItem",
    ("/v1/items/{item}/timeline", "get"): "getItemTimeline",
    ("/v1/items/{item}/why", "get"): "explainItem",
    ("/v1/definitions", "get"): "listDefinitions",
    (DEFINITION, "get"): "getDefinition",
    (DEFINITION, "put"): "putDefinition",
    (f"{DEFINITION}/versions", "get"): "listDefinitionVersions",
    (f"{DEFINITION}/executions", "get"): "listExecutions",
    (f"{DEFINITION}/occurrences", "get"): "listOccurrences",
    (f"{DEFINITION}/preview", "post"): "previewDefinition",
    ("/v1/tenants/{tenant}/definitions/convert", "post"): "convertSchedules",
    (f"{DEFINITION}/pause", "post"): "pauseDefinition",
    (f"{DEFINITION}/resume", "post"): "resumeDefinition",
    (f"{DEFINITION}/trigger", "post"): "triggerDefinition",
    ("/v1/calendars", "get"): "listCalendars",
    ("/v1/calendars/{tenant}/{name}", "get"): "getCalendar",
    ("/v1/calendars/{tenant}/{name}", "put"): "putCalendar",
    ("/v1/events", "post"): "recordEvent",
    ("/v1/keys", "get"): "listKeys",
    ("/v1/keys", "post"): "createKey",
    ("/v1/keys/{prefix}/rotate", "post"): "rotateKey",
    ("/v1/keys/{prefix}/revoke", "post"): "revokeKey",
    ("/v1/claims", "post"): "claimItems",
    ("/v1/outcomes", "post"): "reportOutcomes",
    ("/v1/reviews", "get"): "listReviews",
    ("/v1/reviews/groups", "get"): "listReviewGroups",
    ("/v1/findings/counts", "get"): "countFindings",
    ("/v1/findings/missing", "get"): "listMissing",
    ("/v1/watermarks", "get"): "listWatermarks",
    ("/v1/processes", "get"): "listProcesses",
    ("/v1/processes/{process}/drain", "post"): "drainProcess",
    ("/v1/topics", "get"): "listTopics",
    ("/v1/topics/{topic}/partitions", "get"): "listTopicPartitions",
    ("/v1/alerts", "get"): "listAlerts",
    ("/v1/checks", "get"): "listChecks",
    ("/v1/settings", "get"): "listSettings",
    ("/v1/tenants/{tenant}/decisions", "post"): "decideItems",
    ("/v1/tenants/{tenant}/operations/preview", "post"): "previewOperation",
    ("/v1/tenants/{tenant}/operations", "post"): "createOperation",
    ("/v1/audit", "get"): "listAudit",
    ("/v1/operations", "get"): "listOperations",
    ("/v1/operations/{operation}", "get"): "getOperation",
    ("/v1/operations/{operation}/approve", "post"): "approveOperation",
    ("/v1/operations/{operation}/pause", "post"): "pauseOperation",
    ("/v1/operations/{operation}/resume", "post"): "resumeOperation",
    ("/v1/operations/{operation}/abort", "post"): "abortOperation",
    ("/v1/tenants/{tenant}/reviews/take", "post"): "takeReviews",
    ("/v1/tenants/{tenant}/reviews/return", "post"): "returnReviews",
    ("/v1/tenants/{tenant}/reviews/comments", "get"): "listReviewComments",
    ("/v1/tenants/{tenant}/reviews/comments", "post"): "commentOnReviews",
    ("/v1/flows", "get"): "listFlows",
    ("/v1/flows/{tenant}/{kind}", "get"): "getFlow",
    ("/v1/flows/{tenant}/{kind}", "patch"): "setFlowLimits",
    ("/v1/pauses", "get"): "listPauses",
    ("/v1/throughput", "get"): "getThroughput",
    ("/v1/overview", "get"): "getOverview",
    ("/v1/status", "get"): "getStatus",
    ("/v1/past-load/days", "get"): "listPastDays",
    ("/v1/past-load/hours", "get"): "listPastHours",
    ("/v1/lateness", "get"): "getLateness",
    ("/v1/load", "get"): "getLoad",
    ("/v1/search", "get"): "search",
    ("/v1/search/keys", "get"): "suggestKeys",
    ("/v1/tenants/{tenant}/pause", "post"): "pauseFlows",
    ("/v1/tenants/{tenant}/resume", "post"): "resumeFlows",
    ("/v1/findings", "get"): "listFindings",
    ("/v1/findings/undecided", "get"): "listUndecidedFindings",
    ("/v1/findings/{finding}", "get"): "getFinding",
    ("/v1/findings/{finding}/take", "post"): "takeFinding",
    ("/v1/findings/{finding}/return", "post"): "returnFinding",
    ("/v1/findings/{finding}/comments", "post"): "commentOnFinding",
    ("/v1/findings/{finding}/comments", "get"): "listFindingComments",
    ("/v1/findings/{finding}/repair", "get"): "planRepair",
    ("/v1/findings/{finding}/repair", "post"): "proposeRepair",
    ("/v1/findings/{finding}/explain", "post"): "explainFinding",
    ("/v1/findings/{finding}/accept", "post"): "acceptFinding",
    ("/v1/repairs", "get"): "listRepairs",
    ("/v1/repairs/{repair}/approve", "post"): "approveRepair",
    ("/v1/reports", "get"): "listReports",
    ("/v1/reports/{number}", "get"): "getReport",
    ("/v1/reports/{number}/page", "get"): "getReportPage",
    ("/v1/reports/{number}/findings", "get"): "downloadReportFindings",
    ("/v1/reports/{number}/repairs", "get"): "downloadReportRepairs",
}
"""Generated clients call them so: none is renamed."""


async def test_g10_an_emission_that_is_repeated_changes_nothing(api: Api, key: NewApiKey) -> None:
    body = {"items": [api.item("P-10"), api.item("P-11")]}
    answers = [await api.ask("POST", "/v1/items", key=key, body=body) for _ in range(2)]
    verdicts = [[each["verdict"] for each in one.document["items"]] for one in answers]
    assert verdicts == [["created"] * 2, ["exists"] * 2]
    ids = [[each["id"] for each in one.document["items"]] for one in answers]
    assert ids[0] == ids[1]


TERMS: dict[str, object] = {
    "payload": {"premium": "1.00"},
    "due_at": "2026-01-01T10:00:00Z",
    "lane": "eu",
    "partition_key": "P",
    "labels": {"region": "eu"},
}


async def test_an_item_that_exists_with_other_terms_is_a_problem_that_names_them(
    api: Api, key: NewApiKey
) -> None:
    await api.emit(key, api.item("P-20"))
    same = api.item("P-20", payload={"premium": "123.45"}, lane="", labels=None)
    other = api.item("P-20") | TERMS
    body = {"items": [api.item("P-21"), same, other]}
    found = problem(await api.ask("POST", "/v1/items", key=key, body=body), 409, "KEY_CONFLICT")
    assert {each.pointer for each in found.errors} == {f"/items/2/{member}" for member in TERMS}
    emitted = "select count(*) from ledger.due_item where business_key = 'P-21'"
    assert await api.owner.fetchval(emitted) == 0


async def test_of_items_of_other_tenants_no_terms_are_compared(api: Api) -> None:
    everybody = await api.make_key("all", Scope.EMIT, tenants=None)
    await api.emit(everybody, api.item("P-22", tenant="umbra"))
    other = f'{{"items": [{json.dumps(api.item("P-22", tenant="umbra") | TERMS)}]}}'
    differs = "select member from ledger.find_other_terms($1::text::json -> 'items', array[1])"
    async with api.owner.transaction():
        await api.owner.execute("set session authorization test_service")
        for name, members in (("key:all", TERMS.keys()), ("key:billing", set[str]())):
            await api.owner.execute("select set_config('ledger.key_name', $1, true)", name)
            await api.owner.execute("set local role ledger_emitter")
            assert {row[0] for row in await api.owner.fetch(differs, other)} == members
        await api.owner.execute("reset session authorization")


async def test_a_payload_is_kept_to_the_letter(api: Api, key: NewApiKey) -> None:
    payload = '{"premium": 1.10, "no": 12345678901234567890123, "b":1 }'
    text = (
        '{"items": [{"tenant": "acme", "kind": "Kind1", "business_key": "P-12", "effective_date":'
        f' "2027-03-01", "due_at": "2026-01-01T09:00:00+01:00", "payload": {payload}}}]}}'
    )
    emitted = await api.ask("POST", "/v1/items", key=key, text=text)
    shown = await api.ask("GET", f"/v1/items/{emitted.document['items'][0]['id']}", key=key)
    assert f'"payload":{payload}' in shown.text
    assert shown.document["due_at"] == "2026-01-01T08:00:00Z"
    assert shown.document["emitted_by"] == "key:billing"
    assert shown.document["state"] == "Scheduled"


async def test_an_item_has_a_timeline_and_a_reason(api: Api, key: NewApiKey) -> None:
    [item] = await api.emit(key, api.item("P-13"))
    timeline = await api.ask("GET", f"/v1/items/{item}/timeline", key=key)
    assert [step["event"] for step in timeline.document["items"]] == ["emitted"]
    why = await api.ask("GET", f"/v1/items/{item}/why", key=key)
    assert why.document["item"] == str(item)
    assert why.document["code"] == "NO_ALLOCATOR"


@pytest.fixture(scope="module")
async def openapi(api: Api) -> dict[str, Any]:
    return (await api.ask("GET", "/openapi.json")).document


async def test_the_operations_of_the_document_have_fixed_names_and_scopes(
    openapi: dict[str, Any],
) -> None:
    assert openapi["openapi"].startswith("3.1")
    operations = {
        (path, method): operation
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }
    assert {each: one["operationId"] for each, one in operations.items()} == OPERATIONS
    secured = {each: one["security"] for each, one in operations.items() if "security" in one}
    assert secured.keys() == {each for each in OPERATIONS if each[0].startswith("/v1/")}
    assert secured["/v1/items", "post"] == [{"key": ["emit"]}]


async def test_answers_have_the_form_that_the_document_gives(
    api: Api, key: NewApiKey, openapi: dict[str, Any]
) -> None:
    [item] = await api.emit(key, api.item("P-14"))
    for path, name in (("", "getItem"), ("/timeline", "getItemTimeline"), ("/why", "explainItem")):
        answer = await api.ask("GET", f"/v1/items/{item}{path}", key=key)
        operation = openapi["paths"][f"/v1/items/{{item}}{path}"]["get"]
        assert operation["operationId"] == name
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.document, {**openapi, **schema})
        [described] = [
            model
            for model_name, model in openapi["components"]["schemas"].items()
            if schema["$ref"].endswith(f"/{model_name}")
        ]
        assert answer.document.keys() == described["properties"].keys()
