"""Definitions put in force by several processes at once: one version each, none refused."""

import asyncio

import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.definitions import DefineResult, define


async def _define(connection: Connection, document: dict[str, str], actor_no: int) -> DefineResult:
    return await define(
        connection,
        document,
        tenant="acme",
        name="renewals",
        kind="PolicyRenewalDue",
        event_type=None,
        effective_from=None,
        actor_no=actor_no,
    )


async def test_the_same_document_defined_by_many_at_once_is_one_version(
    database: str, connection: Connection, actor_no: int
) -> None:
    callers = [await connect(database, application_name="caller") for _ in range(6)]
    answers = await asyncio.gather(
        *(_define(caller, {"when": "monthly"}, actor_no) for caller in callers)
    )
    assert sorted(answer.changed for answer in answers) == [False] * 5 + [True]
    assert {answer.version for answer in answers} == {1}
    changed = await _define(connection, {"when": "weekly"}, actor_no)
    assert (changed.version, changed.changed) == (2, True)
    for caller in callers:
        await caller.close()


async def test_a_document_that_postgres_cannot_store_is_refused_in_our_words(
    connection: Connection, actor_no: int
) -> None:
    with pytest.raises(InvalidItem):
        await _define(connection, {"payload": "x\0y"}, actor_no)
