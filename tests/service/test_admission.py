"""What one client, and one caller, may take of the service at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from dueledger.ledger.errors import ServiceBusy
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.api_keys import Scope
from dueledger.service import admission, client_connection
from dueledger.service.admission import SMALL_BODY_BYTES, BodyBudget, ConnectionShares
from dueledger.service.calls import BODY_VALUES_MAX
from tests.databases import MakeDatabase
from tests.logins import with_login
from tests.service.conftest import Api, open_api
from tests.service.test_requests import NO_ITEM, problem

CONNECTIONS = REQUESTS = 2
AT_ONCE = 0.05


@pytest.fixture(scope="module")
async def small(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    async with open_api(
        make_database,
        service_connections_max=CONNECTIONS,
        service_requests_max=REQUESTS,
        service_body_bytes_max=4 * 1024 * 1024,
    ) as api:
        yield api


async def _raw(api: Api, sent: bytes) -> bytes:
    """Send bytes on a connection of their own; return all that comes until it is closed."""
    place = urlsplit(api.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(sent)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize("sent", [b"", b"GET /health/live HT", b"GET /x HTTP/1.1\r\nA: b\r\n"])
async def test_a_connection_that_sends_no_request_is_closed(
    small: Api, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(client_connection, "HEAD_SECONDS", AT_ONCE)
    assert await _raw(small, sent) == b""


async def test_a_request_may_take_longer_than_its_head(
    small: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "HEAD_SECONDS", AT_ONCE)
    key = await small.make_key("patient", Scope.WORK)
    answer = await small.ask(
        "POST", "/v1/claims", key=key, body={"kinds": ["NoneDue"], "wait_seconds": 10 * AT_ONCE}
    )
    assert answer.status == 200, answer.text


async def test_what_is_no_http_is_answered_with_a_problem(small: Api) -> None:
    head, _, body = (await _raw(small, b"\x16\x03\x01\r\n\r\n")).partition(b"\r\n\r\n")
    document = json.loads(body)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert document["code"] == "REQUEST_INVALID"
    assert f"x-request-id: {document['request_id']}".encode() in head.lower()


async def test_of_too_many_requests_only_probes_are_answered(small: Api) -> None:
    key = await small.make_key("many", Scope.WORK, Scope.READ)
    waiting = {"kinds": ["NoneDue"], "wait_seconds": 60}
    polls = [
        asyncio.create_task(small.ask("POST", "/v1/claims", key=key, body=waiting))
        for _ in range(REQUESTS)
    ]
    await small.polling(REQUESTS)
    refused = await small.ask("GET", NO_ITEM, key=key)
    problem(refused, 503, "SERVICE_BUSY")
    assert refused.headers["Retry-After"] == "1"
    assert (await small.ask("GET", "/health/live")).status == 200
    assert (await small.ask("GET", "/health/ready")).status == 200
    for poll in polls:
        poll.cancel()
    await small.polling(0)
    problem(await small.ask("GET", NO_ITEM, key=key), 404, "NOT_FOUND")


async def test_a_body_of_too_many_values_is_not_read(small: Api) -> None:
    key = await small.make_key("values", Scope.EMIT, Scope.READ)
    text = "[" + "[]," * (BODY_VALUES_MAX // 2) + "[]]"
    problem(await small.ask("POST", "/v1/items", key=key, text=text), 413, "BODY_TOO_LARGE")
    answer = await small.ask("GET", "/v1/items?business_key=P-1", key=key, text="{")
    assert answer.status == 200


async def test_large_bodies_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WAIT_SECONDS", AT_ONCE)
    budget = BodyBudget(10 * SMALL_BODY_BYTES)
    async with budget.reserve(10 * SMALL_BODY_BYTES), budget.reserve(10 * SMALL_BODY_BYTES):
        async with budget.reserve(SMALL_BODY_BYTES):
            pass
        with pytest.raises(ServiceBusy):
            async with budget.reserve(2 * SMALL_BODY_BYTES):
                pass
    async with budget.reserve(10 * SMALL_BODY_BYTES), budget.reserve(10 * SMALL_BODY_BYTES):
        pass


async def test_one_caller_leaves_a_quarter_of_the_connections_to_others(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = with_login(database, "service")
    async with (
        open_pool(dsn, application_name="test", size_max=4) as pool,
        AsyncExitStack() as lent,
    ):
        shares = ConnectionShares(pool, 4)
        for _ in range(3):
            await lent.enter_async_context(shares.lend(1))
        for beyond, fitting in ((1, 2), (3, None)):
            with monkeypatch.context() as brief:
                brief.setattr(admission, "WAIT_SECONDS", AT_ONCE)
                with pytest.raises(ServiceBusy):
                    await lent.enter_async_context(shares.lend(beyond))
            if fitting is not None:
                await lent.enter_async_context(shares.lend(fitting))
        await lent.aclose()
        for _ in range(3):
            await lent.enter_async_context(shares.lend(1))


async def test_a_service_whose_connections_are_all_in_use_is_ready(small: Api) -> None:
    keys = [await small.make_key(f"held-{number}", Scope.READ) for number in range(CONNECTIONS)]
    await small.owner.execute("begin; lock table ledger.pause in access exclusive mode")
    held = [asyncio.create_task(small.ask("GET", "/v1/pauses", key=key)) for key in keys]
    waiting = (
        "select count(*) from pg_locks where not granted and relation = 'ledger.pause'::regclass"
    )
    try:
        while await small.owner.fetchval(waiting) < CONNECTIONS:
            pass
        assert (await small.ask("GET", "/health/ready")).status == 200
    finally:
        await small.owner.execute("rollback")
        await asyncio.gather(*held)
