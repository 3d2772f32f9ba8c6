"""A request under an Idempotency-Key has one effect and one answer, however often it is sent."""

import asyncio
from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest
from fastapi import Response
from pydantic import BaseModel

from dueledger.client import AsyncClient, calls
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.emission import emit_by_key
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.scoped_routes import ScopedRoutes
from tests.service.conftest import Answer, Api
from tests.service.test_requests import problem

PATH = "/v1/numbers"


class Number(BaseModel):
    """What the route of this test answers."""

    number: str


routes = ScopedRoutes(Scope.EMIT, "test")


@routes.add(
    "POST",
    PATH,
    "emitNumber",
    Number,
    status=202,
    takes_idempotency_key=True,
    is_audited=False,
)
async def emit_number(call: CurrentCall, number: Number) -> Response:
    """Emit an item with another key each time."""
    name = f"{number.number}-{uuid4()}"
    item = (
        f'{{"tenant": "acme", "kind": "Numbered", "business_key": "{name}", "effective_date":'
        ' "2027-03-01", "due_at": "2026-01-01T09:00:00Z"}'
    )
    await emit_by_key(call.connection, f'{{"items": [{item}]}}')
    return answer({"number": name}, 202)


@pytest.fixture(scope="module")
async def numbers(api: Api) -> AsyncGenerator[Api]:
    """The service with a route whose repetition has another effect."""
    added = routes.routes
    api.service.app.router.routes.extend(added)
    yield api
    del api.service.app.router.routes[-len(added) :]


async def send(api: Api, key: NewApiKey, number: str, header: str) -> Answer:
    return await api.ask(
        "POST", PATH, key=key, body={"number": number}, headers={"Idempotency-Key": header}
    )


async def emitted(api: Api, number: str) -> int:
    counted = "select count(*) from ledger.due_item where business_key like $1 || '-%'"
    return await api.owner.fetchval(counted, number)


async def test_requests_at_one_time_under_one_key_have_one_effect_and_one_answer(
    numbers: Api, key: NewApiKey
) -> None:
    answers = await asyncio.gather(*(send(numbers, key, "one", "k 1") for _ in range(3)))
    again = await send(numbers, key, "one", "k 1")
    assert {each.status for each in (*answers, again)} == {202}
    assert len({each.text for each in (*answers, again)}) == 1
    assert await emitted(numbers, "one") == 1
    replayed = ["Idempotency-Replayed" in each.headers for each in (*answers, again)]
    assert sorted(replayed) == [False, True, True, True]
    await send(numbers, key, "one", "k 2")
    assert await emitted(numbers, "one") == 2


async def test_a_key_is_for_one_request_of_one_actor(numbers: Api, key: NewApiKey) -> None:
    await send(numbers, key, "two", "k 3")
    problem(await send(numbers, key, "other", "k 3"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert await emitted(numbers, "other") == 0
    second = await numbers.make_key("second", Scope.EMIT)
    assert (await send(numbers, second, "other", "k 3")).status == 202


async def test_a_request_that_failed_begins_anew_under_its_key(
    numbers: Api, key: NewApiKey
) -> None:
    wrong = await send(numbers, key, "three\u0007", "k 4")
    assert wrong.status == 422
    assert (await send(numbers, key, "three", "k 4")).status == 202


@pytest.mark.parametrize("header", ["", "x" * 201, "a\tb", "é"])
async def test_a_header_that_can_be_no_key_is_named(
    numbers: Api, key: NewApiKey, header: str
) -> None:
    found = problem(await send(numbers, key, "four", header), 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == ["Idempotency-Key"]
    assert await emitted(numbers, "four") == 0


async def test_without_a_key_nothing_happens_and_the_client_sends_one_by_itself(api: Api) -> None:
    admin = await api.make_key("admin", Scope.ADMIN)
    named = ("once", ["read"], ["acme"])
    body = dict(zip(("name", "scopes", "tenants"), named, strict=True))
    given = {"Authorization": f"Bearer {admin.text}"}
    url = f"{api.service.url}/v1/keys"
    async with api.session.post(url, json=body, headers=given) as reply:
        document = await reply.json()
        assert (reply.status, document["code"]) == (400, "IDEMPOTENCY_KEY_MISSING")
    async with AsyncClient(api.service.url, admin.text) as client:
        call = calls.create_key(*named)
        first, again = [await client.send(call) for _ in range(2)]
        other = await client.send(calls.create_key(*named))
    assert (first.prefix, again.key) == (again.prefix, None)
    assert first.key is not None
    assert other.prefix != first.prefix
    kept = await api.owner.fetchval("select string_agg(a::text, '') from ledger.api_answer a")
    secret = first.key.split("_", 2)[2]
    assert first.prefix in kept
    assert secret not in kept


async def test_each_route_whose_repetition_has_another_effect_needs_a_key(api: Api) -> None:
    document = (await api.ask("GET", "/openapi.json")).document
    needs = {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for each in operation.get("parameters", ())
        if (each["name"], each["required"]) == ("Idempotency-Key", True)
    }
    keyed = {
        operation["operationId"]
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method == "post"
    } - needs
    assert keyed == {
        *("emitItems", "recordEvent", "reportOutcomes"),  # by what they name
        *("claimItems",),  # by its lease
        *("convertSchedules", "previewDefinition", "previewOperation"),  # they change nothing
        *("pauseDefinition", "resumeDefinition", "pauseFlows", "resumeFlows"),  # by the scope
        *("revokeKey", "abortOperation", "explainFinding", "acceptFinding", "approveRepair"),
        "approveOperation",
        *("pauseOperation", "resumeOperation"),  # by its state
        *("proposeRepair", "drainProcess"),  # by its finding, its process
        *("takeReviews", "returnReviews", "takeFinding", "returnFinding"),  # by who has them
    }
