"""A ledger that lost its last commits, beside a Kafka that kept their records."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.migrations import migrate

from .conftest import Eventually
from .copied_servers import ColdCopy, CopiedServer, PromotedStandby, open_copied_server
from .one_pass import OnePassLedger

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]
ITEMS = 60
HOW = [
    pytest.param(how, id=f"{how.__name__}-{run}", marks=[pytest.mark.faults] * (run > 1))
    for how in (ColdCopy, PromotedStandby)
    for run in range(1, 22)
]


@pytest.mark.parametrize("how", HOW)
async def test_g4_a_ledger_beside_the_records_of_a_lost_future_completes_nothing_unworked(
    how: type[CopiedServer],
    bootstrap_servers: str,
    kind: str,
    make_drafts: MakeDrafts,
    eventually: Eventually,
) -> None:
    async with open_copied_server(how, eventually) as server:
        ledger = OnePassLedger(server.postgres.dsn, bootstrap_servers, kind, f"group-{kind}")
        async with ledger.connected() as connection:
            await migrate(connection, ahead=timedelta(0))
            # Ahead of the clock, so that it does not lift the copy: the tokens alone decide.
            await connection.execute("select setval('ledger.fence', 1::bigint << 42)")
        await ledger.emit_and_allocate(make_drafts(ITEMS, prefix="kept"))
        await ledger.work()
        await server.copy()
        lost = await ledger.emit_and_allocate(make_drafts(ITEMS, prefix="lost"))
        await server.restore()
        ledger.dsn = server.postgres.dsn
        async with ledger.connected() as connection:  # a standby's sequences are some numbers ahead
            await connection.execute("select setval('ledger.fence', $1)", min(lost) - 1)
        given = await ledger.emit_and_allocate(make_drafts(ITEMS, prefix="new"))
        assert lost & given, "no fence was given twice: the test shows nothing"

        async def all_ended() -> bool:
            await ledger.allocate()
            await ledger.work()
            return await ledger.counts() == (ITEMS, 2 * ITEMS)

        await eventually(all_ended)

        completed, refused = await ledger.completed(), await ledger.refused()
    assert completed.keys() == set(ledger.seen)
    assert not any(key.startswith("lost") for key in completed)
    assert all(key == evidence for key, evidence in completed.items())
    assert {(row["verb"], row["reason"]) for row in refused} == {("start", "mismatch")}
    assert {row["fence"] for row in refused} == lost
    assert len({(row["fence"], row["position"]) for row in refused}) == ITEMS
