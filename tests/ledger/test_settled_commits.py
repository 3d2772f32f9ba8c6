"""The completion of an item in the message that commits its handler's transaction."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import orjson
import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.store import Connection, Pool, open_pool
from dueledger.ledger.store.runs import RunId
from dueledger.ledger.store.settled_commits import CompletionRefused, Completions, commit_completed
from tests.claim_ids import run_ids

from .conftest import Ledger

TABLES: Final = """
    create table public.note (text text);
    create schema other;
    create function other.decode(text, text) returns bytea language sql return ''::bytea;
    create function other.convert_from(bytea, text) returns text language sql return '{}';
"""
SESSIONS: Final = {
    "plain": "select 1",
    "backslashes-escape": "set standard_conforming_strings = off",
    "functions-of-its-own": "set search_path = other, pg_catalog",
    "another-zone": "set timezone = 'Asia/Kolkata'; set datestyle = 'German'",
}
OPEN: Final = "an item that has not ended"
EVIDENCE: Final = r"""{"text": "O'Brien \\ $$ 😀 \" ); commit; --"}"""
RECORDED: Final = """
    select e.name, t.detail, r.closed_at is not null as is_closed
    from ledger.transition t join ledger.transition_event e using (event)
    join ledger.run r using (run_no)
    where t.run_no = $1
"""
CLOSED: Final = "update ledger.run set closed_at = now()"
ENDED: Final = "update ledger.run set ended = '1'"
UNDO: Final = "update ledger.run set closed_at = null, ended = '0', worker_no = $1"
ANOTHERS: Final = "update ledger.run set worker_no = 4711"


@pytest.fixture
async def handler_pool(database: str) -> AsyncGenerator[Pool]:
    async with open_pool(
        database, application_name="test", size_max=1, lent_to_handlers=True
    ) as pool:
        yield pool


async def _started(ledger: Ledger, size: int = 1) -> RunId:
    await ledger.emit(size)
    start = await ledger.start((await ledger.claim()).fence, 1, size)
    (run,) = await run_ids(ledger.connection, [start.run_no or 0])
    return run


@asynccontextmanager
async def _transaction(
    pool: Pool, ledger: Ledger, run: RunId, *details: str | None
) -> AsyncGenerator[Connection]:
    """Write a note; after the block, commit it with the completion of the run's items."""
    ended = {at: detail for at, detail in enumerate(details) if detail != OPEN}
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("insert into public.note values ('written')")
        yield connection
        await commit_completed(
            connection,
            transaction,
            Completions(run, len(details), ended),
            ledger.worker_no,
        )


async def _count_notes(ledger: Ledger) -> int:
    return int(await ledger.connection.fetchval("select count(*) from public.note"))


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS.keys())
async def test_g6_whatever_a_handler_sets_its_commit_completes_the_item(
    ledger: Ledger, handler_pool: Pool, session: str
) -> None:
    await ledger.connection.execute(TABLES)
    for detail in EVIDENCE, None:
        run = await _started(ledger)
        sent: list[str] = []
        async with _transaction(handler_pool, ledger, run, detail) as connection:
            await connection.execute(session)
            connection.add_query_logger(lambda each, sent=sent: sent.append(each.query))
        recorded = await ledger.connection.fetchrow(RECORDED, run.run_no)
        evidence = None if detail is None else orjson.loads(detail)
        assert recorded is not None
        assert tuple(recorded) == ("completed", evidence, True)
    assert len(sent) == 1  # a message of its own for the COMMIT would be a round trip an item
    assert await _count_notes(ledger) == 2


async def test_g4_g6_items_of_a_run_complete_once_in_one_commit_or_another(
    ledger: Ledger, handler_pool: Pool
) -> None:
    await ledger.connection.execute(TABLES)
    run = await _started(ledger, 3)
    async with _transaction(handler_pool, ledger, run, EVIDENCE, OPEN, None) as connection:
        await connection.execute("; ".join(SESSIONS.values()))
    with pytest.raises(CompletionRefused):
        async with _transaction(handler_pool, ledger, run, OPEN, None, None):
            pass  # the last one has its outcome
    rows = await ledger.connection.fetch(RECORDED + " order by t.detail", run.run_no)
    assert [tuple(row) for row in rows] == [
        ("completed", orjson.loads(EVIDENCE), False),
        ("completed", None, False),
    ]
    async with _transaction(handler_pool, ledger, run, OPEN, EVIDENCE, OPEN):
        pass
    rows = await ledger.connection.fetch(RECORDED, run.run_no)
    assert [row["is_closed"] for row in rows] == [True] * 3
    assert await _count_notes(ledger) == 2


@pytest.mark.parametrize("change", [CLOSED, ENDED, ANOTHERS], ids=["closed", "ended", "another's"])
async def test_g4_g6_a_transaction_whose_run_is_not_the_workers_leaves_nothing(
    ledger: Ledger, handler_pool: Pool, change: str
) -> None:
    await ledger.connection.execute(TABLES)
    run = await _started(ledger)
    with pytest.raises(CompletionRefused, match=f"run {run.run_no} has ended, or is not"):
        async with _transaction(handler_pool, ledger, run, EVIDENCE):
            await ledger.connection.execute(change)
    assert await _count_notes(ledger) == 0
    assert await ledger.connection.fetchrow(RECORDED, run.run_no) is None
    await ledger.connection.execute(UNDO, ledger.worker_no)

    run = await _started(ledger)
    async with _transaction(handler_pool, ledger, run, EVIDENCE):
        pass  # of the same connection
    assert await _count_notes(ledger) == 1


async def test_g5_a_commit_that_is_cancelled_while_it_prepares_hinders_no_later_one(
    ledger: Ledger, handler_pool: Pool
) -> None:
    await ledger.connection.execute(TABLES)
    run = await _started(ledger)

    async def commit() -> None:
        async with _transaction(handler_pool, ledger, run, None):
            asyncio.get_running_loop().call_soon(task.cancel)  # once the statement is sent

    task = asyncio.create_task(commit())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _count_notes(ledger) == 0
    async with _transaction(handler_pool, ledger, run, None):
        pass  # of the same connection
    assert await _count_notes(ledger) == 1


async def test_g5_a_handler_that_deallocates_statements_fails_once(
    ledger: Ledger, handler_pool: Pool
) -> None:
    await ledger.connection.execute(TABLES)
    async with _transaction(handler_pool, ledger, await _started(ledger), None):
        pass
    run = await _started(ledger)
    with pytest.raises(asyncpg.InvalidSQLStatementNameError):
        async with _transaction(handler_pool, ledger, run, None) as connection:
            await connection.execute("deallocate all")
    async with _transaction(handler_pool, ledger, run, None):
        pass  # of the same connection
    assert await _count_notes(ledger) == 2


async def test_g6_a_transaction_with_evidence_that_cannot_be_stored_leaves_nothing(
    ledger: Ledger, handler_pool: Pool
) -> None:
    await ledger.connection.execute(TABLES)
    run = await _started(ledger)
    with pytest.raises(InvalidItem):
        async with _transaction(handler_pool, ledger, run, r'{"text": "\u0000"}'):
            pass
    async with _transaction(handler_pool, ledger, run, None):
        pass
    assert await _count_notes(ledger) == 1
