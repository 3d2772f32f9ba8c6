"""A second person for operations by HTTP: who is refused, who approves, and who sees what waits."""

from uuid import uuid4

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.operations import advance_operation
from tests.service.conftest import Answer, Api
from tests.service.test_requests import problem

OPERATIONS = "/v1/tenants/acme/operations"
REASON = {"reason": "INC-1: checked with the domain"}
DECIDES = (Scope.READ, Scope.OPERATE, Scope.APPROVE)


@pytest.fixture
async def maker(api: Api) -> NewApiKey:
    return await api.make_key(f"maker-{uuid4().hex[:8]}", *DECIDES)


@pytest.fixture
async def checker(api: Api) -> NewApiKey:
    return await api.make_key(f"checker-{uuid4().hex[:8]}", Scope.READ, Scope.APPROVE)


async def ask(api: Api, key: NewApiKey, maker: NewApiKey, above: int = 0) -> int:
    """Emit an item of a kind of its own with a policy, and ask for an operation on it."""
    kind = f"Checked{uuid4().hex[:8]}"
    await api.define("acme", kind, {"kind": kind, "operations": {"approval_above": above}})
    await api.emit(key, api.item("C-1", kind=kind))
    chosen = {"verb": "cancel", "kind": kind}
    seen = await api.ask("POST", f"{OPERATIONS}/preview", key=maker, body=chosen)
    assert (seen.status, seen.document["approval_above"]) == (200, above), seen.text
    assert seen.document["needs_approval"] is (above < 1)
    body = {**chosen, **REASON}
    asked = await api.ask("POST", OPERATIONS, key=maker, body=body)
    assert asked.status == 202, asked.text
    return asked.document["operation_no"]


async def approve(api: Api, number: int, key: NewApiKey) -> Answer:
    return await api.ask("POST", f"/v1/operations/{number}/approve", key=key, body=REASON)


async def test_an_operation_waits_until_somebody_else_than_who_asked_approves_it(
    api: Api, key: NewApiKey, maker: NewApiKey, checker: NewApiKey
) -> None:
    number = await ask(api, key, maker)
    assert await advance_operation(api.owner, number) is None
    own = await approve(api, number, maker)
    assert "you asked for it: somebody else" in problem(own, 409, "CONFLICT").detail
    shown = (await api.ask("GET", f"/v1/operations/{number}", key=checker)).document
    assert (shown["status"], shown["awaits_approval"], shown["approved_by"]) == (
        *("waiting", True, None),
    )
    done = await approve(api, number, checker)
    assert done.status == 200, done.text
    approved = [done.document[name] for name in ("awaits_approval", "needs_approval")]
    assert (approved, done.document["approval_reason"]) == ([False, True], REASON["reason"])
    twice = await approve(api, number, checker)
    assert "is approved already" in problem(twice, 409, "CONFLICT").detail
    progress = await advance_operation(api.owner, number)
    assert progress is not None
    assert (progress.done, progress.is_ended) == (1, True)
    rows = await api.owner.fetch(
        "select operation, tenants, reason, role from ledger.audit where target = $1"
        " order by audit_no",
        f"operations/{number}",
    )
    assert [tuple(row) for row in rows][1:] == [
        ("approveOperation", ["acme"], REASON["reason"], "ledger_approver")
    ]


async def test_what_the_policy_allows_one_person_is_not_approved(
    api: Api, key: NewApiKey, maker: NewApiKey, checker: NewApiKey
) -> None:
    number = await ask(api, key, maker, above=1)
    unasked = await approve(api, number, checker)
    assert "it needs no second person" in problem(unasked, 409, "CONFLICT").detail
    assert await advance_operation(api.owner, number) is not None


async def test_who_may_not_approve_and_who_is_of_another_tenant_is_refused(
    api: Api, key: NewApiKey, maker: NewApiKey
) -> None:
    number = await ask(api, key, maker)
    operator = await api.make_key(f"ops-{uuid4().hex[:8]}", Scope.READ, Scope.OPERATE)
    assert (await approve(api, number, operator)).status == 403
    other = await api.make_key(f"umbra-{uuid4().hex[:8]}", *DECIDES, tenants=["umbra"])
    problem(await approve(api, number, other), 404, "NOT_FOUND")
    listed = "/v1/operations?awaits_approval=true&limit=1"
    assert (await api.ask("GET", listed, key=other)).document["items"] == []
    first = await api.ask("GET", listed, key=maker)
    assert [each["operation_no"] for each in first.document["items"]] == [number]
    ended = await api.ask("POST", f"/v1/operations/{number}/abort", key=operator, body=REASON)
    assert ended.document["status"] == "aborted"
    late = await api.ask("GET", listed, key=maker)
    assert number not in [each["operation_no"] for each in late.document["items"]]


async def test_a_kind_asks_less_often_only_by_somebody_who_may_approve(
    api: Api, maker: NewApiKey
) -> None:
    operator = await api.make_key(f"ops-{uuid4().hex[:8]}", Scope.READ, Scope.OPERATE)
    kind = f"Checked{uuid4().hex[:8]}"
    path = f"/v1/definitions/acme/{kind}"

    async def put(key: NewApiKey, operations: dict[str, int]) -> Answer:
        body = {"tenant": "acme", "definition": kind, "kind": kind, "operations": operations}
        return await api.ask("PUT", path, key=key, body=body, headers={"If-Match": "*"})

    await api.define("acme", kind, {"kind": kind, "operations": {"approval_above": 50}})
    assert (await put(operator, {"approval_above": 10})).status == 200
    for looser in (dict[str, int](), {"approval_above": 11}):
        refused = await put(operator, looser)
        assert "would wait less often" in problem(refused, 403, "NOT_PERMITTED").detail
    found = "select operation_approval_above from ledger.kind where name = $1"
    assert await api.owner.fetchval(found, kind) == 10
    assert (await put(maker, {})).status == 200
    assert await api.owner.fetchval(found, kind) is None
