"""A schedule's business key names its occurrences, so no two of one kind have the same."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.parsing import Definition, load_definitions, parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.clock import read_now

DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}


def schedule(kind: str, name: str, key: str, **changed: object) -> Definition:
    document: dict[str, Any] = {
        "definition": name,
        "tenant": "acme",
        "kind": kind,
        "business_key": key,
        "when": DAILY,
    }
    return parse_definition(document | changed)


async def refusal(
    connection: Connection,
    actor_no: int,
    definitions: list[Definition],
    effective_from: datetime | None = None,
) -> str:
    with pytest.raises(InvalidInput) as refused:
        await put_in_force(
            connection, definitions, actor_no=actor_no, effective_from=effective_from
        )
    return str(refused.value)


async def test_g2_a_second_schedule_with_the_key_of_one_in_force_is_refused_and_names_it(
    connection: Connection, actor_no: int, kind: str
) -> None:
    await put_in_force(connection, [schedule(kind, "european", "k")], actor_no=actor_no)
    said = await refusal(connection, actor_no, [schedule(kind, "japanese", "k")])
    assert "(japanese).business_key: the schedule european of this kind has this key" in said
    assert "Write: another key." in said
    assert await connection.fetchval("select count(*) from ledger.definition") == 1
    others = [
        schedule(kind, "japanese", "k2"),
        schedule(kind, "elsewhere", "k", tenant="umbra"),
        schedule(f"{kind}Other", "another", "k"),
    ]
    defined = await put_in_force(connection, others, actor_no=actor_no)
    assert [each.changed for each in defined] == [True, True, True]


async def test_g2_two_schedules_of_one_file_and_one_that_is_to_come_are_refused_alike(
    connection: Connection, actor_no: int, kind: str
) -> None:
    both = [schedule(kind, "one", "k"), schedule(kind, "other", "k")]
    said = await refusal(connection, actor_no, both)
    assert "(other).business_key: the schedule one of this kind has this key" in said
    assert "(one)" not in said
    assert await connection.fetchval("select count(*) from ledger.definition") == 0

    later = await read_now(connection) + timedelta(days=7)
    await put_in_force(connection, [both[0]], actor_no=actor_no, effective_from=later)
    assert "(other).business_key" in await refusal(connection, actor_no, [both[1]])


async def test_g2_of_two_who_define_one_key_at_once_one_is_refused(
    database: str, connection: Connection, actor_no: int, kind: str
) -> None:
    callers = [await connect(database, application_name="caller") for _ in range(4)]
    answers = await asyncio.gather(
        *(
            put_in_force(caller, [schedule(kind, f"d-{place}", "k")], actor_no=actor_no)
            for place, caller in enumerate(callers)
        ),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, InvalidInput)]
    assert len(refused) == len(callers) - 1
    assert all("of this kind has this key" in str(each) for each in refused)
    assert await connection.fetchval("select count(*) from ledger.definition") == 1
    for caller in callers:
        await caller.close()


async def test_a_key_is_free_from_when_its_schedule_has_another_and_may_be_exchanged(
    connection: Connection, actor_no: int, kind: str
) -> None:
    await put_in_force(
        connection, [schedule(kind, "a", "1"), schedule(kind, "b", "2")], actor_no=actor_no
    )
    now = await read_now(connection)
    later = now + timedelta(days=7)
    exchanged = [schedule(kind, "a", "2"), schedule(kind, "b", "1")]
    await put_in_force(connection, exchanged, actor_no=actor_no, effective_from=later)
    said = await refusal(connection, actor_no, [schedule(kind, "c", "1")], now)
    assert f"the schedule a of this kind has this key until {later.isoformat()}" in said

    moved = [schedule(kind, "b", "3")]
    await put_in_force(connection, moved, actor_no=actor_no, effective_from=later)
    taking = [schedule(kind, "c", "1")]
    (taken,) = await put_in_force(connection, taking, actor_no=actor_no, effective_from=later)
    assert taken.changed
    (again,) = await put_in_force(connection, taking, actor_no=actor_no, effective_from=later)
    assert not again.changed, "b's version with this key will never be in force"


async def test_event_rules_may_name_the_same_item_by_the_same_key(
    connection: Connection, actor_no: int, kind: str
) -> None:
    """Two events may owe the same item: there is one item, in either order."""
    document = """
definition: {name}
tenant: acme
kind: {kind}
event: {event}
business_key: data.policy
cycle: data.term
effective_date: data.expires_on
when: {{relative: P-30D, at: "09:00", timezone: UTC}}
"""
    rules = [
        load_definitions(document.format(name=event, kind=kind, event=event), source=event)[0]
        for event in ("PolicyActivated", "PolicyReinstated")
    ]
    fixed = schedule(kind, "fixed", "data.policy")
    defined = await put_in_force(connection, [*rules, fixed], actor_no=actor_no)
    assert [each.changed for each in defined] == [True, True, True]
