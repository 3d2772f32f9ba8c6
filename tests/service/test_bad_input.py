"""Bad input to every route: a problem that helps, nothing done or revealed, no secret logged."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import pytest
from structlog.testing import capture_logs

from dueledger.failures import KINDS
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.service.problems import ProblemDocument
from dueledger.service.query_parameters import query_parameters
from tests.databases import MakeDatabase
from tests.service.conftest import BODY_BYTES_MAX, SCHEDULE, Answer, Api, open_api
from tests.service.test_tenants import ALL, TABLES, WALK, Place, Walked, named_in, place_of

SECRET = "hunter2-hunter2"  # noqa: S105 - what must not be shown
CONTROL = "a\x00\x1b[31m"
DEEP = "[" * 2_000 + "]" * 2_000
BODY_SECONDS = 0.5
HELPLESS = re.compile(r"Traceback|asyncpg|pydantic|File \"|/site-packages/|ledger\.\w+\(")
"""What an answer names only if an error of the code was not foreseen."""

FREE: dict[str, str] = {
    "emitItems": "/items/0/payload",
    "recordEvent": "/data",
    "reportOutcomes": "/outcomes/0/evidence",
}
"""What is JSON of the user's own: each value is right there."""
OPEN_BODIES = {
    "recordEvent": "attributes of CloudEvents are anybody's",
}
"""Routes whose body may have members of any name."""


class Bad(NamedTuple):
    """A request that is wrong in one way, and the codes of which one says so."""

    what: str
    codes: frozenset[str]
    query: str = ""
    body: object = None
    text: str | None = None
    headers: dict[str, str] | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A service, a key of the tenant acme with every scope, and what exists of this tenant."""

    api: Api
    key: NewApiKey
    place: Place
    cursor: str
    """Of the list of keys."""


@pytest.fixture(scope="module")
async def target(make_database: MakeDatabase) -> AsyncGenerator[Target]:
    given = {"service_rate_burst": 100_000, "service_body_seconds": BODY_SECONDS}
    async with open_api(make_database, **given) as api:
        key = await api.make_key("hostile", *Scope)
        await api.define("acme", "statements", SCHEDULE)
        await api.put_calendar("acme", "statements")
        spare = [await api.make_key("spare", Scope.READ) for _ in range(2)]
        items = await api.emit(key, api.item("P-target"), api.item("P-parked"))
        await api.park(items[1])
        place = await place_of(api, "acme", items, *(each.prefix for each in spare))
        keys = await api.ask("GET", "/v1/keys?limit=1", key=key)
        yield Target(api, key, place, keys.document["next_cursor"])


def path_of(each: Walked, place: Place) -> str:
    return each.route.path.format(**named_in(each.route.operation_id or "", place))


def codes(*names: str) -> frozenset[str]:
    assert KINDS.keys() >= set(names)
    return frozenset(names)


INVALID = codes("INVALID_INPUT")
REFUSED = codes(
    *("INVALID_INPUT", "INVALID_DEFINITION", "INVALID_EVENT", "INVALID_ITEM", "INVALID_OUTCOME"),
    *("NOT_PERMITTED", "UNKNOWN_ZONE", "UNKNOWN_CALENDAR"),
)
FORGED = codes("CURSOR_INVALID", "INVALID_INPUT")
NAMED = codes("NOT_FOUND", "INVALID_INPUT")
"""Of a path."""


def leaves(body: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a body that have none within, each with its JSON Pointer."""
    match body:
        case dict():
            parts = list(cast("dict[str, object]", body).items())
        case list():
            parts = list(enumerate(cast("list[object]", body)))
        case _:
            yield path, body
            return
    for name, value in parts:
        yield from leaves(value, f"{path}/{name}")


def replaced(body: object, pointer: str, value: object) -> object:
    """Return a copy of a body with another value at a place."""
    *way, last = [int(step) if step.isdigit() else step for step in pointer.split("/")[1:]]
    changed: Any = deepcopy(body)
    inner = changed
    for step in way:
        inner = inner[step]
    inner[last] = value
    return changed


def bad_requests(each: Walked, target: Target) -> Iterator[Bad]:
    """Yield requests of a route, each wrong in one way."""
    operation = each.route.operation_id or ""
    after, body = WALK[operation](target.api, target.place)
    yield from bad_queries(each, after, target.cursor)
    for name in re.findall(r"\{(\w+)\}", each.route.path):
        named = named_in(operation, target.place) | {name: quote(CONTROL)}
        yield Bad(f"{name} of control characters", NAMED, path=each.route.path.format(**named))
    if each.method == "GET":
        return
    for text, what, code in (
        ('{"reason": "' + "x" * BODY_BYTES_MAX + '"}', "too large", "BODY_TOO_LARGE"),
        ('{"reason": ', "cut off", "BODY_INVALID"),
        (DEEP, "too deep", "BODY_INVALID"),
        ('{"reason": NaN}', "no number", "BODY_INVALID"),
    ):
        yield Bad(what, codes(code), text=text)
    if body is None:
        yield Bad("an unknown member", INVALID, body={"unknown": SECRET})
        return
    for wrong in ([], 7, "x", [body]):
        yield Bad(f"a body that is {wrong!r:.9}", REFUSED, body=wrong)
    if operation not in OPEN_BODIES:
        yield Bad("an unknown member", REFUSED, body=replaced(body, "/unknown", SECRET))
    for pointer, value in leaves(body):
        if pointer.startswith(FREE.get(operation, "-")):
            continue
        yield Bad(f"a wrong type at {pointer}", REFUSED, body=replaced(body, pointer, {"a": [1]}))
        if isinstance(value, str):
            wrong = replaced(body, pointer, CONTROL + SECRET)
            yield Bad(f"control characters at {pointer}", REFUSED, body=wrong)


def bad_queries(each: Walked, after: str, cursor_of_keys: str) -> Iterator[Bad]:
    known = set(query_parameters(each.route.dependant))
    begin = f"{after}&" if after else "?"
    yield Bad("an unknown parameter", INVALID, query=f"{begin}unknown={SECRET}")
    given = set(re.findall(r"[?&](\w+)=", after))
    for name in sorted(known - given - {"cursor"}):
        yield Bad(f"{name} of control characters", INVALID, query=f"{begin}{name}=%00%1b{SECRET}")
    if "cursor" in known:
        of_other_list = [] if each.route.operation_id == "listKeys" else [cursor_of_keys]
        for cursor in ("x", "A" * 40, "%ff", quote("é"), *of_other_list):
            yield Bad(f"a cursor of {cursor}", FORGED, query=f"{begin}cursor={cursor}")
        for limit in ("0", "-1", "1001", "1e9", "9" * 30):
            yield Bad(f"a limit of {limit}", INVALID, query=f"{begin}limit={limit}")


async def send(each: Walked, target: Target, bad: Bad) -> Answer:
    path = bad.path or path_of(each, target.place)
    after, body = WALK[each.route.operation_id or ""](target.api, target.place)
    query = bad.query or after
    given = {"If-Match": "*"} if each.method == "PUT" else {}
    if bad.text is None and bad.body is not None:
        body = bad.body
    return await target.api.ask(
        each.method,
        path + query,
        key=target.key,
        body=body if bad.text is None else None,
        text=bad.text,
        headers=given | (bad.headers or {}),
    )


def fault_of(answer: Answer, bad: Bad, secret: str) -> str | None:
    """Return what is wrong with the answer to a bad request; None: nothing."""
    if answer.headers["Content-Type"] != "application/problem+json":
        return f"is answered {answer.status}"
    found = ProblemDocument.model_validate(answer.document)
    if found.code not in bad.codes or found.status != KINDS[found.code].status:
        return f"is {found.status} {found.code}"
    if not found.detail or (found.code == "INVALID_INPUT" and not found.errors):
        return "has no help"
    if HELPLESS.search(answer.text) or secret in answer.text:
        return f"tells {answer.text}"
    return None


@pytest.mark.parametrize("each", ALL, ids=str)
async def test_a_bad_request_is_a_problem_that_helps_and_changes_nothing(
    target: Target, each: Walked
) -> None:
    counted = await target.api.owner.fetchval(TABLES)
    before = await target.api.owner.fetch(counted)
    secret = target.key.text.rpartition("_")[2]
    requests = list(bad_requests(each, target))
    with capture_logs() as logged:
        answers = await asyncio.gather(*(send(each, target, bad) for bad in requests))
    faults = {
        bad.what: fault
        for bad, answer in zip(requests, answers, strict=True)
        if (fault := fault_of(answer, bad, secret))
    }
    assert faults == {}
    assert await target.api.owner.fetch(counted) == before
    text = json.dumps(logged, default=str)
    assert secret not in text
    assert SECRET not in text


async def changed(target: Target) -> list[Any]:
    """Return what is another one after any change of the ledger."""
    return await target.api.owner.fetch(await target.api.owner.fetchval(TABLES))


def takes_header(each: Walked, name: str) -> bool:
    return any(each.alias == name for each in each.route.dependant.header_params)


async def test_a_stale_etag_is_refused_by_each_route_that_takes_one(target: Target) -> None:
    taking = [each for each in ALL if takes_header(each, "if-match")]
    assert {each.route.operation_id for each in taking} == {
        *("putDefinition", "putCalendar", "setFlowLimits"),
    }
    before = await changed(target)
    for each in taking:
        _, body = WALK[each.route.operation_id or ""](target.api, target.place)
        if each.route.operation_id == "setFlowLimits":
            body = {"weight": 7}
        for etag in ('"0"', "0", 'W/"1"', "é", "x" * 900):
            stale = Bad("", codes("PRECONDITION_FAILED"), body=body, headers={"If-Match": etag})
            answer = await send(each, target, stale)
            assert fault_of(answer, stale, SECRET) is None, (str(each), etag, answer.text)
    assert await changed(target) == before


async def test_a_key_that_is_used_again_with_another_body_is_refused_by_each_route(
    target: Target,
) -> None:
    for each in ALL:
        if not each.route.takes_idempotency_key:
            continue
        _, body = WALK[each.route.operation_id or ""](target.api, target.place)
        used = {"Idempotency-Key": f"used by {each}"}
        first = await send(each, target, Bad("", frozenset(), body=body, headers=used))
        assert first.status < 300, first.text
        before = await changed(target)
        again = Bad(
            "", codes("IDEMPOTENCY_KEY_REUSED"), body=replaced(body, "/other", 1), headers=used
        )
        assert fault_of(await send(each, target, again), again, SECRET) is None, str(each)
        assert await changed(target) == before


async def test_a_revoked_or_wrong_key_reaches_no_route(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueledger.service.attempts.FAILURES_MAX", 10_000)
    revoked = await target.api.make_key("revoked", *Scope)
    await target.api.revoke(revoked)
    before = await changed(target)
    for key in (revoked.text, f"{revoked.text}x", "hunter2", CONTROL.encode().hex()):
        for each in ALL:
            after, body = WALK[each.route.operation_id or ""](target.api, target.place)
            path = path_of(each, target.place) + after
            answer = await target.api.ask(each.method, path, key=key, body=body)
            assert fault_of(answer, Bad("", codes("KEY_MISSING")), key) is None, answer.text
    assert await changed(target) == before


async def test_a_body_that_does_not_arrive_is_refused_by_each_route_and_nothing_is_done(
    target: Target,
) -> None:
    place = urlsplit(target.api.service.url)
    before = await changed(target)

    async def trickle(each: Walked) -> bytes:
        """Send all but the end of a request, and return the status line of the answer."""
        _, body = WALK[each.route.operation_id or ""](target.api, target.place)
        text = json.dumps(body)
        head = (
            f"{each.method} {path_of(each, target.place)} HTTP/1.1\r\nHost: x\r\nConnection: close"
            f"\r\nAuthorization: Bearer {target.key.text}\r\nIdempotency-Key: slow {each}\r\n"
            f"If-Match: *\r\nContent-Type: application/json\r\nContent-Length: {len(text) + 1}"
        )
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"{head}\r\n\r\n{text}".encode())
        received = await reader.read()
        writer.close()
        return received

    slow = [each for each in ALL if each.method != "GET"]
    answers = await asyncio.gather(*(trickle(each) for each in slow))
    for each, received in zip(slow, answers, strict=True):
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 "), (str(each), received)
        assert json.loads(body)["code"] == "REQUEST_TIMEOUT"
    assert await changed(target) == before
