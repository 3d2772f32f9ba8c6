"""What a definition may say about an endpoint, and the errors for what it may not."""

import json
from typing import Any

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.http_dispatch import HttpDispatch
from dueledger.ledger.definitions.parsing import Definition, load_definitions, parse_definition
from dueledger.ledger.errors import InvalidDefinition, InvalidInput, Problem
from dueledger.ledger.store import Connection

URL = "https://hooks.example.com/due"
SIGNED: dict[str, Any] = {"secret": "signing"}


def definition(name: str = "renewals", /, **http: object) -> dict[str, Any]:
    return {
        "definition": name,
        "tenant": "acme",
        "kind": "RenewalDue",
        "business_key": "book-1",
        "when": {"cron": "@daily", "timezone": "UTC"},
        "dispatch": {"http": {"url": URL, **http}},
    }


def problem(**http: object) -> Problem:
    with pytest.raises(InvalidDefinition) as refused:
        load_definitions(json.dumps(definition(**http)), source="test.json")
    (found,) = refused.value.problems
    return found


def test_a_normalised_endpoint_says_every_default_and_reads_back_as_equal() -> None:
    read = parse_definition(definition(**SIGNED, body={"key": "item.business_key"}))
    assert read.normalised()["dispatch"] == {
        "http": {
            "url": URL,
            "method": "POST",
            "headers": {},
            "secret_headers": {},
            "secret": "signing",
            "body": {"key": "item.business_key"},
            "timeout": "PT15S",
            "concurrency": 32,
            "partition_key": "business_key",
        }
    }
    assert parse_definition(read.normalised()) == read
    assert read.dispatch.method == "http"


def test_the_address_is_kept_in_its_one_spelling() -> None:
    read = parse_definition(definition(url="HTTPS://Hooks.Example.COM:443?a=%20b"))
    assert read.dispatch.http is not None
    assert read.dispatch.http.url == "https://hooks.example.com/?a=%20b"


REFUSED: list[tuple[dict[str, object], str, str, str]] = [
    ({"url": "hooks.example.com"}, "url", "not an absolute address", "https://"),
    ({"url": "ftp://hooks.example.com/"}, "url", "neither https nor http", "https://"),
    ({"url": "https://hooks.example.com:0/"}, "url", "port", "https://"),
    ({"url": "https://hooks.example.com/a b"}, "url", "must escape", "%XX"),
    ({"url": "https://höoks.example.com/"}, "url", "ASCII", "xn--"),
    ({"url": "https://2130706433/"}, "url", "is a number", "192.0.2.1"),
    ({"method": "HEAD"}, "method", "not one of the accepted words", "POST"),
    ({"method": "GET", "body": "payload"}, "body", "a GET request has no body", "POST"),
    ({"body": {}}, "body", "not 1 to 100 fields", "path to a map"),
    ({"body": "payload.["}, "body", "not a JMESPath", "item.business_key"),
    ({"body": {"key": "item.["}}, "body.key", "not a JMESPath", "item.business_key"),
    ({"body": 7}, "body", "no JMESPath", "item.business_key"),
    ({"timeout": "PT10M"}, "timeout", "less than or equal", ""),
    ({"timeout": "soon"}, "timeout", "period", "PT24H"),
    ({"concurrency": 0}, "concurrency", "greater than or equal to 1", ""),
    ({"headers": {"Host": "x"}}, "headers.Host", "set by the HTTP client", "no such header"),
    ({"headers": {"Webhook-Id": "x"}}, "headers.Webhook-Id", "describes the item", ""),
    ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers.X-A", "cannot contain", "printable"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.X-A", "given twice", "once"),
    ({"headerz": {}}, "headerz", "no such field", "headers"),
    ({"partition_key": "data.x"}, "partition_key", "no event", "business_key"),
]


@pytest.mark.parametrize(("http", "field", "reason", "accepted"), REFUSED)
def test_a_bad_endpoint_is_refused_by_path_with_the_reason_and_the_accepted_spelling(
    http: dict[str, object], field: str, reason: str, accepted: str
) -> None:
    found = problem(**http)
    assert found.field == f"dispatch.http.{field}"
    assert reason in found.reason
    assert accepted in (found.accepted or "")


@pytest.mark.parametrize(
    ("http", "field"),
    [
        ({"url": "https://user:hunter22@hooks.example.com/"}, "url"),
        ({"url": "https://hooks.example.com/ x?token=hunter22"}, "url"),
        ({"headers": {"Authorization": "Bearer hunter22"}}, "headers.Authorization"),
        ({"headers": {"X-Api-Key": "hunter22"}}, "headers.X-Api-Key"),
        ({"headers": {"X-Source": "hunter22\n"}}, "headers.X-Source"),
        ({"secret_headers": {"Authorization": "Bearer hunter22"}}, "secret_headers.Authorization"),
        ({"secret": "whsec_hunter22"}, "secret"),
        ({"secret": "hunter22+/="}, "secret"),
        ({"password": "hunter22"}, "password"),
    ],
)
def test_a_secret_written_into_a_definition_is_refused_and_not_quoted(
    http: dict[str, object], field: str
) -> None:
    found = problem(**http)
    assert found.field == f"dispatch.http.{field}"
    assert "hunter22" not in str(found)


@pytest.mark.parametrize("way", [{}, {"kafka": {"topic": "due.X"}, "http": {"url": URL}}])
def test_work_is_handed_out_in_one_way(way: dict[str, object]) -> None:
    document = definition() | {"dispatch": way}
    with pytest.raises(
        InvalidDefinition, match=r"dispatch: has (no method|kafka and http at once)"
    ):
        load_definitions(json.dumps(document), source="test.json")


async def test_a_definition_in_force_sets_how_its_kind_is_handed_out(
    connection: Connection, actor_no: int
) -> None:
    before = parse_definition(definition(**SIGNED))
    await put_in_force(connection, [before], actor_no=actor_no)
    row = await connection.fetchrow("select dispatch, topic, http from ledger.kind")
    assert row is not None
    assert (row["dispatch"], row["topic"]) == ("http", "due-http.acme.RenewalDue")
    assert before.dispatch.http == HttpDispatch.model_validate(row["http"])
    after = parse_definition(definition() | {"dispatch": {"kafka": {"topic": "due.RenewalDue"}}})
    await put_in_force(connection, [after], actor_no=actor_no)
    row = await connection.fetchrow("select dispatch, topic, http from ledger.kind")
    assert row is not None
    assert tuple(row) == ("kafka", "due.RenewalDue", None)


@pytest.mark.parametrize(
    "other",
    [{"http": {"url": "https://other.example.com/"}}, {"kafka": {"topic": "due.RenewalDue"}}],
)
async def test_two_endpoints_for_one_kind_are_refused(
    connection: Connection, actor_no: int, other: dict[str, object]
) -> None:
    documents = [definition(), definition("second"), definition("third") | {"dispatch": other}]
    definitions: list[Definition] = [parse_definition(document) for document in documents]
    with pytest.raises(InvalidInput, match=r"third.*differs from the dispatch that renewals has"):
        await put_in_force(connection, definitions, actor_no=actor_no)
    assert await connection.fetchval("select count(*) from ledger.kind") == 0
