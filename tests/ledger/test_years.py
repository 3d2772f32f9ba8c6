"""Years cost nothing: what moves items takes as long with 84 months as with four."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from math import inf
from statistics import median
from time import perf_counter

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import claim_items, reap_claims, reap_runs, release_claims
from dueledger.ledger.store.partitions import finish_month
from dueledger.ledger.store.reported_outcomes import (
    ReportedPlace,
    find_outcome_targets,
    lock_topic_runs,
    start_topic_runs,
)
from dueledger.ledger.store.runs import (
    Outcome,
    RunId,
    Settlement,
    extend_leases,
    settle_runs,
    start_runs,
)
from tests.databases import MakeDatabase

from .conftest import Ledger

MONTHS = 80  # before those that every ledger has
ROUNDS = 50
ITEMS = 100
FACTOR = 1.2
ATTEMPTS = 3
"""Another program slows down some attempts, not all."""

Timed = Callable[[str], AbstractContextManager[None]]

MAKE_MONTHS = """
select count(*)
from unnest(array['due_item', 'event', 'claim', 'run']) parent,
  generate_series(2, $1::integer + 1) months
where ledger.make_partition(parent, (ledger.now() - make_interval(months => months))::date)
"""


async def _time_round(ledger: Ledger) -> dict[str, float]:
    """Return the milliseconds that each verb took for `ITEMS` items."""
    took: dict[str, float] = {}

    @contextmanager
    def timed(verb: str) -> Generator[None]:
        began = perf_counter()
        yield
        took[verb] = 1000 * (perf_counter() - began)

    connection, worker_no = ledger.connection, ledger.worker_no
    flow_nos = [flow.flow_no for flow in await ledger.due_flows()]
    transaction = connection.transaction()
    await transaction.start()
    with timed("claim"):
        assert len(await claim_items(connection, flow_nos, [2 * ITEMS])) == 2 * ITEMS
    await transaction.rollback()
    claim = await ledger.claim(limit=2 * ITEMS)
    runs: list[RunId] = []
    for verb, first, run_items_max in (("start", 1, ITEMS), ("start each", ITEMS + 1, 1)):
        with timed(verb):
            starts = await start_runs(
                connection,
                [claim.id],
                [first],
                [first + ITEMS - 1],
                worker_no=worker_no,
                lease_seconds=60,
                run_items_max=[run_items_max],
            )
        runs += [start.run for start in starts if start.run is not None]
    run, *of_one_item = runs
    assert len(of_one_item) == ITEMS
    completed, failed = Outcome(TransitionEvent.COMPLETED), Outcome(TransitionEvent.FAILED)
    failing, lapsing = of_one_item[: ITEMS // 2], of_one_item[ITEMS // 2 :]
    with timed("extend"):
        assert len(await extend_leases(connection, of_one_item, worker_no, 60)) == ITEMS
    for verb, settlements in (
        ("complete", [Settlement(run, [completed] * ITEMS)]),
        ("fail", [Settlement(each, [failed]) for each in failing]),
    ):
        with timed(verb):
            assert await settle_runs(connection, settlements, worker_no) == []
    await ledger.end_leases()
    with timed("reap runs"):
        assert (await reap_runs(connection, 500, worker_no)).runs == len(lapsing)
    await connection.execute("update ledger.pending set available_at = 'infinity' where starts > 0")
    claim = await ledger.claim(limit=ITEMS)
    with timed("release"):
        assert await release_claims(connection, [claim.id], worker_no) == ITEMS
    claim = await ledger.claim(limit=ITEMS)
    await ledger.end_leases()
    with timed("reap claims"):
        assert (await reap_claims(connection, 500, worker_no)).released == ITEMS
    await _report_outcomes(ledger, timed)
    return took


async def _report_outcomes(ledger: Ledger, timed: Timed) -> None:
    """Find what a topic's outcomes are about, before they are settled and after."""
    connection, worker_no = ledger.connection, ledger.worker_no
    claim = await ledger.claim(limit=ITEMS, by_topic=True)
    ids = await connection.fetch(
        "select i.id from ledger.due_item i where i.item_no = any ($1::bigint[])"
        " order by array_position($1::bigint[], i.item_no)",
        claim.item_nos,
    )
    places = [ReportedPlace(claim.id, position, row["id"]) for position, row in enumerate(ids, 1)]
    with timed("report"):
        assert len(await start_topic_runs(connection, places)) == 1
        await lock_topic_runs(connection, places)
        (target, *_) = await find_outcome_targets(connection, places)
    assert target.run is not None
    completed = [Outcome(TransitionEvent.COMPLETED)] * ITEMS
    assert await settle_runs(connection, [Settlement(target.run.id, completed)], worker_no) == []
    with timed("report again"):
        targets = await find_outcome_targets(connection, places)
    ended = [target.item.ended_as for target in targets if target.item is not None]
    assert ended == [TransitionEvent.COMPLETED] * ITEMS


async def _measure(ledger: Ledger, other: Ledger) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median milliseconds of each verb for both, measured in turns."""
    both: list[list[dict[str, float]]] = [[], []]
    for each in (ledger, other):
        await each.emit(4 * ITEMS * ROUNDS)
    for _ in range(ROUNDS):
        for took, each in zip(both, (ledger, other), strict=True):
            took.append(await _time_round(each))
    of, of_other = (
        {verb: median(each[verb] for each in took) for verb in took[0]} for took in both
    )
    return of, of_other


@pytest.mark.full
async def test_moving_items_takes_as_long_with_84_months_as_with_four(
    make_database: MakeDatabase, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    ledgers: list[Ledger] = []
    async with AsyncExitStack() as leased:
        for months in (0, MONTHS):
            dsn = await leased.enter_async_context(make_database(damaged=False))
            connection = await connect(dsn, application_name="test")
            leased.push_async_callback(connection.close)
            assert await connection.fetchval(MAKE_MONTHS, months) == 4 * months
            while await finish_month(connection):
                pass
            actor_no = await register_actor(connection, "test", ActorKind.WORKER)
            ledgers.append(Ledger(connection, actor_no, actor_no, make_drafts, kind))
        least: dict[str, float] = {}
        for _ in range(ATTEMPTS):
            few, many = await _measure(*ledgers)
            least = {verb: min(least.get(verb, inf), many[verb] / few[verb]) for verb in few}
            if max(least.values()) <= FACTOR:
                break
    slower = {verb: factor for verb, factor in least.items() if factor > FACTOR}
    assert not slower, "it takes so many times as long"
