"""A definition says who settles its kind: handlers of workers, or consumers of its topic."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import Conflict, InvalidInput
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.flows import ensure_flow

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
KAFKA = {"topic": "due.Letters"}


def document(kind: str, name: str = "letters", **kafka: str) -> dict[str, Any]:
    return {
        "definition": name,
        "tenant": "acme",
        "kind": kind,
        "business_key": name,
        "when": {"cron": "0 4 * * *", "timezone": "UTC"},
        "dispatch": {"kafka": {**KAFKA, **kafka}},
    }


async def test_a_definition_says_whether_its_topic_settles_and_a_newer_one_may_say_otherwise(
    connection: Connection, actor_no: int, kind: str
) -> None:
    async def define(**kafka: str) -> tuple[Any, ...]:
        definition = parse_definition(document(kind, **kafka))
        await put_in_force(connection, [definition], actor_no=actor_no)
        return tuple(
            (await connection.fetch("select settled_by, lease_seconds from ledger.kind"))[0]
        )

    assert await define() == ("worker", 60)
    assert await define(settled_by="topic") == ("topic", 600)
    assert await define(settled_by="topic", lease="PT2M") == ("topic", 120)
    assert (await define(settled_by="worker"))[0] == "worker"


@pytest.mark.parametrize(
    ("part", "said", "column", "values"),
    [
        ("deadlines", {"run": "PT2H"}, "run_seconds", (None, 7200.0)),
        ("retry", {"deadline": "P1D"}, "total_seconds", (None, 86_400.0)),
        ("retry", {"start_max": 60}, "start_max", (30, 60)),
        ("retry", {"attempt_max": 50}, "start_max", (30, 50)),
        ("retry", {"streak_max": 7}, "streak_max", (3, 7)),
    ],
)
async def test_what_a_definition_no_longer_says_of_its_kind_holds_no_longer(
    connection: Connection,
    actor_no: int,
    kind: str,
    part: str,
    said: dict[str, Any],
    column: str,
    values: tuple[float | None, float],
) -> None:
    async def define(dispatch: dict[str, Any]) -> float | None:
        definition = parse_definition(document(kind) | {part: dispatch})
        await put_in_force(connection, [definition], actor_no=actor_no)
        return await connection.fetchval(f"select {column} from ledger.kind")  # noqa: S608 - a column of ours

    assert [await define(dispatch) for dispatch in ({}, said, {})] == [*values, values[0]]


async def test_two_who_settle_one_kind_are_refused(
    connection: Connection, actor_no: int, kind: str
) -> None:
    definitions = [
        parse_definition(document(kind)),
        parse_definition(document(kind, "notices", settled_by="topic")),
    ]
    with pytest.raises(InvalidInput, match="differs from the dispatch"):
        await put_in_force(connection, definitions, actor_no=actor_no)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("dispatch", {"kafka": {"topic": "due.Others"}}),
        ("dispatch", {"direct": {}}),
        ("retry", {"attempt_max": 9}),
        ("deadlines", {"queue": "PT5M"}),
        ("order", {"by": "partition_key"}),
        ("operations", {"approval_above": 5}),
        ("redacted_fields", ["/id", "/ssn"]),
    ],
)
async def test_a_kinds_policy_is_changed_by_all_its_definitions_at_once_or_not_at_all(
    connection: Connection, actor_no: int, kind: str, part: str, said: object
) -> None:
    async def define(*documents: dict[str, Any]) -> None:
        definitions = [parse_definition(document) for document in documents]
        await put_in_force(connection, definitions, actor_no=actor_no)

    fields = {"redacted_fields": ["/id"]}
    one, two = document(kind) | fields, document(kind, "notices") | fields
    await define(one)
    await define(two)
    before = await connection.fetchrow("select * from ledger.kind")

    with pytest.raises(InvalidInput, match=rf"differs from the {part} that letters has for {kind}"):
        await define(two | {part: said})
    with pytest.raises(InvalidInput, match=rf"differs from the {part} that letters has for {kind}"):
        await define(one, two | {part: said})
    assert await connection.fetchrow("select * from ledger.kind") == before

    await define(one | {part: said}, two | {part: said})
    assert await connection.fetchrow("select * from ledger.kind") != before
    await define(one | {part: said})


async def test_a_definition_that_moved_to_another_kind_says_nothing_for_its_old_one(
    connection: Connection, actor_no: int, kind: str
) -> None:
    for each in (document(kind), document(f"{kind}2"), document(kind, "notices", topic="due.New")):
        await put_in_force(connection, [parse_definition(each)], actor_no=actor_no)


async def test_of_two_who_contradict_each_other_at_once_one_is_refused(
    database: str, connection: Connection, actor_no: int, kind: str
) -> None:
    other = await connect(database, application_name="other")
    results = await asyncio.gather(
        put_in_force(connection, [parse_definition(document(kind))], actor_no=actor_no),
        put_in_force(
            other, [parse_definition(document(kind, "notices", topic="due.New"))], actor_no=actor_no
        ),
        return_exceptions=True,
    )
    await other.close()
    assert sorted(isinstance(result, InvalidInput) for result in results) == [False, True]
    assert await connection.fetchval("select count(*) from ledger.definition") == 1


async def test_an_order_for_two_kinds_locks_their_flows_as_others_do(
    database: str, connection: Connection, actor_no: int, eventually: Eventually
) -> None:
    """By their numbers, and not kind by kind: neither waits for the other."""
    numbers = [await ensure_flow(connection, "acme", kind, "") for kind in ("Second", "First")]
    other = await connect(database, application_name="other")
    lock = "select from ledger.flow where flow_no = $1 for update"
    ordered = [
        parse_definition(document(kind, kind) | {"order": {"by": "partition_key"}})
        for kind in ("First", "Second")
    ]
    async with other.transaction():
        await other.execute(lock, numbers[0])
        defining = asyncio.create_task(put_in_force(connection, ordered, actor_no=actor_no))
        pid = connection.get_server_pid()
        waits = "select cardinality(pg_blocking_pids($1)) > 0"
        await eventually(lambda: other.fetchval(waits, pid))
        await other.execute(lock, numbers[1])
    await defining
    assert await other.fetchval("select array_agg(ordering) from ledger.flow") == ["key"] * 2
    await other.close()


@pytest.mark.parametrize("held", ["kind", "materialised"])
async def test_a_lock_wait_that_is_too_long_is_reported_with_what_it_waits_for(
    database: str, connection: Connection, actor_no: int, kind: str, held: str
) -> None:
    definition = parse_definition(document(kind))
    await put_in_force(connection, [definition], actor_no=actor_no)
    other = await connect(database, application_name="other")
    async with other.transaction():
        await other.execute(f"select from ledger.{held} for update")
        named = f"the kind acme/{kind}" if held == "kind" else "the definition acme/letters"
        with pytest.raises(Conflict, match=f"Another process is busy with {named}"):
            await put_in_force(connection, [definition], actor_no=actor_no, lock_seconds=0.05)
    await other.close()
    await put_in_force(connection, [definition], actor_no=actor_no, lock_seconds=0.05)
