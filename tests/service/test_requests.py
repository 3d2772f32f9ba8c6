"""Every refusal is a problem document that says what to do, and changes nothing."""

import re
from typing import Any

import pytest

from dueledger.failures import KINDS
from dueledger.ledger import errors
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.service.problems import ProblemDocument
from tests.service.conftest import BODY_BYTES_MAX, Answer, Api

NO_ITEM = "/v1/items/00000000-0000-8000-8000-000000000000"


def problem(answer: Answer, status: int, code: str) -> ProblemDocument:
    """Return the problem of an answer, after what is true of all of them."""
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    document = ProblemDocument.model_validate(answer.document)
    assert (document.status, document.code) == (status, code)
    assert document.title == KINDS[code].title
    assert document.request_id == answer.headers["X-Request-Id"]
    assert "Traceback" not in answer.text
    return document


async def test_an_unknown_route_and_an_unknown_method_are_problems(
    api: Api, key: NewApiKey
) -> None:
    for path in ("/v1/nothing", "/v1/closes"):  # the second is reserved
        problem(await api.ask("GET", path, key=key), 404, "NOT_FOUND")
    answer = await api.ask("DELETE", "/v1/items", key=key)
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"] == "GET, POST"


@pytest.mark.parametrize("query", ["tenent=acme", "tenant=acme&tenant=umbra"])
async def test_an_unknown_or_repeated_parameter_is_a_problem_for_it_would_filter_nothing(
    api: Api, key: NewApiKey, query: str
) -> None:
    found = problem(await api.ask("GET", f"/v1/items?{query}", key=key), 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == [query.partition("=")[0]]


@pytest.mark.parametrize(
    ("method", "path", "member", "value"),
    [
        ("POST", "/v1/claims", "lease_seconds", True),
        ("POST", "/v1/claims", "items_max", "7"),
        ("PATCH", "/v1/flows/acme/PolicyRenewalDue", "weight", True),
    ],
)
async def test_a_truth_value_or_a_text_is_no_number(
    api: Api, method: str, path: str, member: str, value: object
) -> None:
    every = await api.make_key(f"number-{member}", Scope.WORK, Scope.OPERATE)
    body = {member: value} | ({"kinds": ["Kind1"]} if method == "POST" else {})
    found = problem(await api.ask(method, path, key=every, body=body), 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == [f"/{member}"]


async def test_an_unknown_item_is_a_problem(api: Api, key: NewApiKey) -> None:
    problem(await api.ask("GET", NO_ITEM, key=key), 404, "NOT_FOUND")


async def test_an_id_that_is_none_is_named(api: Api, key: NewApiKey) -> None:
    found = problem(await api.ask("GET", "/v1/items/P-1%00", key=key), 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == ["item"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"priority": 1}, "/items/0/priority"),
        ({"tenant": 7}, "/items/0/tenant"),
        ({"tenant": "a/b"}, "/items/0/tenant"),
        ({"business_key": "P-1\u0000"}, "/items/0/business_key"),
        ({"business_key": "P-1\u001f2"}, "/items/0/business_key"),
        ({"business_key": ""}, "/items/0/business_key"),
        ({"due_at": "2027-03-01T09:00:00"}, "/items/0/due_at"),
        ({"due_at": 1_800_000_000}, "/items/0/due_at"),
        ({"due_at": "1800000000"}, "/items/0/due_at"),
        ({"effective_date": "tomorrow"}, "/items/0/effective_date"),
        ({"labels": ["eu"]}, "/items/0/labels"),
        ({"a/b~c": 1}, "/items/0/a~1b~0c"),
    ],
)
async def test_a_wrong_member_is_pointed_at_and_nothing_is_emitted(
    api: Api, key: NewApiKey, change: dict[str, Any], pointer: str
) -> None:
    items = [api.item("P-bad") | change, api.item("P-good")]
    answer = await api.ask("POST", "/v1/items", key=key, body={"items": items})
    found = problem(answer, 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == [pointer]
    kept = "select count(*) from ledger.due_item where business_key = 'P-good'"
    assert await api.owner.fetchval(kept) == 0


async def test_what_only_postgres_refuses_is_a_problem_too(api: Api, key: NewApiKey) -> None:
    item = api.item("P-late", due_at="2300-01-01T00:00:00Z")
    answer = await api.ask("POST", "/v1/items", key=key, body={"items": [item]})
    assert "1970–2199" in problem(answer, 422, "INVALID_ITEM").detail


@pytest.mark.parametrize(
    "text",
    ["{", "", "nonsense", '{"items": [NaN]}', "[" * 2_000 + "]" * 2_000, b'{"items": "\xff"}'],
    ids=["cut", "empty", "no JSON", "NaN", "deep", "no UTF-8"],
)
async def test_a_body_that_is_no_json_is_a_problem(
    api: Api, key: NewApiKey, text: str | bytes
) -> None:
    answer = await api.ask("POST", "/v1/items", key=key, text=text)
    problem(answer, *((422, "INVALID_INPUT") if text == "" else (400, "BODY_INVALID")))


async def test_a_body_that_is_too_large_is_a_problem(api: Api, key: NewApiKey) -> None:
    text = '{"items": [], "padding": "' + "x" * BODY_BYTES_MAX + '"}'
    problem(await api.ask("POST", "/v1/items", key=key, text=text), 413, "BODY_TOO_LARGE")


async def test_a_request_has_the_id_that_was_given_unless_it_could_forge_a_line(api: Api) -> None:
    answers = [
        await api.ask("GET", "/v1/nothing", headers={"X-Request-Id": given})
        for given in ("a.b-1", "a b", "x" * 65)
    ]
    assert answers[0].headers["X-Request-Id"] == "a.b-1"
    for other in answers[1:]:
        assert re.fullmatch("[0-9a-f]{16}", other.headers["X-Request-Id"])


async def test_live_ready_and_the_codes_need_no_key(api: Api) -> None:
    assert (await api.ask("GET", "/health/live")).document == {"status": "live"}
    assert (await api.ask("GET", "/health/ready")).document == {"status": "ready"}
    listed = (await api.ask("GET", "/problems")).document
    assert {each["code"] for each in listed} == KINDS.keys()


def test_each_error_of_the_product_has_its_row_in_the_catalogue() -> None:
    codes: set[str] = set()
    waiting: list[type[errors.DueledgerError]] = [errors.DueledgerError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if error.__module__.startswith("dueledger."):  # the benchmarks have their own
            codes.add(error.code)
    assert len(codes) > 20
    assert codes <= KINDS.keys()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/items?due_from=0001-01-01T00:00:00%2B14:00",
        "/v1/items?due_before=2200-01-01T00:00:00Z",
        "/v1/definitions/acme/statements/occurrences?from=9995-01-01T00:00:00Z",
    ],
)
async def test_a_time_beyond_those_of_items_is_a_problem(
    api: Api, key: NewApiKey, path: str
) -> None:
    problem(await api.ask("GET", path, key=key), 422, "INVALID_INPUT")
