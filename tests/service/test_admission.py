"""What one client, and one caller, may take of the service at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.error_counts import ERRORS_READ_MAX
from dueledger.ledger.errors import ServiceBusy
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.api_keys import Scope
from dueledger.service import admission, client_connection
from dueledger.service.admission import SMALL_BODY_BYTES, BodyBudget, ConnectionShares
from dueledger.service.calls import BODY_VALUES_MAX
from tests.databases import MakeDatabase
from tests.logins import with_login
from tests.service.conftest import Answer, Api, open_api
from tests.service.test_requests import NO_ITEM, problem
from tests.service.test_tenants import ALL

CONNECTIONS = 2
REQUESTS = 4
BODY_BYTES = 4 * 1024 * 1024
AT_ONCE = 0.05
NAMED = {
    "tenant": "acme",
    "kind": "K",
    "name": "n",
    "operation": 1,
    "prefix": "0" * 16,
    "process": "p",
    "topic": "t",
}
WAITING = "select count(*) from pg_locks where not granted and relation = 'ledger.pause'::regclass"


@pytest.fixture(scope="module")
async def small(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    async with open_api(
        make_database,
        service_connections_max=CONNECTIONS,
        service_requests_max=REQUESTS,
        service_body_bytes_max=BODY_BYTES,
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


async def test_of_too_many_connections_the_one_that_has_waited_longest_is_closed(
    small: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "HEAD_SECONDS", 1_000.0)
    place = urlsplit(small.service.url)
    opened = [
        await asyncio.open_connection(place.hostname, place.port) for _ in range(3 * REQUESTS)
    ]
    for reader, _ in opened[:REQUESTS]:
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    assert (await small.ask("GET", "/health/live")).status == 200
    assert not opened[-1][0].at_eof()
    for _, writer in opened:
        writer.close()


async def test_a_connection_that_was_answered_may_be_quiet_for_longer_than_a_head_may_take(
    small: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "HEAD_SECONDS", AT_ONCE)
    place = urlsplit(small.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    for _ in range(2):
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await reader.readuntil(b"}")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 10 * AT_ONCE)
    writer.write(b"GET /health/live HT")
    assert await reader.read() == b""
    writer.close()


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
    key, other = [
        await small.make_key(name, Scope.WORK, Scope.READ) for name in ("many", "another")
    ]
    waiting = {"kinds": ["NoneDue"], "wait_seconds": 60}
    polls: list[asyncio.Task[Answer]] = []
    for each, count in ((key, REQUESTS - 1), (other, 1)):
        polls += [
            asyncio.create_task(small.ask("POST", "/v1/claims", key=each, body=waiting))
            for _ in range(count)
        ]
        await small.polling(len(polls))
        if each is key:  # it leaves a quarter of them to others
            refused = await small.ask("GET", NO_ITEM, key=key)
            assert "This caller" in problem(refused, 503, "SERVICE_BUSY").detail
            problem(await small.ask("GET", NO_ITEM, key=other), 404, "NOT_FOUND")
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


async def test_of_a_body_with_too_many_wrong_members_no_route_names_any(small: Api) -> None:
    """Half a million would take seconds, in which nobody else is answered, and 700 MB."""
    key = await small.make_key("strange", *Scope)
    body = {f"a{number}": 1 for number in range(ERRORS_READ_MAX + 1)}
    asked = [each for each in ALL if each.route.body_field is not None]
    assert len(asked) > 15
    for each in asked:
        if each.route.operation_id == "recordEvent":  # an event has attributes of any name
            continue
        path = each.route.path.format(**dict.fromkeys(("finding", "repair"), UUID(int=0)), **NAMED)
        answer = await small.ask(each.method, path, key=key, body=body)
        assert answer.status == 422, (str(each), answer.text)
        assert len(answer.document["errors"]) == 1, str(each)


async def test_large_bodies_wait_for_their_turn_and_one_caller_leaves_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = 2 * SMALL_BODY_BYTES
    budget = BodyBudget(4 * large)
    for beyond, fitting in ((1, 2), (3, None)):
        async with AsyncExitStack() as held:
            for actor_no in (1, 1, 1, *([2] if fitting is None else [])):
                await held.enter_async_context(budget.reserve(large, actor_no))
            await held.enter_async_context(budget.reserve(SMALL_BODY_BYTES, beyond))
            with monkeypatch.context() as brief:
                brief.setattr(admission, "WAIT_SECONDS", AT_ONCE)
                with pytest.raises(ServiceBusy):
                    await held.enter_async_context(budget.reserve(large, beyond))
            if fitting is not None:
                await held.enter_async_context(budget.reserve(large, fitting))
    # A request that waits has them as soon as they are free.
    async with AsyncExitStack() as later:
        async with budget.reserve(3 * large, 1):
            waiting = asyncio.create_task(later.enter_async_context(budget.reserve(2 * large, 2)))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting


async def test_a_client_that_leaves_while_it_sends_a_body_is_no_defect(small: Api) -> None:
    key = await small.make_key("hasty", Scope.EMIT)
    scope: dict[str, object] = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
        "method": "POST",
        "path": "/v1/items",
        "raw_path": b"/v1/items",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {key.text}".encode()), (b"content-length", b"9")],
        "client": ("127.0.0.1", 1),
        "request_id": "hasty",
        "is_trusted": True,
    }
    sent: list[object] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    with capture_logs() as logged:
        await small.service.app(scope, receive, send)
    assert (logged, len(sent)) == ([], 2)


@pytest.mark.parametrize("length", ["", "Content-Length: 1\r\n"])
async def test_a_body_in_chunks_reserves_the_largest_size_whatever_length_is_given(
    small: Api, monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    key = await small.make_key("chunks", Scope.EMIT)
    reserved: list[int] = []
    reserve = BodyBudget.reserve

    def noted(budget: BodyBudget, size: int, actor_no: int) -> AbstractAsyncContextManager[None]:
        reserved.append(size)
        return reserve(budget, size, actor_no)

    monkeypatch.setattr(BodyBudget, "reserve", noted)
    sent = (
        f"POST /v1/items HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key.text}\r\n{length}"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    assert (await _raw(small, sent.encode())).startswith(b"HTTP/1.1 422 ")
    assert reserved == [BODY_BYTES, 2]


async def test_bytes_are_free_again_however_often_a_request_is_cancelled() -> None:
    large = 2 * SMALL_BODY_BYTES
    budget = BodyBudget(4 * large)

    async def hold(actor_no: int) -> None:
        async with budget.reserve(large, actor_no):
            await asyncio.get_running_loop().create_future()

    for turns in range(4):
        tasks = [asyncio.create_task(hold(number % 3)) for number in range(8)]
        for _ in range(3):
            await asyncio.sleep(0)
        for each in tasks:
            each.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with budget.reserve(3 * large, 1), budget.reserve(large, 2):
            pass


async def test_slow_bodies_of_one_caller_do_not_hold_up_those_of_others(small: Api) -> None:
    slow, other = [await small.make_key(name, Scope.EMIT, Scope.READ) for name in ("slow", "swift")]
    place = urlsplit(small.service.url)
    lines = ("POST /v1/items HTTP/1.1", f"Host: {place.netloc}", f"Content-Length: {BODY_BYTES}")
    head = "\r\n".join((*lines, f"Authorization: Bearer {slow.text}", "", "{"))
    writers: list[asyncio.StreamWriter] = []
    for _ in range(2):
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(head.encode())
        writers.append(writer)
    used = "select last_used_at is not null from ledger.api_key where prefix = $1"
    while not await small.owner.fetchval(used, slow.prefix):
        pass
    text = json.dumps({"items": []}).ljust(2 * SMALL_BODY_BYTES)
    answer = await small.ask("POST", "/v1/items", key=other, text=text)
    assert answer.status != 503, answer.text
    for writer in writers:
        writer.close()


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


async def test_a_poll_of_a_caller_whose_connections_are_in_use_holds_up_no_other(
    make_database: MakeDatabase,
) -> None:
    async with open_api(make_database, service_connections_max=4) as api:
        busy, other = [
            await api.make_key(name, Scope.EMIT, Scope.READ, Scope.WORK)
            for name in ("busy", "other")
        ]
        kinds = ("Busy", "Other")
        later = [api.item(kind=kind, due_at="2096-01-01T09:00:00Z") for kind in kinds]
        await api.emit(other, *later)  # which makes their flows
        polls = [
            asyncio.create_task(
                api.ask("POST", "/v1/claims", key=key, body={"kinds": [kind], "wait_seconds": 60})
            )
            for key, kind in zip((busy, other), kinds, strict=True)
        ]
        await api.polling(2)
        await api.owner.execute("begin; lock table ledger.calendar in access exclusive mode")
        held = [asyncio.create_task(api.ask("GET", "/v1/calendars", key=busy)) for _ in range(3)]
        try:
            while await api.owner.fetchval(WAITING.replace("pause", "calendar")) < len(held):
                pass
            await api.emit(other, *(api.item(f"P-{kind}", kind=kind) for kind in kinds))
            for poll in polls:
                assert len((await poll).document["items"]) == 1
            assert not any(each.done() for each in held)
        finally:
            await api.owner.execute("rollback")
            await asyncio.gather(*held)


async def test_a_service_whose_connections_are_all_in_use_is_ready(small: Api) -> None:
    keys = [await small.make_key(f"held-{number}", Scope.READ) for number in range(CONNECTIONS)]
    await small.owner.execute("begin; lock table ledger.pause in access exclusive mode")
    held = [asyncio.create_task(small.ask("GET", "/v1/pauses", key=key)) for key in keys]
    try:
        while await small.owner.fetchval(WAITING) < CONNECTIONS:
            pass
        assert (await small.ask("GET", "/health/ready")).status == 200
    finally:
        await small.owner.execute("rollback")
        await asyncio.gather(*held)
