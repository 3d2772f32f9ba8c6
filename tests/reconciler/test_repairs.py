"""Repairs: applied once, harmless to repeat, bounded, and nothing in a dry run."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import asyncpg
import orjson
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord
from pydantic import SecretStr

from dueledger.ledger.finding_types import FindingType, RepairStatus, Resolution
from dueledger.ledger.kafka import envelope
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.store import Connection, Pool, findings
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.repairs import list_repairs
from dueledger.ledger.store.runs import start_runs
from dueledger.reconciler import (
    PassScope,
    Reconciler,
    ReconcilerSettings,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
    reconcile_once,
)
from dueledger.reconciler.repair.command_publisher import REPAIR_TYPE, open_publisher
from dueledger.reconciler.repair.planned_repairs import BlastRadiusExceeded, RepairSelection
from dueledger.reconciler.repair.repairs import RepairExecutor
from dueledger.reconciler.repair.replay_guard import ReplayGuard
from tests.claim_ids import claim_ids
from tests.forks import ForkServer
from tests.logins import with_login
from tests.published_records import nothing_published

from .conftest import resolutions

pytestmark = pytest.mark.long

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]

RECONCILE = """
import asyncio, sys
from dueledger.reconciler import ReconcilerSettings, ReconcilerSources, SqlPopulation
from dueledger.reconciler import reconcile_once
from tests.forks import ForkServer
dsn, query, servers = sys.argv[1:]
sources = ReconcilerSources((SqlPopulation(dsn, query, "policies", complete=True),))
settings = ReconcilerSettings(dsn=dsn, bootstrap_servers=servers)
asyncio.run(reconcile_once(settings, sources, mode="execute"))
"""


async def counts(connection: Connection) -> dict[str, int]:
    """Count the rows that a repair could make."""
    tables = ("due_item", "pending", "transition", "repair", "finding", "review", "watermark")
    return {
        table: await connection.fetchval(f"select count(*) from ledger.{table}")  # noqa: S608
        for table in tables
    }


async def test_g11_a_repair_is_applied_once_however_often_it_is_asked_for(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(30, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    planned = await reconciler.plan()

    assert await reconciler.repair(planned) == 30
    before = await counts(frozen)
    assert await reconciler.repair(planned) == 0
    assert await reconciler.repair(await reconciler.plan()) == 0

    assert await counts(frozen) == before
    assert before["repair"] == before["due_item"] == before["pending"] == 30


async def test_g11_two_reconcilers_at_once_apply_each_repair_once(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    analytic: Pool,
    reconciler_no: int,
) -> None:
    await owe(make_drafts(40, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    planned = await reconciler.plan()
    guard = ReplayGuard(record_index=nothing_published())
    executors = [RepairExecutor(analytic, reconciler_no, guard=guard) for _ in range(2)]

    executed = await asyncio.gather(*(executor.execute(planned) for executor in executors))

    assert sum(executed) == 40
    assert (await counts(frozen))["due_item"] == 40


async def test_a_dry_run_changes_nothing_and_shows_what_it_would_do(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(4, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    before = await counts(frozen)

    planned = await reconciler.plan()
    report = await reconciler.report(planned)

    assert await counts(frozen) == before
    assert before["repair"] == 0
    assert [repair.status for repair in report.repairs] == [None] * 4
    assert all("Emit" in repair.would for repair in report.repairs)


HOLD: Final = """
insert into ledger.held_key
select item_no, item_no, effective_date, flow_no, ledger.now() from ledger.due_item
where business_key like 'held-%'
"""
RELEASED: Final = """
select 'claim', fence from ledger.claim where closed_at is not null
union all select 'run', run_no from ledger.run where closed_at is not null
union all select 'key', item_no from ledger.due_item
  where business_key like 'held-%' and item_no not in (select item_no from ledger.held_key)
"""


async def test_g11_a_release_releases_what_its_dry_run_names_and_nothing_else(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Callable[..., Awaitable[None]],
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(2, due_at=NOON, prefix="held"), actor_no=actor_no)
    await complete_all()
    await frozen.execute(HOLD)
    for prefix in ("run", "second-run", "claim", "second-claim"):
        await emit_items(frozen, make_drafts(3, due_at=NOON, prefix=prefix), actor_no=actor_no)
        (fence,) = await claim_all()
        if "run" in prefix:
            await start_runs(
                frozen,
                await claim_ids(frozen, [fence]),
                [1],
                [3],
                worker_no=actor_no,
                lease_seconds=60,
            )
    await frozen.execute("update ledger.claim set deadline = ledger.machine_now() - interval '1 h'")
    await frozen.execute(
        "update ledger.run set lease_until = ledger.machine_now() - interval '1 h'"
    )
    reconciler = make_reconciler()
    await reconciler.run_pass()
    ended = {tuple(row) for row in await frozen.fetch(RELEASED)}
    named: set[tuple[str, int]] = set()
    changes: set[tuple[str, str]] = set()

    while planned := await reconciler.plan(RepairSelection(limit=1)):
        (repair,) = planned
        named |= set(repair.command.items())
        changes.add((repair.before, repair.after))
        assert await reconciler.repair(planned) == 1
        assert {tuple(row) for row in await frozen.fetch(RELEASED)} == ended | named

    assert {holder for holder, _ in named} == {"claim", "run", "key"}
    assert len(named) == 6
    assert changes == {
        ("key held", "key free"),
        ("3 items Claimed", "Scheduled or ManualReview"),
        ("3 items Running", "RetryableFailure or ManualReview"),
    }
    await reconciler.run_pass()
    assert await findings.list_findings(frozen, type_=FindingType.STUCK) == []
    assert await findings.list_findings(frozen, type_=FindingType.HELD_KEY) == []


async def test_g11_a_pass_repairs_nothing_that_it_did_not_judge(
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
) -> None:
    """Of other dates nobody asked whether it is owed still."""
    await owe(make_drafts(1, due_at=NOON))
    may = make_drafts(1, due_at=NOON, effective_date=date(2027, 5, 3), prefix="may")
    await owe(may)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 2}
    await domain.execute("delete from policy_due where effective_date < '2027-05-01'")

    await reconciler.run_pass(PassScope.between(date(2027, 5, 1), date(2027, 6, 1)))

    assert [each.subject for each in await reconciler.plan()] == [str(may[0].id)]


async def test_more_than_the_cap_is_refused_whole(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(4, due_at=NOON))
    reconciler = make_reconciler(ReconcilerSources((policies,)), repair_max=3)
    await reconciler.run_pass()

    with pytest.raises(BlastRadiusExceeded, match="4 findings"):
        await reconciler.repair(await reconciler.plan())

    assert (await counts(frozen))["due_item"] == 0


@pytest.mark.usefixtures("make_reconciler")
async def test_g11_killed_at_each_step_the_next_run_goes_on_from_there_and_doubles_nothing(
    frozen: Connection,
    database: str,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    bootstrap_servers: str,
    fork_server: ForkServer,
) -> None:
    await owe(make_drafts(12, due_at=NOON))
    dsn = with_login(database, "reconciler")
    left = ("finding", "repair", "due_item", "watermark")
    for point, *rows in (
        ("reconcile.begun", 0, 0, 0, 0),
        ("reconcile.found", 12, 0, 0, 0),
        ("reconcile.closed", 12, 0, 0, 0),
        ("reconcile.ended", 12, 0, 0, 1),
        ("reconcile.proposed", 12, 12, 0, 1),
        ("reconcile.applied", 12, 12, 0, 1),
        ("reconcile.repaired", 12, 12, 12, 1),
        ("reconcile.closed", 12, 12, 12, 1),
    ):
        process = await fork_server.start(
            "-c",
            RECONCILE,
            dsn,
            policies.query,
            bootstrap_servers,
            env={**os.environ, CRASH_VARIABLE: point},
        )
        assert await process.wait() == -signal.SIGKILL, point
        after = await counts(frozen)
        assert [after[table] for table in left] == rows, point

    settings = ReconcilerSettings(dsn=SecretStr(dsn), bootstrap_servers=bootstrap_servers)
    result = await reconcile_once(settings, ReconcilerSources((policies,)), mode="execute")

    assert (result.findings_open, result.repairs_executed) == (0, 0)
    after = await counts(frozen)
    assert after["due_item"] == after["pending"] == after["finding"] == after["repair"] == 12
    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.REPAIRED] * 12


async def test_an_escalation_reaches_the_domain_as_a_cloud_event_under_the_repair_s_id(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    bookings: SqlEvidence,
    domain: asyncpg.Connection,
    complete_all: Callable[..., Awaitable[None]],
    bootstrap_servers: str,
    actor_no: int,
) -> None:
    draft, late = drafts = make_drafts(2, due_at=NOON)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=1)
    async with open_publisher(settings) as publisher:
        reconciler = make_reconciler(ReconcilerSources((), (bookings,)), publisher=publisher)
        await reconciler.run_pass()
        planned = await reconciler.plan()
        # The effect of one comes after the pass: the domain is not asked to repeat it.
        await domain.execute("insert into booking values ($1, 'late', '2027', 'B')", late.id)
        assert await reconciler.repair(planned) == 1

    repairs = {row["subject"]: row for row in await list_repairs(frozen)}
    repair = repairs.pop(str(draft.id))
    assert [row["held_because"] for row in repairs.values()] == ["its effect is in bookings"]
    record = await read_repair(bootstrap_servers, str(repair["id"]))
    headers = dict(record.headers)
    body = orjson.loads(record.value or b"")
    assert repair["status"] == RepairStatus.EXECUTED
    assert headers[envelope.TYPE] == REPAIR_TYPE.encode()
    assert headers[envelope.ITEM] == str(draft.id).encode()
    assert record.key == draft.business_key.encode()
    assert (body["type"], body["repair"]) == (FindingType.EFFECT_MISSING, str(repair["id"]))


async def read_repair(bootstrap_servers: str, identity: str) -> ConsumerRecord:
    """Read the repair topic from its beginning until the command comes."""
    async with (
        AIOKafkaConsumer(
            envelope.REPAIR_TOPIC, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
        asyncio.timeout(60),
    ):
        while True:
            record = await consumer.getone()
            if dict(record.headers)[envelope.ID] == identity.encode():
                return record


@pytest.mark.usefixtures("frozen", "make_reconciler")
async def test_once_leaves_a_report_of_what_was_found_and_repaired(
    database: str,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    await owe(make_drafts(3, due_at=NOON))
    settings = ReconcilerSettings(dsn=database, bootstrap_servers=bootstrap_servers)  # type: ignore[arg-type]

    result = await reconcile_once(
        settings, ReconcilerSources((policies,)), mode="execute", report_directory=tmp_path
    )

    assert (result.findings_found, result.findings_open, result.repairs_executed) == (3, 0, 3)
    assert result.files is not None
    report = orjson.loads(result.files.json.read_bytes())
    assert [row["repaired"] for row in report["summary"]] == [3]
    assert report["totals"]["difference"] == 0
    page = result.files.html.read_text()
    assert "<script" not in page
    assert "http" not in page
    assert "✓ repaired" in page
