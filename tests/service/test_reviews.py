"""Who takes parked items by HTTP, and what is written about them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import Api
from tests.service.test_requests import problem

REVIEWS = "/v1/tenants/acme/reviews"
GROUP = {"kind": "Taken", "lane": "", "parked_reason": "attempts exhausted"}


@pytest.fixture(scope="module")
async def jane(api: Api) -> NewApiKey:
    return await api.make_key("jane", Scope.READ, Scope.OPERATE)


@pytest.fixture(scope="module")
async def bob(api: Api) -> NewApiKey:
    return await api.make_key("bob", Scope.READ, Scope.OPERATE)


async def parked(api: Api, key: NewApiKey, *keys: str, kind: str = "Taken") -> list[UUID]:
    ids = await api.emit(key, *(api.item(each, kind=kind) for each in keys))
    await api.park(*ids)
    return ids


async def asked(
    api: Api, key: NewApiKey, verb: str, body: dict[str, Any]
) -> list[tuple[str, str | None]]:
    """Take or return items; return the result for each, and who has it."""
    answer = await api.ask("POST", f"{REVIEWS}/{verb}", key=key, body=body)
    assert answer.status == 200, answer.text
    return [(each["result"], each["taken_by"]) for each in answer.document["items"]]


async def test_who_takes_a_parked_item_has_it_until_it_is_returned_or_taken_by_name(
    api: Api, key: NewApiKey, jane: NewApiKey, bob: NewApiKey
) -> None:
    first, second = await parked(api, key, "T-1", "T-2", kind="TakenByName")
    [waits] = await api.emit(key, api.item("T-3", kind="TakenByName"))
    one = {"ids": [str(first)]}

    async def since() -> str:
        answer = await api.ask("GET", f"/v1/items/{first}", key=jane)
        assert answer.document["taken_by"] == "key:jane"
        return answer.document["taken_at"]

    assert await asked(api, jane, "take", one) == [("done", "key:jane")]
    taken_at = await since()
    assert await asked(api, jane, "take", one) == [("done", "key:jane")]
    assert await since() == taken_at
    both = {"ids": [str(each) for each in (first, second, waits, uuid4())]}
    assert await asked(api, bob, "take", both) == [
        *(("taken", "key:jane"), ("done", "key:bob")),
        *(("illegal", None), ("unknown", None)),
    ]
    assert await asked(api, bob, "return", one) == [("taken", "key:jane")]
    assert await asked(api, bob, "take", {**one, "instead_of": "key:eve"}) == [
        ("taken", "key:jane")
    ]
    assert await asked(api, bob, "take", {**one, "instead_of": "key:jane"}) == [("done", "key:bob")]
    assert await asked(api, jane, "return", one) == [("taken", "key:bob")]
    for _ in range(2):
        assert await asked(api, bob, "return", one) == [("done", None)]
    listed = await api.ask("GET", "/v1/reviews?kind=TakenByName", key=jane)
    assert [each["taken_by"] for each in listed.document["items"]] == [None, "key:bob"]
    decided = {"verb": "redrive", "ids": [str(second)], "reason": "INC-1"}
    done = await api.ask("POST", "/v1/tenants/acme/decisions", key=jane, body=decided)
    assert done.document["items"][0]["result"] == "done"  # taking hinders nobody
    await api.park(second)
    assert await asked(api, jane, "take", {"ids": [str(second)]}) == [("done", "key:jane")]


async def test_of_two_who_take_an_item_at_once_one_has_it(
    api: Api, key: NewApiKey, jane: NewApiKey, bob: NewApiKey
) -> None:
    ids = await parked(api, key, *(f"O-{number}" for number in range(8)), kind="AtOnce")
    for item in ids:
        body = {"ids": [str(item)]}
        found = await asyncio.gather(*(asked(api, each, "take", body) for each in (jane, bob)))
        [(one, has)], [(other, has_too)] = found
        assert sorted((one, other)) == ["done", "taken"]
        assert has == has_too


async def test_a_group_is_taken_as_it_is_listed(
    api: Api, key: NewApiKey, jane: NewApiKey, bob: NewApiKey
) -> None:
    ids = await parked(api, key, "G-1", "G-2", "G-3")
    await api.owner.execute(
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at,"
        " detail) select effective_date, item_no, 6, 1, $2, ledger.now(), $3::jsonb"
        " from ledger.due_item where id = any ($1::uuid[])",
        ids[:2],
        api.person_no,
        {"error": "TimeoutError"},
    )
    assert await asked(api, bob, "take", {"ids": [str(ids[0])]}) == [("done", "key:bob")]
    found = await asked(api, jane, "take", {**GROUP, "error": "TimeoutError"})
    assert sorted(found) == [("done", "key:jane"), ("taken", "key:bob")]
    groups = (await api.ask("GET", "/v1/reviews/groups?kind=Taken", key=jane)).document["items"]
    shown = [(each["error"], each["items"], each["taken"], each["taken_by"]) for each in groups]
    assert shown == [("TimeoutError", 2, 2, ["key:bob", "key:jane"]), (None, 1, 0, [])]
    assert sorted(await asked(api, jane, "return", GROUP)) == [
        *(("done", None), ("done", None), ("taken", "key:bob"))
    ]
    unknown = await api.ask("POST", f"{REVIEWS}/take", key=jane, body={"kind": "Nothing"})
    assert "No parked item matches" in problem(unknown, 404, "NOT_FOUND").detail


async def test_comments_are_on_an_item_or_a_group_and_the_audit_has_them(
    api: Api, key: NewApiKey, jane: NewApiKey, bob: NewApiKey
) -> None:
    [item, free] = await parked(api, key, "C-1", "C-2", kind="Commented")
    for number, (author, about) in enumerate(
        (
            (jane, {"item": str(item)}),
            (bob, {"item": str(item)}),
            (bob, {"kind": "Commented", "lane": "", "error": None, "parked_reason": "x"}),
            (jane, {"kind": "Commented"}),
        )
    ):
        body = {**about, "comment": f"comment {number}"}
        status = 404 if "parked_reason" in about else 201
        for _ in range(2):  # as after a lost response
            headers = {"Idempotency-Key": f"comment-{number}"}
            path = f"{REVIEWS}/comments"
            written = await api.ask("POST", path, key=author, body=body, headers=headers)
            assert written.status == status, written.text

    async def comments(query: str) -> list[tuple[str, str]]:
        answer = await api.ask("GET", f"{REVIEWS}/comments?{query}", key=jane)
        assert answer.status == 200, answer.text
        rows = answer.document["items"]
        if cursor := answer.document["next_cursor"]:
            more = await api.ask("GET", f"{REVIEWS}/comments?{query}&cursor={cursor}", key=jane)
            rows += more.document["items"]
        return [(each["actor"], each["comment"]) for each in rows]

    assert await comments(f"item={item}&limit=1") == [
        *(("key:bob", "comment 1"), ("key:jane", "comment 0"))
    ]
    assert await comments(f"item={free}") == []
    for query in ("kind=Commented", "kind=Commented&lane="):
        assert await comments(query) == [("key:jane", "comment 3")]
    decided = {"verb": "redrive", "ids": [str(item)], "reason": "INC-1"}
    await api.ask("POST", "/v1/tenants/acme/decisions", key=jane, body=decided)
    body = {"item": str(item), "comment": "late"}
    late = await api.ask("POST", f"{REVIEWS}/comments", key=jane, body=body)
    assert "not parked" in problem(late, 409, "CONFLICT").detail


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("take", {}, ""),
        ("take", {"lane": ""}, ""),
        ("take", {"ids": []}, "/ids"),
        ("take", {"ids": [str(uuid4())], "kind": "K"}, ""),
        ("take", {"kind": "K", "instead_of": ""}, "/instead_of"),
        ("return", {"kind": "K", "instead_of": "key:bob"}, "/instead_of"),
        ("comments", {"kind": "K"}, "/comment"),
        ("comments", {"kind": "K", "comment": "\u001b[2J"}, "/comment"),
        ("comments", {"kind": "K", "item": str(uuid4()), "comment": "x"}, ""),
    ],
)
async def test_what_names_no_items_or_them_twice_is_pointed_at(
    api: Api, jane: NewApiKey, path: str, body: dict[str, Any], pointer: str
) -> None:
    answer = await api.ask("POST", f"{REVIEWS}/{path}", key=jane, body=body)
    assert [each.pointer for each in problem(answer, 422, "INVALID_INPUT").errors] == [pointer]
    listed = await api.ask("GET", f"{REVIEWS}/comments", key=jane)
    assert [each.pointer for each in problem(listed, 422, "INVALID_INPUT").errors] == ["item"]
