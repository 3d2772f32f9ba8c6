"""Years cost nothing: a start and a settlement take as long with 84 months as with four."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from statistics import median
from time import perf_counter

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from tests.databases import MakeDatabase

from .conftest import Ledger

MONTHS = 80  # before those that every ledger has
ROUNDS = 50
ITEMS = 20
FACTOR = 1.2

MAKE_MONTHS = """
select count(*)
from unnest(array['due_item', 'transition', 'event', 'claim', 'run']) parent,
  generate_series(2, $1::integer + 1) months
where ledger.make_partition(parent, (ledger.now() - make_interval(months => months))::date)
"""


async def _time_round(ledger: Ledger) -> tuple[float, float]:
    """Return the milliseconds that one start and one settlement took."""
    claim = await ledger.claim(limit=ITEMS)
    began = perf_counter()
    (start,) = await start_runs(
        ledger.connection,
        [claim.id],
        [1],
        [ITEMS],
        worker_no=ledger.worker_no,
        lease_seconds=60,
    )
    started = perf_counter()
    assert start.run is not None
    settlement = Settlement(start.run, [Outcome(TransitionEvent.COMPLETED)] * ITEMS)
    asked = perf_counter()
    assert await settle_runs(ledger.connection, [settlement], ledger.worker_no) == []
    return 1000 * (started - began), 1000 * (perf_counter() - asked)


@pytest.mark.full
async def test_a_start_and_a_settlement_take_as_long_with_84_months_as_with_four(
    make_database: MakeDatabase, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    ledgers: list[Ledger] = []
    async with AsyncExitStack() as leased:
        for months in (0, MONTHS):
            dsn = await leased.enter_async_context(make_database(damaged=False))
            connection = await connect(dsn, application_name="test")
            leased.push_async_callback(connection.close)
            assert await connection.fetchval(MAKE_MONTHS, months) == 5 * months
            actor_no = await register_actor(connection, "test", ActorKind.WORKER)
            ledger = Ledger(connection, actor_no, actor_no, make_drafts, kind)
            await ledger.emit(ITEMS * (ROUNDS + 5))
            ledgers.append(ledger)
        for _ in range(5):  # plans and caches
            for ledger in ledgers:
                await _time_round(ledger)
        few: list[tuple[float, float]] = []
        many: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            few.append(await _time_round(ledgers[0]))
            many.append(await _time_round(ledgers[1]))
    for verb, of_few, of_many in zip(
        ("start", "settle"), zip(*few, strict=True), zip(*many, strict=True), strict=True
    ):
        factor = median(of_many) / median(of_few)
        figures = f"{median(of_few):.2f} ms, {median(of_many):.2f} ms"
        assert factor <= FACTOR, f"{verb} takes {factor:.2f} times as long: {figures}"
