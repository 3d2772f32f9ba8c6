"""Who changed what: a route that changes something leaves an entry, or rows that name who did."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import ANY
from uuid import UUID

import pytest

from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.statements import statement
from tests.service.conftest import CALENDAR, EVENT, SCHEDULE, Answer, Api
from tests.service.test_beside_another_tenant import ROWS_READ
from tests.service.test_requests import problem

JOURNALS = {
    "emitItems": "select actor_no from ledger.due_item where business_key like 'P-%'",
    "recordEvent": "select actor_no from ledger.event",
    "claimItems": "select worker_no from ledger.run",
    "reportOutcomes": "select actor_no from ledger.transition where event = 5",
}
"""Operations whose own rows name the actor, and a query of it."""
COMPUTED = {"convertSchedules", "previewDefinition", "previewOperation"}
"""Operations that change nothing, although their requests have a body."""
ROLES = {
    **dict.fromkeys(
        (
            *("acceptFinding", "approveRepair", "commentOnFinding", "explainFinding"),
            *("rejectRepair", "returnFinding", "takeFinding"),
        ),
        "approver",
    ),
    **dict.fromkeys(("createKey", "rotateKey", "revokeKey"), "key_manager"),
}
"""Of operations that another role may do than the operator's."""
REASON = {"reason": "INC-1"}
FIRST: Any = {"before": {"version": None}, "after": {"version": 1}}
_MINE = {"taken_by": "key:everything"}
_NOBODYS = {"taken_by": None}
TAKEN: Any = {
    "take": {"before": _NOBODYS, "after": _MINE},
    "return": {"before": _MINE, "after": _NOBODYS},
}
DEFINITION = "/v1/definitions/acme/statements"
TENANT = "/v1/tenants/acme"


class Recorder:
    """Asks with one key of all scopes, and keeps what the audit should have."""

    def __init__(self, api: Api, key: NewApiKey) -> None:
        self.api, self.key = api, key
        self.expected: list[dict[str, Any]] = []
        self.asked: set[str] = set()

    async def ask(self, operation: str, request: str, body: object = None) -> Answer:
        """Send a request, which succeeds."""
        method, path = request.split(" ")
        headers = {"Idempotency-Key": f"{operation} {len(self.expected)}"}
        if operation in self.asked:
            headers["If-Match"] = "*"
        answer = await self.api.ask(method, path, key=self.key, body=body, headers=headers)
        assert answer.status < 300, (operation, answer.text)
        self.asked.add(operation)
        return answer

    async def change(
        self,
        operation: str,
        request: str,
        body: Mapping[str, object] | None = None,
        *,
        target: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
        **detail: object,
    ) -> Answer:
        """Send a request that changes the target."""
        answer = await self.ask(operation, request, body)
        members = answer.document
        entry = {
            "actor": "key:everything",
            "role": f"ledger_{ROLES.get(operation, 'operator')}",
            "login": "test_service",
            "operation": operation,
            "target": target.format(**members),
            "tenants": ["acme"],
            "reason": (body or {}).get("reason"),
            "detail": {
                name: members[value] if name in {"cycle", "item", "successor"} else value
                for name, value in detail.items()
            }
            or None,
            "before": before,
            "after": after,
            "request_id": answer.headers["X-Request-Id"],
        }
        self.expected.insert(0, entry)
        return answer

    async def pauses(self) -> list[dict[str, Any]]:
        """Return the pauses in force as the audit has them once they end."""
        answer = await self.api.ask("GET", "/v1/pauses", key=self.key)
        return [
            {"kind": each["kind"], "lane": each["lane"], "paused_at": ANY, "reason": each["reason"]}
            | {"paused_by": each["paused_by"], "until": _iso(each["paused_until"])}
            for each in answer.document["items"]
        ]

    async def read(self) -> list[dict[str, Any]]:
        """Return the entries of the key, without their times."""
        answer = await self.api.ask("GET", "/v1/audit?limit=100&actor=key:everything", key=self.key)
        assert answer.status == 200, answer.text
        entries: list[dict[str, Any]] = answer.document["items"]
        return [{name: each[name] for name in each if name != "at"} for each in entries]


def _iso(text: str | None) -> str | None:
    return text and text.replace("Z", "+00:00")


@pytest.fixture(scope="module")
async def recorder(api: Api) -> Recorder:
    return Recorder(api, await api.make_key("everything", *Scope))


async def _change_definitions(recorder: Recorder) -> None:
    ask, change, statements = recorder.ask, recorder.change, "definitions/acme/statements"
    calendar, calendars = "calendars/acme/statements", "PUT /v1/calendars/acme/statements"
    await change("putDefinition", f"PUT {DEFINITION}", SCHEDULE, target=statements, **FIRST)
    await change("putCalendar", calendars, CALENDAR, target=calendar, **FIRST)
    await change("pauseDefinition", f"POST {DEFINITION}/pause", REASON, target=statements)
    again = await ask("putDefinition", f"PUT {DEFINITION}", SCHEDULE)
    assert again.document["changed"] is False
    await ask("putCalendar", calendars, CALENDAR)
    await ask("pauseDefinition", f"POST {DEFINITION}/pause", REASON)
    paused = await recorder.pauses()
    resumed: Any = {"before": {"pauses": paused}, "after": {"pauses": []}}
    await change("resumeDefinition", f"POST {DEFINITION}/resume", target=statements, **resumed)
    await ask("resumeDefinition", f"POST {DEFINITION}/resume")
    await ask("previewDefinition", f"POST {DEFINITION}/preview", {**SCHEDULE, "kind": "Other"})
    await ask("convertSchedules", f"POST {TENANT}/definitions/convert", {"text": "0 9 * * * x"})
    trigger, body = f"POST {DEFINITION}/trigger", {"cycle": "rerun", **REASON}
    await change("triggerDefinition", trigger, body, target=statements, cycle="cycle", item="id")
    await ask("triggerDefinition", trigger, body)


async def _change_items_and_flows(recorder: Recorder, item: str, parked: str) -> None:
    ask, change, flow = recorder.ask, recorder.change, "flows/acme/PolicyRenewalDue"
    flow_limits = "PATCH /v1/flows/acme/PolicyRenewalDue"
    weight: Any = {"before": {"weight": 1}, "after": {"weight": 2}}
    await change("setFlowLimits", flow_limits, {"lane": None, "weight": 2}, target=flow, **weight)
    faster = {"lane": "", "rate_per_second": 5}
    rate: Any = {"before": {"rate_per_second": None}, "after": {"rate_per_second": 5}}
    await change("setFlowLimits", flow_limits, faster, target=f"{flow}/", **rate)
    scope = {"kind": "PolicyRenewalDue", "lane": "x"}
    await change("pauseFlows", f"POST {TENANT}/pause", {**scope, **REASON}, target=f"{flow}/x")
    await ask("pauseFlows", f"POST {TENANT}/pause", {**scope, **REASON})
    later = {**scope, **REASON, "until": "2199-01-01T00:00:00+00:00"}
    paused = await recorder.pauses()
    was = {name: paused[0][name] for name in ("until", "reason", "paused_by")}
    until: Any = {"before": was, "after": {"until": "2199-01-01T00:00:00+00:00"}}
    await change("pauseFlows", f"POST {TENANT}/pause", later, target=f"{flow}/x", **until)
    resumed: Any = {"before": {"pauses": await recorder.pauses()}, "after": {"pauses": []}}
    await change("resumeFlows", f"POST {TENANT}/resume", scope, target=f"{flow}/x", **resumed)
    await ask("resumeFlows", f"POST {TENANT}/resume", scope)
    decided = {"verb": "cancel", "ids": [item], **REASON}
    decide = f"POST {TENANT}/decisions"
    await change(
        "decideItems",
        decide,
        decided,
        target="tenants/acme",
        before={"state": "Scheduled"},
        after={"state": "Cancelled"},
        verb="cancel",
        items=1,
    )
    await ask("decideItems", decide, decided)
    ids, reviews = {"ids": [parked]}, "tenants/acme/reviews"
    for operation, verb in {"takeReviews": "take", "returnReviews": "return"}.items():
        path = f"POST /v1/{reviews}/{verb}"
        await change(operation, path, ids, target=reviews, items=1, **TAKEN[verb])
        await ask(operation, f"POST /v1/{reviews}/{verb}", ids)
    said = {"item": parked, "comment": "the archive is asked"}
    about: Any = {"target": f"items/{parked}/review", "comment": said["comment"]}
    await change("commentOnReviews", f"POST /v1/{reviews}/comments", said, **about)
    await ask("previewOperation", f"POST {TENANT}/operations/preview", {"verb": "cancel"})
    made = await change(
        "createOperation",
        f"POST {TENANT}/operations",
        {"verb": "cancel", **REASON},
        target="operations/{operation_no}",
        verb="cancel",
    )
    operation = f"operations/{made.document['operation_no']}"
    waits = {"status": "waiting"}
    paused = {"status": "paused"}
    by = {"paused_by": "key:everything", "pause_reason": "INC-1"}
    statuses: Any = {
        "pause": {"before": waits, "after": paused},
        "resume": {"before": paused | by, "after": waits},
    }
    for verb, was in statuses.items():
        asked = f"POST /v1/{operation}/{verb}"
        await change(f"{verb}Operation", asked, REASON, target=operation, **was)
        await ask(f"{verb}Operation", asked, REASON)
    abort = f"POST /v1/{operation}/abort"
    ended: Any = {"before": waits, "after": {"status": "aborted"}}
    await change("abortOperation", abort, REASON, target=operation, **ended)
    await ask("abortOperation", abort, REASON)


async def _change_keys_and_findings(recorder: Recorder) -> None:
    change, api = recorder.change, recorder.api
    new = {"name": "hired", "scopes": ["read"], "tenants": ["acme"]}
    named: Any = {"name": "hired", "scopes": ["read"]}
    made = await change("createKey", "POST /v1/keys", new, target="keys/{prefix}", **named)
    path = f"keys/{made.document['prefix']}"
    rotated = await change(
        "rotateKey",
        f"POST /v1/{path}/rotate",
        {},
        target=path,
        before={"expires_at": None},
        after={"expires_at": ANY},
        successor="prefix",
        scopes=["read"],
    )
    assert rotated.document["key"] not in str(await recorder.read())
    revoked: Any = {"before": {"revoked": False}, "after": {"revoked": True}, "scopes": ["read"]}
    await change("revokeKey", f"POST /v1/{path}/revoke", target=path, **revoked)
    explained, accepted, repaired = await api.find("acme", 3)
    repair = await api.propose(repaired, api.person_no)
    path = f"findings/{accepted}"
    for operation, verb in {"takeFinding": "take", "returnFinding": "return"}.items():
        body: dict[str, object] | None = {} if verb == "take" else None
        await change(operation, f"POST /v1/{path}/{verb}", body, target=path, **TAKEN[verb])
        await recorder.ask(operation, f"POST /v1/{path}/{verb}", body)
    about: Any = {"target": f"{path}/review", "comment": "the domain is asked"}
    said = {"comment": about["comment"]}
    await change("commentOnFinding", f"POST /v1/{path}/comments", said, **about)
    is_open = {"resolution": "open"}
    not_yet = {"approved": False}
    for operation, path, was, then in (
        ("explainFinding", f"findings/{explained}", is_open, {"resolution": "explained"}),
        ("acceptFinding", f"findings/{accepted}", is_open, {"resolution": "accepted"}),
        ("approveRepair", f"repairs/{repair}", not_yet, {"approved": True}),
    ):
        verb = operation.partition("F")[0].partition("R")[0]
        asked = f"POST /v1/{path}/{verb}"
        await change(operation, asked, REASON, target=path, before=was, after=then)


async def test_each_change_by_http_names_its_actor_and_a_request_without_effect_none(
    api: Api, recorder: Recorder
) -> None:
    actor_no = await api.owner.fetchval(
        "select actor_no from ledger.actor where name = 'key:everything'"
    )
    items = [api.item("P-1"), api.item("P-2"), api.item("P-3", kind="Pulled")]
    emitted = await recorder.ask("emitItems", "POST /v1/items", {"items": items})
    await recorder.ask("recordEvent", "POST /v1/events", EVENT)
    pulled = await recorder.ask("claimItems", "POST /v1/claims", {"kinds": ["Pulled"]})
    [item] = pulled.document["items"]
    outcome = {name: item[name] for name in ("item", "fence", "token", "position")}
    outcomes = {"outcomes": [outcome | {"verdict": "completed"}]}
    await recorder.ask("reportOutcomes", "POST /v1/outcomes", outcomes)
    for operation, query in JOURNALS.items():
        actors = {row[0] for row in await api.owner.fetch(query)}
        assert actors == {actor_no}, operation

    await _change_definitions(recorder)
    ids = [each["id"] for each in emitted.document["items"]]
    await api.park(UUID(ids[1]))
    await _change_items_and_flows(recorder, *ids[:2])
    await _change_keys_and_findings(recorder)
    assert await recorder.read() == recorder.expected

    document = (await api.ask("GET", "/openapi.json")).document
    changing = {
        operation["operationId"]
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method != "get"
    }
    changing.remove("drainProcess")  # tests/console/test_drain.py has processes to drain
    changing.remove(
        "approveOperation"
    )  # tests/service/test_operation_approval.py has one that waits
    changing.remove("proposeRepair")  # tests/service/test_reports.py has a finding with a repair
    audited = {each["operation"] for each in recorder.expected}
    assert (recorder.asked, audited) == (changing, changing - JOURNALS.keys() - COMPUTED)
    statuses = [
        (await api.ask("POST", path, key=recorder.key, body=REASON)).status
        for path in ("/v1/operations/999/abort", "/v1/definitions/acme/unknown/pause")
    ]
    assert statuses == [404, 404]
    assert await recorder.read() == recorder.expected


async def test_entries_are_filtered_paged_and_those_of_the_caller_s_tenants(
    api: Api, recorder: Recorder
) -> None:
    boss = await api.make_key("boss", Scope.OPERATE, Scope.AUDIT, tenants=None)
    umbra = await api.make_key("umbra", Scope.AUDIT, tenants=["umbra"])
    for tenant in ("acme", "umbra", "acme"):
        body = {"kind": "K", "lane": tenant, "reason": "INC-2"}
        done = await api.ask("POST", f"/v1/tenants/{tenant}/pause", key=boss, body=body)
        assert done.status == 200, done.text
        body = {"kind": "K", "lane": tenant}
        await api.ask("POST", f"/v1/tenants/{tenant}/resume", key=boss, body=body)

    async def targets(key: NewApiKey, filters: str) -> list[str]:
        answer = await api.ask("GET", f"/v1/audit?{filters}", key=key)
        assert answer.status == 200, answer.text
        return [each["target"] for each in answer.document["items"]]

    acme, other = "flows/acme/K/acme", "flows/umbra/K/umbra"
    paused = "actor=key:boss&operation=pauseFlows"
    assert await targets(boss, paused) == [acme, other, acme]
    assert await targets(boss, f"{paused}&tenant=umbra") == [other]
    assert await targets(boss, f"target={other}") == [other, other]
    assert await targets(umbra, "") == [other, other]
    assert await targets(recorder.key, paused) == [acme, acme]
    assert await targets(recorder.key, "tenant=umbra") == []
    assert await targets(umbra, "operation=createKey") == []

    first = await api.ask("GET", f"/v1/audit?{paused}&limit=2", key=boss)
    cursor = first.document["next_cursor"]
    assert await targets(boss, f"{paused}&limit=2&cursor={cursor}") == [acme]
    newest = first.document["items"][0]["at"]
    assert await targets(boss, f"{paused}&until={newest}") == [other, acme]
    assert await targets(boss, f"{paused}&since={newest}") == [acme]
    problem(await api.ask("GET", f"/v1/audit?{paused}&since=1", key=boss), 422, "INVALID_INPUT")


@pytest.mark.parametrize("name", ["list_audit", "list_oldest_audit"])
@pytest.mark.parametrize(
    ("column", "arguments"),
    [
        ("target", "null, null, null, null, 'rare'"),
        ("actor", "null, null, 'key:rare', null, null"),
        ("operation", "null, null, null, 'rare', null"),
    ],
)
async def test_rare_entries_of_the_whole_ledger_are_found_without_reading_others(
    api: Api, column: str, arguments: str, name: str
) -> None:
    person_no, rare_no = api.person_no, await register_actor(api.owner, "key:rare", ActorKind.KEY)
    rare = {
        "target": (person_no, "often", "rare"),
        "actor": (rare_no, "often", "often"),
        "operation": (person_no, "rare", "often"),
    }
    transaction = api.owner.transaction()
    await transaction.start()
    await api.owner.execute(
        "insert into ledger.audit (actor_no, operation, target)"
        " select $1, 'often', 'often' from generate_series(1, 3000)",
        person_no,
    )
    await api.owner.execute(
        "insert into ledger.audit (actor_no, operation, target, at)"
        " values ($1, $2, $3, '2026-01-01')",
        *rare[column],
    )
    await api.owner.execute("analyze ledger.audit")
    await api.owner.execute(f"prepare {name}_{column} as {statement(name)}")
    before = await api.owner.fetchval(ROWS_READ)
    found = await api.owner.fetch(
        f"execute {name}_{column} ({arguments}, null, null, null, null, 51)"
    )
    read = await api.owner.fetchval(ROWS_READ) - before
    await transaction.rollback()
    assert (len(found), 0 < read < 100) == (1, True), read
