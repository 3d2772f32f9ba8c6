"""Pull workers: items are claimed by long poll, under a lease, and reported once."""

import asyncio
from itertools import count
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from dueledger.hindrances import has_upkeep
from dueledger.ledger.metrics import Metric
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.claims import reap_runs
from dueledger.ledger.store.processes import read_roles
from dueledger.service import ServiceSettings, open_service, pull_queue
from tests.claim_ids import claims_of_other_flows
from tests.databases import MakeDatabase
from tests.logins import with_login
from tests.metrics_page import Series, read_own_page
from tests.service.conftest import Api, open_api
from tests.service.test_requests import problem
from tests.workers.conftest import Eventually

LONG_SECONDS = 60.0
_numbers = count(1)
BOOKING = "12345678901234567890123"
"""No float has it."""


@pytest.fixture(scope="module")
async def worker(api: Api) -> NewApiKey:
    """A key of the tenant acme that may work."""
    return await api.make_key("puller", Scope.WORK)


@pytest.fixture
def kind() -> str:
    """A kind of the test's own."""
    return f"Pulled{next(_numbers)}"


async def pull(api: Api, worker: NewApiKey, kind: str, **members: object) -> list[dict[str, Any]]:
    body = {"kinds": [kind], "items_max": 10} | members
    answer = await api.ask("POST", "/v1/claims", key=worker, body=body)
    assert answer.status == 200, answer.text
    return answer.document["items"]


async def report(
    api: Api, worker: NewApiKey, *reports: dict[str, Any]
) -> list[tuple[str, float | None]]:
    answer = await api.ask("POST", "/v1/outcomes", key=worker, body={"outcomes": reports})
    assert answer.status == 200, answer.text
    return [(each["result"], each["lease_seconds"]) for each in answer.document["outcomes"]]


def outcome(item: dict[str, Any], verdict: str, **members: object) -> dict[str, Any]:
    named = {name: item[name] for name in ("item", "fence", "token", "position")}
    return named | {"verdict": verdict} | members


async def item_no(api: Api, item: dict[str, Any]) -> int:
    find = "select item_no from ledger.due_item where id = $1"
    return await api.owner.fetchval(find, item["item"])


async def state(api: Api, key: NewApiKey, item: dict[str, Any]) -> str:
    return (await api.ask("GET", f"/v1/items/{item['item']}", key=key)).document["state"]


async def test_an_item_is_pulled_reported_and_its_history_names_the_key(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    await api.emit(key, api.item("P-1", kind=kind, payload={"premium": 1}))
    [item] = await pull(api, worker, kind)
    assert (item["business_key"], item["payload"], item["attempt"]) == ("P-1", {"premium": 1}, 1)
    assert await pull(api, worker, kind) == []
    assert await state(api, key, item) == "Running"
    done = outcome(item, "SUCCESS", evidence={"booking": int(BOOKING)})
    for _ in range(2):  # as after a lost response
        assert await report(api, worker, done) == [("recorded", None)]
    assert await state(api, key, item) == "Completed"
    timeline = await api.ask("GET", f"/v1/items/{item['item']}/timeline", key=key)
    steps = {step["event"]: step for step in timeline.document["items"]}
    assert steps["started"]["actor"] == steps["completed"]["actor"] == "key:puller"
    booked = "select detail ->> 'booking' from ledger.transition where item_no = $1 and event = 5"
    assert await api.owner.fetchval(booked, await item_no(api, item)) == BOOKING
    other = done | {"evidence": {"booking": 2}}
    assert await report(api, worker, other, outcome(item, "retry")) == [("conflict", None)] * 2


@pytest.mark.parametrize(
    ("verdict", "members", "expected"),
    [
        ("FAILED", {"reason": "no"}, ("RetryableFailure", 2)),
        ("retry", {"reason": "no", "after": "PT0S"}, ("RetryableFailure", 2)),
        ("snooze", {"after": "PT0S"}, ("Scheduled", 1)),
        ("release", {}, ("Scheduled", 1)),
        ("park", {"reason": "ask"}, ("ManualReview", None)),
        ("not_due", {"reason": "paid"}, ("Cancelled", None)),
    ],
)
async def test_g7_an_outcome_has_the_same_result_however_often_it_is_reported(
    api: Api,
    key: NewApiKey,
    worker: NewApiKey,
    kind: str,
    verdict: str,
    members: dict[str, object],
    expected: tuple[str, int | None],
) -> None:
    await api.emit(key, api.item("P-1", kind=kind))
    [item] = await pull(api, worker, kind)
    ended = outcome(item, verdict, **members)
    for _ in range(2):
        assert await report(api, worker, ended) == [("recorded", None)]
    state, attempt = expected
    shown = (await api.ask("GET", f"/v1/items/{item['item']}", key=key)).document
    assert shown["state"] == state
    if attempt is not None and verdict != "FAILED":  # that one waits for its backoff
        [again] = await pull(api, worker, kind)
        assert again["attempt"] == attempt
        assert again["fence"] > item["fence"]
        assert await report(api, worker, outcome(item, "completed")) == [("conflict", None)]


async def test_the_history_of_an_item_has_a_limit_and_a_cursor(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    await api.emit(key, api.item("P-1", kind=kind))
    [item] = await pull(api, worker, kind)
    await report(api, worker, outcome(item, "retry", after="PT0S"))
    [again] = await pull(api, worker, kind)
    await report(api, worker, outcome(again, "retry", after="PT0S"))
    asked, cursor = f"/v1/items/{item['item']}/timeline?limit=3", ""
    pages: list[list[str]] = []
    while cursor is not None:
        page = (await api.ask("GET", asked + cursor, key=key)).document
        pages.append([step["event"] for step in page["items"]])
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert pages == [
        ["emitted", "claimed", "started"],
        ["failed", "claimed", "started"],
        ["failed"],
    ]


async def test_g4_g9_a_worker_that_dies_gives_its_items_back_and_its_late_outcome_is_stale(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    """A heartbeat extends the lease; once it has lapsed another worker has the items."""
    await api.emit(key, api.item("P-1", kind=kind), api.item("P-2", kind=kind))
    items = await pull(api, worker, kind, lease_seconds=100)
    assert [item["lease_seconds"] for item in items] == [100.0] * 2
    await report(api, worker, outcome(items[0], "completed"))
    left = "select extract(epoch from lease_until - ledger.machine_now()) from ledger.run"
    left += " where fence = $1"
    await api.owner.execute(
        "update ledger.run set lease_until = ledger.machine_now() + interval '10 s'"
        " where fence = $1",
        items[0]["fence"],
    )
    [(result, seconds)] = await report(api, worker, outcome(items[1], "RUNNING"))
    assert result == "recorded"
    assert seconds is not None
    assert seconds > 90
    assert await api.owner.fetchval(left, items[0]["fence"]) > 90
    await api.owner.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1000 s'"
        " where fence = $1",
        items[0]["fence"],
    )
    reaped = await reap_runs(api.owner, 100, api.person_no)
    assert (reaped.runs, reaped.retried) == (1, 1)
    [again] = await pull(api, worker, kind)
    assert again["item"] == items[1]["item"]
    assert again["attempt"] == 1  # the end of its worker blames no item
    assert await report(api, worker, outcome(items[1], "completed")) == [("stale", None)]
    assert await report(api, worker, outcome(again, "completed")) == [("recorded", None)]
    assert await report(api, worker, outcome(items[0], "completed")) == [("recorded", None)]


async def test_g5_items_that_die_together_come_back_in_smaller_batches(
    api: Api, key: NewApiKey, kind: str
) -> None:
    """Until the one that kills its worker is alone: the others complete."""
    worker = await api.make_key("dying", Scope.WORK)  # what others hold counts as lost with it
    await api.emit(key, *(api.item(f"P-{number}", kind=kind) for number in range(16)))
    sizes = [len(await pull(api, worker, kind, items_max=100))]
    for _ in range(2):
        await api.owner.execute(
            "update ledger.run r set lease_until = ledger.machine_now() - interval '1000 s'"
            " from ledger.actor a where a.actor_no = r.worker_no and a.name = 'key:dying'"
            " and r.closed_at is null"
        )
        await reap_runs(api.owner, 100, api.person_no)
        sizes.append(len(await pull(api, worker, kind, items_max=100)))
    assert sizes == [16, 2, 1]


async def test_a_long_poll_is_woken_by_an_emission(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    """The polls are in the queue before the item is emitted; each item is given to one of them."""
    waiting = [
        asyncio.create_task(pull(api, worker, kind, items_max=1, wait_seconds=LONG_SECONDS))
        for _ in range(3)
    ]
    await api.polling(3)
    await api.emit(key, *(api.item(f"P-{number}", kind=kind) for number in range(3)))
    found = await asyncio.gather(*waiting)
    keys = sorted(item["business_key"] for items in found for item in items)
    assert keys == ["P-0", "P-1", "P-2"]


async def test_g9_without_other_processes_the_service_gives_back_what_a_dead_worker_had(
    database: str, connection: Connection
) -> None:
    """Its login may do upkeep. A service that is killed holds nothing: leases are of keys."""
    settings = ServiceSettings(dsn=SecretStr(with_login(database, "service_alone")), service_port=0)
    async with open_service(settings) as service, aiohttp.ClientSession() as session:
        api = Api(
            service,
            connection,
            session,
            await register_actor(connection, "person:t", ActorKind.PERSON),
            database,
        )
        key = await api.make_key("alone", Scope.EMIT, Scope.WORK)
        await api.emit(key, api.item("P-1"))
        assert has_upkeep(await read_roles(connection))
        [first] = await pull(api, key, "PolicyRenewalDue")
        lapsed = "update ledger.run set lease_until = ledger.machine_now() - interval '1 hour'"
        await connection.execute(lapsed)
        [again] = await pull(api, key, "PolicyRenewalDue", wait_seconds=LONG_SECONDS)
        assert again["item"] == first["item"]
        assert again["fence"] > first["fence"]
        operator = await api.make_key("alone-operator", Scope.OPERATE)
        limits = "/v1/flows/acme/PolicyRenewalDue"
        answer = await api.ask("PATCH", limits, key=operator, body={"weight": 2})
        missing = problem(answer, 500, "ROLE_MISSING")
        assert "ledger_operator" in missing.detail
        assert "dueledger grant" in missing.detail
        names = "select a.kind from ledger.run r join ledger.actor a on a.actor_no = r.worker_no"
        assert {row["kind"] for row in await connection.fetch(names)} == {"key"}
    without = ServiceSettings(dsn=SecretStr(with_login(database, "service")), service_port=0)
    async with open_service(without):
        assert not has_upkeep(await read_roles(connection))


async def test_a_service_alone_measures_the_ledger_and_shows_nothing_of_it_to_everybody(
    database: str,
    connection: Connection,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ServiceSettings(
        dsn=SecretStr(with_login(database, "service_alone")), service_port=0, metrics_port=0
    )
    person_no = await register_actor(connection, "person:t", ActorKind.PERSON)

    async def served() -> dict[str, list[str]]:
        """Return the kinds that pull workers ask for, with the tenants, as the ledger has them."""
        row = "select kind_tenants from ledger.process where role = 'service'"
        return await connection.fetchval(row) or {}

    async def forgotten() -> bool:
        return "PolicyRenewalDue" not in await served()

    async def measured() -> Series | None:
        return read_own_page().get(Metric.CLAIMERS)

    async with open_service(settings) as service, aiohttp.ClientSession() as session:
        api = Api(service, connection, session, person_no, database)
        key = await api.make_key("alone", Scope.WORK)
        assert await pull(api, key, "PolicyRenewalDue") == []
        assert await eventually(served) == {"PolicyRenewalDue": ["acme"]}
        assert await eventually(measured) == {("service",): 1}
        page = (await api.ask("GET", "/metrics")).text
        assert "dueledger_process_info" in page
        assert all(name not in page for name in (Metric.CLAIMERS, "tenant=", "kind=", "topic="))
        monkeypatch.setattr(pull_queue, "SUBSCRIPTION_SECONDS", 0.0)
        assert await pull(api, key, "Other") == []
        assert await eventually(forgotten)


async def test_a_client_that_has_gone_is_given_nothing(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    gone = asyncio.create_task(pull(api, worker, kind, wait_seconds=LONG_SECONDS))
    await api.polling(1)
    gone.cancel()
    await asyncio.wait({gone})
    await api.polling(0)
    await api.emit(key, api.item("P-1", kind=kind))
    [item] = await pull(api, worker, kind, wait_seconds=LONG_SECONDS)
    assert item["fence"]


async def test_a_key_that_was_revoked_while_it_waited_claims_nothing(
    api: Api, key: NewApiKey, kind: str
) -> None:
    left = await api.make_key("left-puller", Scope.WORK)
    body = {"kinds": [kind], "wait_seconds": LONG_SECONDS}
    waiting = asyncio.create_task(api.ask("POST", "/v1/claims", key=left, body=body))
    await api.polling(1)
    await api.revoke(left)
    await api.emit(key, api.item("P-1", kind=kind))
    problem(await waiting, 401, "KEY_MISSING")
    running = "select count(*) from ledger.run r join ledger.actor a on a.actor_no = r.worker_no"
    assert await api.owner.fetchval(f"{running} where a.name = 'key:left-puller'") == 0


async def test_a_claim_is_of_the_tenants_lanes_and_kinds_asked_for_alone(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    everybody = await api.make_key("emits-for-all", Scope.EMIT, tenants=None)
    await api.emit(everybody, api.item("P-1", kind=kind, tenant="umbra"))
    await api.emit(key, api.item("P-2", kind=kind, lane="eu"), api.item("P-3", kind=f"{kind}.x"))
    assert await pull(api, worker, kind, lanes=["us"]) == []
    [item] = await pull(api, worker, kind)
    assert item["business_key"] == "P-2"
    all_work = await api.make_key("works-for-all", Scope.WORK, tenants=None)
    [item] = await pull(api, all_work, kind)
    assert (item["tenant"], item["business_key"]) == ("umbra", "P-1")
    # Another key has neither the right to end it, nor, of another tenant, knowledge of it.
    assert await report(api, worker, outcome(item, "completed")) == [("mismatch", None)]
    own = await pull(api, worker, f"{kind}.x")
    second = await api.make_key("second-puller", Scope.WORK)
    assert await report(api, second, outcome(own[0], "completed")) == [("wrong_settler", None)]


async def test_serial_and_limited_items_are_pulled_within_their_order_and_limits(
    api: Api, key: NewApiKey, worker: NewApiKey, kind: str
) -> None:
    await api.emit(key, api.item("P-0", kind=kind))
    await api.owner.execute("update ledger.kind set ordering = 'key' where name = $1", kind)
    await api.emit(
        key,
        api.item("P-1", kind=kind, cycle="a", partition_key="K"),
        api.item("P-1", kind=kind, cycle="b", partition_key="K", due_at="2026-01-02T09:00:00Z"),
        api.item("P-2", kind=kind, partition_key="L"),
    )
    given = await pull(api, worker, kind) + await pull(api, worker, kind)
    names = sorted((item["business_key"], item["cycle"]) for item in given)
    assert names == [("P-0", ""), ("P-1", "a"), ("P-2", "")]
    await report(api, worker, *(outcome(item, "completed") for item in given))
    [last] = await pull(api, worker, kind, wait_seconds=LONG_SECONDS)
    assert last["cycle"] == "b"
    await api.owner.execute(
        "update ledger.flow f set concurrency_max = 2 from ledger.kind k"
        " where k.kind_no = f.kind_no and k.name = $1",
        kind,
    )
    await api.emit(key, *(api.item(f"Q-{number}", kind=kind) for number in range(3)))
    assert len(await pull(api, worker, kind, wait_seconds=LONG_SECONDS)) == 2
    assert await pull(api, worker, kind) == []
    assert await claims_of_other_flows(api.owner) == []


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_a_claim_has_as_many_items_as_the_bytes_of_payloads_allow_and_leaves_the_others_due(
    make_database: MakeDatabase, ordering: str
) -> None:
    mebibyte = 1024 * 1024
    async with open_api(
        make_database, service_body_bytes_max=4 * mebibyte, service_claim_bytes_max=mebibyte
    ) as api:
        key = await api.make_key("large", Scope.EMIT, Scope.WORK)
        await api.emit(key, api.item("first", kind="Large", due_at="2096-01-01T09:00:00Z"))
        await api.owner.execute("update ledger.kind set ordering = $1", ordering)
        payload = {"text": "x" * 250_000}
        for first in range(0, 10, 2):
            await api.emit(
                key,
                *(
                    api.item(f"L-{number}", kind="Large", lane=f"{number % 2}", payload=payload)
                    for number in (first, first + 1)
                ),
            )
        found: list[dict[str, Any]] = []
        waiting = "select count(*) from ledger.pending where available_at < ledger.now()"
        for expected in (6, 2, 0):
            found += await pull(api, key, "Large", items_max=100, wait_seconds=LONG_SECONDS)
            assert await api.owner.fetchval(waiting) == expected
        assert sorted(each["business_key"] for each in found) == [f"L-{n}" for n in range(10)]
        assert {each["attempt"] for each in found} == {1}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"kinds": []}, "/kinds"),
        ({"kinds": ["a\u0000"]}, "/kinds/0"),
        ({"items_max": 1_001}, "/items_max"),
        ({"wait_seconds": 301}, "/wait_seconds"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"worker": "w-1"}, "/worker"),
    ],
)
async def test_a_wrong_claim_is_pointed_at(
    api: Api, worker: NewApiKey, change: dict[str, Any], pointer: str
) -> None:
    answer = await api.ask("POST", "/v1/claims", key=worker, body={"kinds": ["Kind1"]} | change)
    found = problem(answer, 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == [pointer]


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"verdict": "done"}, "INVALID_OUTCOME", "/outcomes/1/verdict"),
        ({"verdict": "park"}, "INVALID_OUTCOME", "/outcomes/1/reason"),
        ({"after": "soon", "verdict": "retry"}, "INVALID_OUTCOME", "/outcomes/1/after"),
        ({"evidence": {"text": "\u0000"}}, "INVALID_OUTCOME", "/outcomes/1/evidence"),
        ({"fence": "7"}, "INVALID_INPUT", "/outcomes/1/fence"),
        ({"position": 2**31}, "INVALID_INPUT", "/outcomes/1/position"),
        ({"score": 1}, "INVALID_INPUT", "/outcomes/1/score"),
    ],
)
async def test_a_wrong_outcome_is_pointed_at_and_nothing_is_recorded(
    api: Api,
    key: NewApiKey,
    worker: NewApiKey,
    kind: str,
    change: dict[str, Any],
    code: str,
    pointer: str,
) -> None:
    await api.emit(key, api.item("P-1", kind=kind))
    [item] = await pull(api, worker, kind)
    good = outcome(item, "completed")
    answer = await api.ask(
        "POST", "/v1/outcomes", key=worker, body={"outcomes": [good, good | change]}
    )
    assert [each.pointer for each in problem(answer, 422, code).errors] == [pointer]
    assert await state(api, key, item) == "Running"
    unknown = good | {"token": "x"}
    assert await report(api, worker, unknown, good | {"position": 7}) == [
        ("mismatch", None),
        ("unknown", None),
    ]
