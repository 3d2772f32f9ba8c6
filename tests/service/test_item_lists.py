"""Lists of items: each item once, in order, by filters, a page at a time."""

from typing import Any
from uuid import UUID

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.items import withdraw_items
from tests.service.conftest import SCHEDULE, Api
from tests.service.test_requests import problem

KIND = "Listed"
KEYS = [f"L-{number}" for number in range(6)]


@pytest.fixture(scope="module")
async def lister(api: Api) -> NewApiKey:
    """A key of tenants with six items of a kind, on six days; the last three are not due yet."""
    key = await api.make_key("lister", Scope.READ, Scope.EMIT, tenants=["listed", "other"])
    items = [
        api.item(
            name,
            tenant="other" if number == 5 else "listed",
            kind=KIND,
            lane="eu" if number % 2 else "us",
            labels={"line": str(number % 3)},
            effective_date=f"2027-03-{number + 1:02}",
            due_at=f"{2026 if number < 3 else 2096}-01-{number + 1:02}T09:00:00Z",
        )
        for number, name in enumerate(KEYS)
    ]
    await api.emit(key, *items)
    return key


@pytest.fixture(scope="module")
async def moved(api: Api, lister: NewApiKey) -> None:
    """The first of them is parked, and the second is cancelled."""
    first, second = [
        each["id"]
        for each in (
            await api.ask(
                "GET", f"/v1/items?kind={KIND}&due_before=2026-01-03T00:00:00Z", key=lister
            )
        ).document["items"][::-1]
    ]
    await withdraw_items(
        api.owner,
        [UUID(second)],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=api.person_no,
    )
    await api.owner.execute(
        "with moved as ("
        "  delete from ledger.pending p using ledger.due_item i"
        "  where i.item_no = p.item_no and i.id = $1 returning p.*)"
        " insert into ledger.review"
        " (item_no, effective_date, flow_no, attempt, starts, reason, parked_at, actor_no)"
        " select item_no, effective_date, flow_no, 1, 1, 'test', now(), $2 from moved",
        first,
        api.person_no,
    )


async def listed(api: Api, key: NewApiKey, query: str, limit: int = 50) -> list[str]:
    """Return the business keys of all pages of a list."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = await api.ask("GET", f"/v1/items?limit={limit}{query}{cursor}", key=key)
        assert answer.status == 200, answer.text
        document: dict[str, Any] = answer.document
        assert len(document["items"]) <= limit
        found += [each["business_key"] for each in document["items"]]
        if document["next_cursor"] is None:
            return found
        cursor = f"&cursor={document['next_cursor']}"


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (f"&kind={KIND}", [5, 4, 3, 2, 1, 0]),
        (f"&kind={KIND}&tenant=listed", [4, 3, 2, 1, 0]),
        (f"&kind={KIND}&lane=eu", [5, 3, 1]),
        (f"&kind={KIND}&label=line=1", [4, 1]),
        (f"&kind={KIND}&due_from=2026-01-02T09:00:00Z&due_before=2096-01-05T09:00:00Z", [3, 2, 1]),
        (f"&business_key={KEYS[2]}", [2]),
        (f"&business_key={KEYS[2]}&tenant=other", []),
        (f"&kind={KIND}&state=Cancelled", [1]),
        (f"&kind={KIND}&open=true", [0, 2, 3, 4, 5]),
        (f"&kind={KIND}&open=true&due_from=2030-01-01T00:00:00Z", [3, 4, 5]),
        (f"&kind={KIND}&late=true", [0, 2]),
        (f"&kind={KIND}&state=ManualReview", [0]),
        (f"&kind={KIND}&state=Scheduled&lane=us", [2, 4]),
    ],
)
async def test_a_list_has_each_item_of_its_filter_once_whatever_the_size_of_a_page(
    api: Api, lister: NewApiKey, query: str, numbers: list[int]
) -> None:
    expected = [KEYS[number] for number in numbers]
    for limit in (1, 2, 50):
        assert await listed(api, lister, query, limit) == expected


async def test_a_list_goes_on_where_too_few_of_the_items_examined_match(
    api: Api, lister: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueledger.service.routes.items._EXAMINED_MAX", 2)
    assert await listed(api, lister, f"&kind={KIND}&label=line=0", 5) == [KEYS[3], KEYS[0]]
    by_key = f"&business_key={KEYS[0]}"
    assert await listed(api, lister, by_key) == [KEYS[0]]


@pytest.mark.parametrize("more", ["", f"&business_key={KEYS[0]}"])
async def test_a_page_that_the_first_items_do_not_fill_is_looked_for_among_more(
    api: Api, lister: NewApiKey, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr("dueledger.ledger.store.item_lists._FIRST_EXAMINED", 1)
    path = f"/v1/items?limit=1&kind={KIND}&lane=us&label=line=0{more}"
    answer = await api.ask("GET", path, key=lister)
    assert [each["business_key"] for each in answer.document["items"]] == [KEYS[0]]


@pytest.mark.parametrize("limit", [1, 2])
async def test_an_item_that_was_made_available_early_is_on_the_page_of_its_due_time(
    api: Api, limit: int
) -> None:
    """One waits since then, one has failed since then: both were available before the cursor."""
    kind = f"Early{limit}"
    key = await api.make_key(kind, Scope.READ, Scope.EMIT, tenants=[kind])
    named = [
        api.item(name, tenant=kind, kind=kind, due_at=f"2096-01-{number + 1:02}T09:00:00Z")
        for number, name in enumerate(KEYS)
    ]
    await api.emit(key, *named)
    ids = await api.owner.fetch(
        "select i.id from ledger.due_item i join ledger.flow f using (flow_no)"
        " where f.kind = $1 order by i.due_at",
        kind,
    )
    early = [ids[number]["id"] for number in (0, 3, 4)]
    await expedite_items(api.owner, early, reason="asked for", actor_no=api.person_no)
    await api.owner.execute(
        "update ledger.pending p set state = 4, attempt = 1, starts = 1, available_at = now()"
        " from ledger.due_item i where i.item_no = p.item_no and i.id = $1",
        early[2],
    )
    assert await listed(api, key, f"&kind={kind}&open=true", limit) == KEYS


@pytest.mark.parametrize(
    "query", ["open=true", "state=Running", "attempt_min=1", "worker=key:{tenant}-{kind}"]
)
async def test_items_in_flight_are_listed_however_many_others_have(
    api: Api, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr("dueledger.service.routes.items.READ_MAX", 3)
    kind = f"Flies{query[:4]}"
    scopes = (Scope.READ, Scope.EMIT, Scope.WORK)
    for tenant, count in (("crowd", 4), ("few", 2)):
        key = await api.make_key(f"{tenant}-{kind}", *scopes, tenants=[tenant])
        names = [f"{tenant}-{number}" for number in range(count)]
        await api.emit(key, *(api.item(name, tenant=tenant, kind=kind) for name in names))
        body = {"kinds": [kind], "items_max": count}
        await api.ask("POST", "/v1/claims", key=key, body=body)
        named = query.format(tenant=tenant, kind=kind)
        answer = await api.ask("GET", f"/v1/items?{named}&kind={kind}&limit=3", key=key)
        shown = {each["business_key"] for each in answer.document["items"]}
        assert (len(shown), answer.document["is_cut"]) == (min(count, 3), count > 3)
        assert shown <= set(names)


async def test_open_items_are_listed_by_attempts_and_by_the_worker_at_which_they_run(
    api: Api,
) -> None:
    scopes = (Scope.READ, Scope.EMIT, Scope.WORK)
    key = await api.make_key("tried", *scopes, tenants=["tried"])
    names = [f"T-{number}" for number in range(6)]
    members = {"tenant": "tried", "kind": "Tried"}
    dues = [f"2026-01-{number + 1:02}T09:00:00Z" for number in range(6)]
    items = [api.item(name, due_at=due, **members) for name, due in zip(names, dues, strict=True)]
    emitted = await api.emit(key, *items[:2])
    await api.ask("POST", "/v1/claims", key=key, body={"kinds": ["Tried"], "items_max": 2})
    emitted += await api.emit(key, *items[2:])
    await api.owner.execute(
        "update ledger.pending p set state = 4, attempt = 3, starts = 3"
        " from ledger.due_item i where i.item_no = p.item_no and i.id = $1",
        emitted[3],
    )
    await api.park(emitted[4])  # after five attempts
    for query, numbers in (
        ("&attempt_min=1", [0, 1, 3, 4]),
        ("&attempt_min=2", [3, 4]),
        ("&attempt_min=4&open=true", [4]),
        ("&attempt_min=6", []),
        ("&attempt_min=3&state=RetryableFailure", [3]),
        ("&worker=key:tried", [0, 1]),
        ("&worker=key:tried&attempt_min=2", []),
        ("&worker=key:tried&state=Claimed", []),
        ("&worker=key:nobody", []),
    ):
        for limit in (1, 50):
            found = await listed(api, key, f"&kind=Tried{query}", limit)
            assert found == [names[number] for number in numbers], (query, limit)
    for query in (
        "attempt_min=1&state=Completed&open=true",
        "worker=key:tried&state=Completed&in_flight=true",
        "worker=key:tried&state=Scheduled",
    ):
        refused = await api.ask("GET", f"/v1/items?{query}", key=key)
        assert [each.pointer for each in problem(refused, 422, "INVALID_INPUT").errors] == ["state"]


async def test_ended_items_are_listed_by_their_last_attempt_and_by_who_recorded_the_end(
    api: Api,
) -> None:
    scopes = (Scope.READ, Scope.EMIT, Scope.WORK, Scope.OPERATE)
    first, second = [
        await api.make_key(name, *scopes, tenants=["endings"]) for name in ("ends-1", "ends-2")
    ]
    members = {"tenant": "endings", "kind": "Ending"}

    async def complete(key: NewApiKey) -> None:
        body = {"kinds": ["Ending"], "items_max": 1}
        [item] = (await api.ask("POST", "/v1/claims", key=key, body=body)).document["items"]
        named = {name: item[name] for name in ("item", "fence", "token", "position")}
        outcomes = {"outcomes": [named | {"verdict": "completed"}]}
        assert (await api.ask("POST", "/v1/outcomes", key=key, body=outcomes)).status == 200

    await api.emit(first, api.item("E-0", **members))
    await complete(first)
    [failed] = await api.emit(first, api.item("E-1", **members))
    await api.owner.execute(
        "update ledger.pending p set state = 4, attempt = 3, starts = 3"
        " from ledger.due_item i where i.item_no = p.item_no and i.id = $1",
        failed,
    )
    await complete(second)
    [cancelled] = await api.emit(first, api.item("E-2", **members))
    decision = {"verb": "cancel", "ids": [str(cancelled)], "reason": "INC-1"}
    await api.ask("POST", "/v1/tenants/endings/decisions", key=second, body=decision)
    for query, names in (
        ("state=Completed", ["E-1", "E-0"]),
        ("state=Completed&attempt_min=1", ["E-1", "E-0"]),
        ("state=Completed&attempt_min=2", ["E-1"]),
        ("state=Completed&attempt_min=5", []),
        ("state=Completed&worker=key:ends-1", ["E-0"]),
        ("state=Completed&worker=key:ends-2&attempt_min=4", ["E-1"]),
        ("state=Completed&worker=key:nobody", []),
        ("state=Cancelled&worker=key:ends-2", ["E-2"]),
        ("state=Cancelled&attempt_min=1", []),
    ):
        for scope in ("", "&business_key=E-1"):
            expected = [name for name in names if not scope or name == "E-1"]
            found = await listed(api, first, f"&kind=Ending&{query}{scope}", 50)
            assert found == expected, (query, scope)
    everybody = await api.make_key("ends-all", Scope.READ, tenants=None)
    query = "&state=Completed&worker=key:ends-2&attempt_min=4"
    assert await listed(api, everybody, query, 50) == ["E-1"]


async def test_items_are_listed_by_their_definition_and_its_version(api: Api) -> None:
    tenants = ["versioned", "other"]
    key = await api.make_key("versions", Scope.READ, Scope.EMIT, tenants=tenants)
    members = {"tenant": "versioned", "kind": "StatementDue"}
    for version, cron in ((1, "0 9 1 * *"), (2, "0 9 2 * *")):
        when = {"cron": cron, "timezone": "Europe/Berlin"}
        await api.define("versioned", "statements", SCHEDULE | {"when": when})
        [item] = await api.emit(key, api.item("statements", cycle=str(version), **members))
        await api.owner.execute(
            "update ledger.due_item set definition_no = (select definition_no"
            " from ledger.definition where tenant = 'versioned' and version = $2) where id = $1",
            item,
            version,
        )
    await api.emit(key, api.item("statements", cycle="0", **members))

    async def cycles(query: str) -> list[str]:
        answer = await api.ask("GET", f"/v1/items?{query}", key=key)
        assert answer.status == 200, answer.text
        return sorted(each["cycle"] for each in answer.document["items"])

    for more in ("", "&open=true", "&business_key=statements", "&kind=StatementDue"):
        of = f"tenant=versioned&definition=statements{more}"
        assert await cycles(of) == ["1", "2"], more
        assert await cycles(f"{of}&definition_version=2") == ["2"], more
        assert await cycles(f"{of}&definition_version=3") == [], more
    assert await cycles("tenant=versioned&definition=unknown") == []
    assert await cycles("tenant=other&definition=statements") == []
    stranger = await api.make_key("stranger", Scope.READ, tenants=["other"])
    path = "/v1/items?tenant=versioned&definition=statements"
    assert (await api.ask("GET", path, key=stranger)).document["items"] == []
    for query, pointer in (
        ("definition=statements", "tenant"),
        ("tenant=versioned&definition_version=1", "definition"),
        ("attempt_min=0", "attempt_min"),
    ):
        refused = await api.ask("GET", f"/v1/items?{query}", key=key)
        assert [each.pointer for each in problem(refused, 422, "INVALID_INPUT").errors] == [pointer]


async def test_pages_have_own_items_alone_and_all_of_them_however_many_others_have(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flows of one date, of later ones and of earlier ones, among those of another tenant."""
    monkeypatch.setattr("dueledger.service.routes.items._EXAMINED_MAX", 4)
    both = await api.make_key("both", Scope.EMIT, tenants=["paged", "beside"])
    placed = {
        f"{lane}{number}": (lane, f"2027-{month:02}-{1 + number % days:02}")
        for lane, month, days, count in (("a", 5, 1, 9), ("b", 6, 9, 7), ("c", 4, 2, 3))
        for number in range(count)
    }
    for each, (lane, day) in placed.items():
        members = {"kind": "Paged", "lane": lane, "effective_date": day}
        items = [api.item(f"o{number}", tenant="beside", **members) for number in range(5)]
        await api.emit(both, api.item(each, tenant="paged", **members), *items)
    expected = sorted(placed, key=lambda each: placed[each][1], reverse=True)
    key = await api.make_key("paged", Scope.READ, tenants=["paged"])
    for query, kept in (("", expected), ("&lane=a", [x for x in expected if x[0] == "a"])):
        for limit in (1, 2, 3, 50):
            found = await listed(api, key, query, limit)
            assert [placed[each][1] for each in found] == [placed[each][1] for each in kept]
            assert sorted(found) == sorted(kept)
    full = await api.ask("GET", "/v1/items?limit=15", key=key)
    assert len(full.document["items"]) == 15
    assert await listed(api, key, "&state=Completed", 5) == []


async def test_a_cursor_of_other_filters_is_a_problem(api: Api, lister: NewApiKey) -> None:
    first = await api.ask("GET", f"/v1/items?kind={KIND}&limit=1", key=lister)
    cursor = first.document["next_cursor"]
    for query in (f"kind={KIND}&lane=eu", "", f"kind={KIND}&open=true"):
        answer = await api.ask("GET", f"/v1/items?{query}&cursor={cursor}", key=lister)
        problem(answer, 422, "CURSOR_INVALID")


async def test_a_state_that_no_item_of_the_list_has_is_named(api: Api, lister: NewApiKey) -> None:
    for query in ("state=Nonsense", "state=Completed&late=true"):
        found = problem(
            await api.ask("GET", f"/v1/items?{query}", key=lister), 422, "INVALID_INPUT"
        )
        assert [each.pointer for each in found.errors] == ["state"]
