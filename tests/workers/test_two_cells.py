"""Two ledgers on one Kafka topic: neither completes what the other handed out."""

from collections.abc import AsyncGenerator, Callable

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.cells import assign_cell
from tests.databases import MakeDatabase

from .conftest import Eventually
from .one_pass import OnePassLedger

ITEMS = 200
CELL = 7


@pytest.fixture
async def other_database(make_database: MakeDatabase) -> AsyncGenerator[str]:
    """A database of the same kind, which the test makes another cell."""
    async with make_database() as dsn:
        yield dsn


@pytest.mark.parametrize("groups", ["own", pytest.param("shared", marks=pytest.mark.full)])
async def test_g4_two_cells_on_one_topic_complete_their_own_items_only(
    groups: str,
    database: str,
    other_database: str,
    bootstrap_servers: str,
    kind: str,
    make_drafts: Callable[..., list[ItemDraft]],
    eventually: Eventually,
) -> None:
    group_ids = {name: f"group-{name if groups == 'own' else 'both'}-{kind}" for name in ("a", "b")}
    ledgers = {
        name: OnePassLedger(dsn, bootstrap_servers, kind, group_ids[name])
        for name, dsn in (("a", database), ("b", other_database))
    }
    async with ledgers["b"].connected() as connection:
        await connection.execute("delete from ledger.cell")
        await assign_cell(connection, CELL)
    fences = {
        name: await ledger.emit_and_allocate(make_drafts(ITEMS, prefix=name))
        for name, ledger in ledgers.items()
    }
    assert {fence >> 43 for fence in fences["b"]} == {CELL}

    async def all_is_read() -> bool:
        for ledger in ledgers.values():
            await ledger.work()
        counts = [await ledger.counts() for ledger in ledgers.values()]
        # In one group each record is read by one of them.
        return sum(map(sum, counts)) == 2 * ITEMS * (2 if groups == "own" else 1)

    await eventually(all_is_read)

    for (name, ledger), other in zip(ledgers.items(), ("b", "a"), strict=True):
        completed, refused = await ledger.completed(), await ledger.refused()
        assert completed.keys() == set(ledger.seen)
        assert all(key == evidence for key, evidence in completed.items())
        assert {key.partition("-")[0] for key in completed} <= {name}
        assert {row["fence"] for row in refused} <= fences[other]
        assert {(row["verb"], row["reason"]) for row in refused} <= {("start", "mismatch")}
        if groups == "own":
            assert (len(refused), len(completed)) == (ITEMS, ITEMS)
