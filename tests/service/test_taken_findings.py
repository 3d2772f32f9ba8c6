"""Who takes findings by HTTP, and so their repairs, and what is written about them."""

import asyncio
from uuid import UUID, uuid4

import pytest

from dueledger.ledger.finding_types import FINDING_RULES, FindingType
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.findings import close_findings
from dueledger.ledger.store.statements import statement
from tests.service.conftest import Api
from tests.service.test_requests import problem

TAKE: dict[str, str] = {}
DECIDES = (Scope.READ, Scope.AUDIT, Scope.APPROVE)


@pytest.fixture(scope="module")
async def jane(api: Api) -> NewApiKey:
    return await api.make_key("jane", *DECIDES)


@pytest.fixture(scope="module")
async def bob(api: Api) -> NewApiKey:
    return await api.make_key("bob", *DECIDES)


async def asked(api: Api, key: NewApiKey, verb: str, finding: UUID) -> tuple[int, str | None]:
    """Take or return a finding; return the status, and who has it."""
    body = TAKE if verb == "take" else None
    answer = await api.ask("POST", f"/v1/findings/{finding}/{verb}", key=key, body=body)
    return answer.status, answer.document.get("taken_by")


async def take_over(api: Api, key: NewApiKey, finding: UUID, who: str) -> int:
    path = f"/v1/findings/{finding}/take"
    return (await api.ask("POST", path, key=key, body={"instead_of": who})).status


async def listed(api: Api, key: NewApiKey, path: str, name: str = "id") -> list[str]:
    answer = await api.ask("GET", path, key=key)
    assert answer.status == 200, answer.text
    return [each[name] for each in answer.document["items"]]


async def of_kind(api: Api, kind: str, count: int, type_: str = "OUTCOME_CONFLICT") -> list[UUID]:
    """Record open findings of a kind that nothing else has; return them in the order of lists."""
    found = sorted(await api.find("acme", count))
    await api.owner.execute(
        "update ledger.finding set kind = $2, type = $3, reconciliation_no = 1 where id = any ($1)",
        *(found, kind, type_),
    )
    return found


async def test_who_takes_a_finding_has_it_until_it_is_returned_or_taken_by_name(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    [finding] = await of_kind(api, "TakenByName", 1)
    path = f"/v1/findings/{finding}"

    async def since() -> tuple[str | None, str | None]:
        document = (await api.ask("GET", path, key=jane)).document
        return document["taken_by"], document["taken_at"]

    assert await asked(api, jane, "take", finding) == (200, "key:jane")
    first = await since()
    assert await asked(api, jane, "take", finding) == (200, "key:jane")
    assert await since() == first
    for verb, body in (("take", TAKE), ("return", None)):
        refused = await api.ask("POST", f"{path}/{verb}", key=bob, body=body)
        assert "key:jane has taken it" in problem(refused, 409, "CONFLICT").detail
    assert await take_over(api, bob, finding, "key:eve") == 409
    assert await take_over(api, bob, finding, "key:jane") == 200
    assert (await since())[0] == "key:bob"
    for _ in range(2):
        assert await asked(api, bob, "return", finding) == (200, None)
    assert await since() == (None, None)
    unknown = await api.ask("POST", f"/v1/findings/{uuid4()}/take", key=jane, body={})
    assert problem(unknown, 404, "NOT_FOUND")


async def test_of_two_who_take_a_finding_at_once_one_has_it(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    for finding in await of_kind(api, "AtOnce", 8):
        found = await asyncio.gather(*(asked(api, each, "take", finding) for each in (jane, bob)))
        assert sorted(status for status, _ in found) == [200, 409]
        [has] = {who for status, who in found if status == 200}
        document = (await api.ask("GET", f"/v1/findings/{finding}", key=jane)).document
        assert document["taken_by"] == has


async def test_taking_hinders_nobody_who_decides_and_ends_with_the_finding(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    explained, cleared = await of_kind(api, "Ended", 2)
    for finding in (explained, cleared):
        assert await asked(api, jane, "take", finding) == (200, "key:jane")
    done = await api.ask(
        "POST", f"/v1/findings/{explained}/explain", key=bob, body={"reason": "INC-1"}
    )
    assert done.status == 200
    assert await close_findings(api.owner, 2, {cleared: "explained"}) == ["explained"]
    for finding in (explained, cleared):
        document = (await api.ask("GET", f"/v1/findings/{finding}", key=jane)).document
        assert document["resolution"] == "explained"
        assert (document["taken_by"], document["taken_at"]) == (None, None)
        late = await api.ask("POST", f"/v1/findings/{finding}/take", key=jane, body={})
        assert "not open" in problem(late, 409, "CONFLICT").detail
    assert await listed(api, jane, "/v1/findings/undecided?kind=Ended") == []


async def test_accepting_a_disagreement_by_defining_ends_the_taking(
    api: Api, jane: NewApiKey
) -> None:
    [finding] = await of_kind(api, "Defined", 1, "DISAGREES")
    assert await asked(api, jane, "take", finding) == (200, "key:jane")
    texts = [["acme"], ["Defined"], ["s"], ["It differs."], ["{}"], ["{}"]]
    await api.owner.execute(statement("accept_disagreements"), [finding], *texts, "INC-1", 1)
    document = (await api.ask("GET", f"/v1/findings/{finding}", key=jane)).document
    assert (document["resolution"], document["taken_by"]) == ("accepted", None)


async def test_a_repair_shows_who_has_its_finding_and_its_maker_never_approves_it(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    mine, free = await of_kind(api, "Repaired", 2, "MISSING")
    jane_no = await api.owner.fetchval("select actor_no from ledger.actor where name = 'key:jane'")
    repairs = [await api.propose(finding, jane_no) for finding in (mine, free)]
    assert await asked(api, jane, "take", mine) == (200, "key:jane")
    path = "/v1/repairs?kind=Repaired"
    assert await listed(api, bob, path, "taken_by") == ["key:jane", None]
    assert await listed(api, jane, f"{path}&taken=mine") == [str(repairs[0])]
    assert await listed(api, bob, f"{path}&taken=mine") == []
    assert await listed(api, bob, f"{path}&taken=nobody") == [str(repairs[1])]
    approve = f"/v1/repairs/{repairs[0]}/approve"
    own = await api.ask("POST", approve, key=jane, body={"reason": "INC-1"})
    assert "somebody else approves it" in problem(own, 409, "CONFLICT").detail
    other = await api.ask("POST", approve, key=bob, body={"reason": "INC-1"})
    assert other.status == 200


async def test_findings_that_wait_for_a_person_are_those_without_a_repair_and_those_taken(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    conflict, other = map(str, await of_kind(api, "Undecided", 2))
    repaired, left = map(str, await of_kind(api, "Undecided", 2, "MISSING"))
    path = "/v1/findings/undecided?kind=Undecided"
    assert await listed(api, jane, path) == [conflict, other]
    for finding in (other, repaired):
        await asked(api, jane, "take", UUID(finding))
    assert await listed(api, bob, path) == [conflict, other, repaired]
    assert await listed(api, jane, f"{path}&taken=mine") == [other, repaired]
    assert await listed(api, bob, f"{path}&taken=mine") == []
    assert await listed(api, bob, f"{path}&taken=nobody") == [conflict]
    paged, cursor = list[str](), ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        page = (await api.ask("GET", f"{path}&limit=1{after}", key=jane)).document
        paged += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
    assert paged == [conflict, other, repaired]
    assert left not in paged


async def test_the_types_that_need_a_person_are_those_of_the_rules(api: Api) -> None:
    rows = await api.owner.fetch(
        "select type from unnest($1::text[]) type where ledger.needs_person(type)",
        list(FindingType),
    )
    assert {row["type"] for row in rows} == {
        type_ for type_, rule in FINDING_RULES.items() if rule.needs_person
    }


async def test_comments_are_on_an_open_finding_and_the_audit_has_them(
    api: Api, jane: NewApiKey, bob: NewApiKey
) -> None:
    finding, free = await of_kind(api, "Commented", 2)
    path = f"/v1/findings/{finding}/comments"
    for author, number in ((jane, 0), (bob, 1)):
        for _ in range(2):  # as after a lost response
            headers = {"Idempotency-Key": f"finding-comment-{number}"}
            body = {"comment": f"comment {number}"}
            written = await api.ask("POST", path, key=author, body=body, headers=headers)
            assert written.status == 201, written.text
            assert written.document["target"] == f"findings/{finding}/review"
    page = (await api.ask("GET", f"{path}?limit=1", key=jane)).document
    rest = (await api.ask("GET", f"{path}?limit=1&cursor={page['next_cursor']}", key=bob)).document
    assert [(each["actor"], each["comment"]) for each in (*page["items"], *rest["items"])] == [
        ("key:bob", "comment 1"),
        ("key:jane", "comment 0"),
    ]
    assert await listed(api, jane, f"/v1/findings/{free}/comments") == []
    hostile = await api.ask("POST", path, key=jane, body={"comment": "\u001b[2J"})
    [error] = problem(hostile, 422, "INVALID_INPUT").errors
    assert error.pointer == "/comment"
    accept = f"/v1/findings/{finding}/accept"
    assert (await api.ask("POST", accept, key=jane, body={"reason": "INC-1"})).status == 200
    late = await api.ask("POST", path, key=jane, body={"comment": "late"})
    assert "not open" in problem(late, 409, "CONFLICT").detail
    assert len(await listed(api, jane, path, "at")) == 2


async def test_who_may_not_decide_about_a_finding_may_not_take_it_and_others_do_not_know_it(
    api: Api, jane: NewApiKey
) -> None:
    [finding] = await of_kind(api, "Strange", 1)
    reader = await api.make_key("reads findings", Scope.READ, Scope.OPERATE, Scope.AUDIT)
    approver = await api.make_key("only approves", Scope.APPROVE)
    stranger = await api.make_key("stranger", *Scope, tenants=["umbra"])
    path = f"/v1/findings/{finding}"
    asks = (("take", TAKE), ("return", None), ("comments", {"comment": "INC-1"}))
    for verb, body in asks:
        refused = await api.ask("POST", f"{path}/{verb}", key=reader, body=body)
        problem(refused, 403, "NOT_PERMITTED")
        unknown = await api.ask("POST", f"{path}/{verb}", key=stranger, body=body)
        problem(unknown, 404, "NOT_FOUND")
    problem(await api.ask("GET", f"{path}/comments", key=stranger), 404, "NOT_FOUND")
    problem(await api.ask("GET", f"{path}/comments", key=approver), 403, "NOT_PERMITTED")
    for verb, body in asks:
        done = await api.ask("POST", f"{path}/{verb}", key=approver, body=body)
        assert done.status < 300, done.text
    assert await listed(api, stranger, "/v1/findings/undecided") == []
    assert await listed(api, stranger, "/v1/findings/undecided?tenant=acme") == []
    assert len(await listed(api, jane, f"{path}/comments", "at")) == 1


async def test_parked_items_are_listed_by_who_has_taken_them(api: Api, key: NewApiKey) -> None:
    names = ("F-1", "F-2", "F-3")
    ids = await api.emit(key, *(api.item(each, kind="Filtered") for each in names))
    await api.park(*ids)
    operators = [await api.make_key(each, Scope.READ, Scope.OPERATE) for each in ("op1", "op2")]
    for operator, item in zip(operators, ids, strict=False):
        body = {"ids": [str(item)]}
        await api.ask("POST", "/v1/tenants/acme/reviews/take", key=operator, body=body)
    first, second, free = map(str, ids)
    for tenant in ("", "&tenant=acme"):
        path = f"/v1/reviews?kind=Filtered{tenant}"
        for order in ("", "&newest_first=true"):
            assert await listed(api, operators[0], f"{path}&taken=mine{order}") == [first]
            assert await listed(api, operators[1], f"{path}&taken=mine{order}") == [second]
            assert await listed(api, operators[1], f"{path}&taken=nobody{order}") == [free]
    for taken, counts in (("mine", [1]), ("nobody", [1])):
        groups = f"/v1/reviews/groups?kind=Filtered&taken={taken}"
        assert await listed(api, operators[0], groups, "items") == counts
    wrong = await api.ask("GET", "/v1/reviews?taken=his", key=key)
    [error] = problem(wrong, 422, "INVALID_INPUT").errors
    assert error.pointer == "taken"
