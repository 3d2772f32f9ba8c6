"""Metrics of the whole ledger: what they count, and that one process at a time reads them."""

from collections.abc import Callable
from datetime import timedelta

import asyncpg

from dueledger.ledger.gauges import LEAD_SECONDS, LedgerGauges
from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.gauges import measure_gauges, take_lead
from dueledger.ledger.store.items import emit_items
from tests.logins import with_login
from tests.metrics_page import Series

MakeDrafts = Callable[..., list[ItemDraft]]


def by_metric(samples: list[Sample]) -> dict[Metric, Series]:
    read: dict[Metric, Series] = {}
    for metric, value, labels in samples:
        assert len(labels) == len(metric.labels)
        read.setdefault(metric, {})[labels] = value
    return read


async def test_gauges_count_what_waits_is_late_and_is_not_served(
    database: str, connection: Connection, actor_no: int, make_drafts: MakeDrafts, kind: str
) -> None:
    other = f"{kind}Other"
    await emit_items(
        connection,
        [*make_drafts(5), *make_drafts(3, kind=other, prefix="o")],
        actor_no=actor_no,
    )
    await connection.execute(
        "update ledger.pending p set state = 4, attempt = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key = 'key-000001'"
    )
    await grant_credits(connection, actor_no, [f"due.{other}"], [70], 60)
    await connection.execute(
        "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
        " select $1, 'allocator', 'here', '1', now, now from ledger.machine_now() now",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " values ('acme', $1, ledger.now() - interval '1 h', ledger.now() - interval '1 min')",
        kind,
    )
    read = by_metric(await measure_gauges(connection))
    own = ("acme", kind)
    assert read[Metric.DUE_ITEMS] == {own: 5, ("acme", other): 3}
    assert read[Metric.RETRYING_ITEMS] == {own: 1, ("acme", other): 0}
    assert read[Metric.OLDEST_DUE_SECONDS].keys() == {
        (*own, f"due.{kind}", "kafka"),
        ("acme", other, f"due.{other}", "kafka"),
    }
    assert read[Metric.LATE_SECONDS][*own, f"due.{kind}", "kafka"] > 86_400  # due long ago
    assert read[Metric.UNSERVED_ITEMS] == {(f"due.{kind}", "kafka"): 5}
    assert read[Metric.CREDIT_ITEMS] == {(f"due.{other}",): 70}
    assert 3600 <= read[Metric.WATERMARK_AGE_SECONDS][own] < 7200
    assert 60 <= read[Metric.RECONCILED_SECONDS][()] < 3600
    assert read[Metric.DATABASE_BYTES][()] > 1_000_000
    monitor = await asyncpg.connect(with_login(database, "monitor"))
    rows = await monitor.fetch("select metric from ledger.measure_gauges()")
    assert {Metric(row["metric"]) for row in rows} == set(read)
    await monitor.close()


async def test_what_is_added_to_other_kinds_moves_no_parked_kind_to_the_others(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    """An alert stands by the labels of its series: it must not end because another kind grew."""

    async def park(kind: str, count: int) -> None:
        await emit_items(connection, make_drafts(count, kind=kind), actor_no=actor_no)
        await connection.execute(
            "with p as (delete from ledger.pending returning *)"
            " insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt,"
            " starts, reason, actor_no) select item_no, effective_date, flow_no,"
            " ledger.machine_now(), 5, 5, 'attempts exhausted', $1 from p",
            actor_no,
        )

    async def shown() -> list[set[tuple[str, ...]]]:
        read = by_metric(await measure_gauges(connection))
        return [
            {labels for labels, count in read[metric].items() if count > 0}
            for metric in (Metric.PARKED_ITEMS, Metric.EXHAUSTED_ITEMS)
        ]

    await park("First", 1)
    for number in range(7):
        await park(f"Kind{number}", 2)
    parked, exhausted = await shown()
    assert parked == exhausted == {("acme", "First"), *(("acme", f"Kind{n}") for n in range(7))}
    for number in range(3):
        await park(f"Later{number}", 5)
    await emit_items(connection, make_drafts(9, kind="Busy"), actor_no=actor_no)
    assert await shown() == [parked | {("other", "other")}] * 2


async def test_one_process_reads_the_gauges_and_another_takes_over(
    pool: Pool, connection: Connection
) -> None:
    passed = [0.0]
    first, second = (
        LedgerGauges(pool, holder=f"process:{number}", clock=lambda: passed[0]) for number in (1, 2)
    )
    for gauges in (first, second, first):
        await gauges.tick()
    assert first.samples()
    assert not second.samples()
    passed[0] += LEAD_SECONDS - 1
    assert first.samples()
    passed[0] += 1  # from now on another one may show its own
    assert not first.samples()
    now = await connection.fetchval("select ledger.machine_now()")
    await set_machine_clock(connection, now + timedelta(seconds=LEAD_SECONDS + 1), 1.0)
    assert await take_lead(connection, "metrics", "process:2", LEAD_SECONDS) == 2
    await first.tick()
    assert not first.samples()
    await second.tick()
    assert second.samples()
