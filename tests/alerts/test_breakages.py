"""Breakages on real rows: which alerts stand, which are inhibited, and that Prometheus agrees."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dueledger.alerts.prometheus import RUNBOOK
from dueledger.alerts.rules import RULES, AlertKey, evaluate, without_inhibited
from dueledger.ledger.flows.shares import FlowShare
from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.gauges import measure_gauges
from dueledger.ledger.store.items import emit_items
from dueledger.workers.pull.claims import claim_shares
from tests.databases import DatabasePool, MakeDatabase

from .test_prometheus import FOLDER, needs_promtool, run_promtool

MakeDrafts = Callable[..., list[ItemDraft]]
Arrange = Callable[["Broken"], Awaitable[None]]


class Broken(NamedTuple):
    """A ledger of a transaction that is rolled back, its numbers, and drafts of items."""

    connection: Connection
    actor_no: int
    make_drafts: MakeDrafts
    more: list[Sample]

    async def emit(
        self, due_at: datetime | None = None, *, kind: str = "Renewal", **more: str
    ) -> None:
        """Emit an item that was due long ago, of a topic that a worker reads."""
        [draft] = self.make_drafts(1, kind=kind, due_at=due_at, **more)
        await emit_items(self.connection, [draft], actor_no=self.actor_no)
        await grant_credits(self.connection, self.actor_no, [f"due.{kind}"], [9], 60)

    async def make_late(self) -> None:
        await self.run("update ledger.pending set available_at = available_at - interval '1 h'")

    async def serve(self, *kinds: str) -> None:
        """Have a service live, of which pull workers ask for these kinds."""
        number = await register_actor(self.connection, "api:test", ActorKind.API)
        await self.connection.execute(
            "insert into ledger.process (process_no, role, host, version, started_at, seen_at,"
            " kinds) select $1, 'service', 'here', '1', now, now, $2 from ledger.machine_now() now",
            number,
            kinds,
        )

    async def pull_only(self, *kinds: str) -> None:
        """Have a service live and nothing else, and no worker read a topic."""
        await self.run("delete from ledger.process")
        await self.run("delete from ledger.credit")
        await self.serve(*kinds)

    async def start(self) -> None:
        """Start what waits, as a pull worker does, with a lease."""
        flows = await list_due_flows(self.connection, 10, ["Renewal"])
        await claim_shares(
            self.connection,
            [FlowShare(flow, 10, flow.floor) for flow in flows],
            key_no=self.actor_no,
            lease_seconds=600,
            tenants=None,
            bytes_max=1_000_000,
        )

    async def emit_in_time(self) -> None:
        """Emit an item that is due now."""
        await self.emit(await read_now(self.connection))

    async def park(self, reason: str) -> None:
        await self.emit_in_time()
        await self.connection.execute(
            "with p as (delete from ledger.pending returning *)"
            " insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt,"
            " starts, reason, actor_no) select item_no, effective_date, flow_no, ledger.now(),"
            " 5, 5, $1, $2 from p",
            reason,
            self.actor_no,
        )

    async def find(self, type_: str) -> None:
        await self.connection.execute(
            "insert into ledger.finding (id, type, severity, tenant, kind, subject, sentence,"
            " first_seen_at, last_seen_at, resolution) values (gen_random_uuid(), $1, 'error',"
            " 'acme', 'Renewal', 'item', 'It is so.', ledger.now(), ledger.now(), 'open')",
            type_,
        )

    async def run(self, sql: str) -> None:
        await self.connection.execute(sql)


async def healthy(broken: Broken) -> None:
    await broken.emit_in_time()


async def late(broken: Broken) -> None:
    await broken.emit()
    await broken.make_late()


async def unclaimed(broken: Broken) -> None:
    """Items have waited for an hour, and are not late yet."""
    await broken.emit_in_time()
    await broken.make_late()
    await broken.run("update ledger.kind set grace_seconds = 86400")


async def running_late(broken: Broken) -> None:
    await broken.emit()
    await broken.start()


async def retried_late(broken: Broken) -> None:
    await broken.emit()
    await broken.run("update ledger.pending set state = 4, available_at = now() + interval '1 h'")


async def two_topics(broken: Broken) -> None:
    """A topic without a worker beside one whose worker is slow."""
    await late(broken)
    await broken.emit(kind="Letter")
    await broken.make_late()
    await broken.run("update ledger.credit set topic = 'due.Renewal'")


async def kafka_and_direct(broken: Broken) -> None:
    """Items that do not need Kafka are late while it is down."""
    await kafka(broken)
    await broken.emit(kind="Letter")
    await broken.make_late()
    await broken.run("update ledger.kind set dispatch = 'direct' where name = 'Letter'")
    await broken.serve("Letter")


async def pulled(broken: Broken) -> None:
    """A service with pull workers is all that runs."""
    await broken.emit_in_time()
    await broken.pull_only("Renewal")


async def pulled_and_busy(broken: Broken) -> None:
    """The only pull worker is at work, and asks for nothing."""
    await broken.emit_in_time()
    await broken.run("update ledger.kind set dispatch = 'direct'")
    await broken.start()
    await broken.emit(await read_now(broken.connection), prefix="more")
    await broken.pull_only()


async def pulled_by_nobody(broken: Broken) -> None:
    await late(broken)
    await broken.pull_only()


async def all_dead(broken: Broken) -> None:
    await late(broken)
    await broken.pull_only("Renewal")
    await broken.run("update ledger.process set seen_at = seen_at - interval '1 min'")


async def allocator_beside_service(broken: Broken) -> None:
    await allocator(broken)
    await broken.serve()


async def never_reconciled(broken: Broken) -> None:
    await broken.emit_in_time()
    await broken.run("delete from ledger.watermark")
    await broken.run("update ledger.partition_span set made_at = made_at - interval '1 d'")


async def never_complete(broken: Broken) -> None:
    await broken.run("update ledger.watermark set complete_before = null")
    await broken.run("update ledger.watermark set first_as_of = first_as_of - interval '3 h'")


async def exhausted(broken: Broken) -> None:
    await broken.park("attempts exhausted")


async def parked(broken: Broken) -> None:
    await broken.park("no such policy")


async def stuck(broken: Broken) -> None:
    await broken.find("STUCK")


async def found(broken: Broken) -> None:
    await broken.find("MISSING")


async def watermark(broken: Broken) -> None:
    await broken.run("update ledger.watermark set complete_before = ledger.now() - interval '3 h'")


async def reconciler(broken: Broken) -> None:
    await watermark(broken)
    await broken.run("update ledger.watermark set as_of = ledger.now() - interval '1 h'")


async def worker(broken: Broken) -> None:
    await late(broken)
    await broken.run("delete from ledger.credit")


async def allocator(broken: Broken) -> None:
    await worker(broken)
    await broken.run("update ledger.process set seen_at = seen_at - interval '1 min'")


async def kafka(broken: Broken) -> None:
    await worker(broken)
    await broken.run(
        "update ledger.process set failing_since = seen_at, failure = 'Unavailable',"
        " failed_service = 'kafka'"
    )


async def postgres(broken: Broken) -> None:
    broken.more.append(Sample(Metric.SERVER_UNREACHABLE, 1, ("postgres", "alert")))


async def topic(broken: Broken) -> None:
    await late(broken)
    await broken.run(
        "insert into ledger.silent_topic (topic, topic_actor_no, since)"
        " select 'due.Renewal', p.process_no, p.seen_at - interval '1 min' from ledger.process p"
    )


async def partition(broken: Broken) -> None:
    await broken.run(
        "insert into ledger.stalled_partition (topic, partition, worker_no, waits_for_handlers,"
        " stalled_at) select 'due.Renewal', 0, p.process_no, true, p.seen_at - interval '5 min'"
        " from ledger.process p"
    )


async def transaction(broken: Broken) -> None:
    broken.more.append(Sample(Metric.OLDEST_TRANSACTION_SECONDS, 900))


async def disk(broken: Broken) -> None:
    broken.more.append(Sample(Metric.DATABASE_BYTES, 6e11))


async def certificate(broken: Broken) -> None:
    await broken.serve()
    await broken.run(
        "update ledger.process set certificate_expires_at = seen_at + interval '13 days'"
    )


async def renewed_certificate(broken: Broken) -> None:
    await certificate(broken)
    await broken.run(
        "update ledger.process set certificate_expires_at = seen_at + interval '90 days'"
    )


async def expired_certificate(broken: Broken) -> None:
    await certificate(broken)
    await broken.run(
        "update ledger.process set certificate_expires_at = seen_at - interval '1 day'"
    )


OWN = "acme/Renewal"
KAFKA = f"{OWN}/due.Renewal/kafka"
LETTER = "acme/Letter/due.Letter"
BREAKAGES: dict[Arrange, tuple[str, str]] = {
    healthy: ("", ""),
    late: (f"ItemsLate {KAFKA}", f"FlowSilent {KAFKA}"),
    unclaimed: (f"FlowSilent {KAFKA}", ""),
    running_late: (f"ItemsLate {KAFKA}", ""),
    retried_late: (f"ItemsLate {KAFKA}", ""),
    two_topics: (
        f"WorkerMissing due.Letter/kafka, ItemsLate {KAFKA}",
        f"ItemsLate {LETTER}/kafka, FlowSilent {LETTER}/kafka, FlowSilent {KAFKA}",
    ),
    kafka_and_direct: (
        f"KafkaUnreachable allocator, ItemsLate {LETTER}/direct",
        (
            f"WorkerMissing due.Renewal/kafka, ItemsLate {KAFKA}, FlowSilent {KAFKA},"
            f" FlowSilent {LETTER}/direct"
        ),
    ),
    pulled: ("", ""),
    pulled_and_busy: ("", ""),
    pulled_by_nobody: (
        "WorkerMissing due.Renewal/kafka",
        f"ItemsLate {KAFKA}, FlowSilent {KAFKA}",
    ),
    all_dead: (
        "AllocatorMissing",
        f"WorkerMissing due.Renewal/kafka, ItemsLate {KAFKA}, FlowSilent {KAFKA}",
    ),
    allocator_beside_service: (
        "AllocatorMissing",
        f"WorkerMissing due.Renewal/kafka, ItemsLate {KAFKA}, FlowSilent {KAFKA}",
    ),
    never_reconciled: ("ReconcilerSilent", ""),
    never_complete: (f"WatermarkStalled {OWN}", ""),
    exhausted: (f"RetriesExhausted {OWN}", f"ItemsParked {OWN}"),
    parked: (f"ItemsParked {OWN}", ""),
    stuck: ("ItemsStuck STUCK", "FindingsOpen STUCK"),
    found: ("FindingsOpen MISSING", ""),
    watermark: (f"WatermarkStalled {OWN}", ""),
    reconciler: ("ReconcilerSilent", f"WatermarkStalled {OWN}"),
    worker: ("WorkerMissing due.Renewal/kafka", f"ItemsLate {KAFKA}, FlowSilent {KAFKA}"),
    allocator: (
        "AllocatorMissing",
        f"WorkerMissing due.Renewal/kafka, ItemsLate {KAFKA}, FlowSilent {KAFKA}",
    ),
    kafka: (
        "KafkaUnreachable allocator",
        f"WorkerMissing due.Renewal/kafka, ItemsLate {KAFKA}, FlowSilent {KAFKA}",
    ),
    postgres: ("PostgresUnreachable alert", ""),
    topic: ("TopicSilent due.Renewal", f"ItemsLate {KAFKA}, FlowSilent {KAFKA}"),
    partition: ("PartitionStalled due.Renewal", ""),
    transaction: ("TransactionOld", ""),
    disk: ("DatabaseLarge", ""),
    certificate: ("CertificateExpiring", ""),
    renewed_certificate: ("", ""),
    expired_certificate: ("CertificateExpiring", ""),
}
"""What breaks: the alerts that are sent, and those that stand and are inhibited."""


def read_keys(text: str) -> set[AlertKey]:
    words = [each.split() for each in text.split(", ") if each]
    return {
        AlertKey(name, tuple(labels[0].split("/")) if labels else ()) for name, *labels in words
    }


@pytest.fixture(scope="module")
def make_database(served_database_pool: DatabasePool) -> MakeDatabase:
    return served_database_pool.lease


@pytest.fixture(scope="module")
async def owner(make_database: MakeDatabase) -> AsyncGenerator[Connection]:
    """A healthy ledger: an allocator lives, and all is complete."""
    async with make_database(damaged=True) as dsn:
        connection = await connect(dsn, application_name="test")
        yield connection
        await connection.close()


@pytest.fixture
async def measured(
    owner: Connection, make_drafts: MakeDrafts
) -> Callable[[Arrange], Awaitable[list[Sample]]]:
    """Arrange a breakage, and measure it."""

    async def measure(arrange: Arrange) -> list[Sample]:
        transaction = owner.transaction()
        await transaction.start()
        try:
            actor_no = await register_actor(owner, "allocator:test", ActorKind.ALLOCATOR)
            await owner.execute(
                "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
                " select $1, 'allocator', 'here', '1', now, now from ledger.machine_now() now",
                actor_no,
            )
            await owner.execute(
                "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
                " values ('acme', 'Renewal', ledger.now(), ledger.now())"
            )
            broken = Broken(owner, actor_no, make_drafts, [])
            await arrange(broken)
            return [*await measure_gauges(owner), *broken.more]
        finally:
            await transaction.rollback()

    return measure


def prometheus_test(
    name: str, samples: Sequence[Sample], expected: set[AlertKey]
) -> dict[str, Any]:
    """Return a test of promtool: with these series, these alerts and no others stand."""
    highest: dict[tuple[Metric, tuple[str, ...]], float] = {}
    for metric, value, labels in samples:
        highest[metric, labels] = max(value, highest.get((metric, labels), value))
    series = [
        {
            "series": metric
            + "{"
            + ",".join(
                f'{label}="{text}"' for label, text in zip(metric.labels, labels, strict=True)
            )
            + "}",
            "values": f"{value}+0x20",
        }
        for (metric, labels), value in highest.items()
    ]
    alerts: list[dict[str, Any]] = []
    for rule in RULES:
        expected_alerts: list[dict[str, Any]] = []
        for key in sorted(expected):
            if key.name == rule.name:
                labels = dict(zip(rule.labels, key.labels, strict=True))
                expected_alerts.append(
                    {
                        "exp_labels": labels | {"severity": str(rule.severity)},
                        "exp_annotations": {
                            "summary": rule.summary.format(**labels),
                            "runbook": RUNBOOK + rule.anchor,
                        },
                    }
                )
        alerts.append(
            {"eval_time": "3m", "alertname": f"Dueledger{rule.name}", "exp_alerts": expected_alerts}
        )
    return {"name": name, "interval": "15s", "input_series": series, "alert_rule_test": alerts}


def test_twelve_breakages_and_more_are_in_the_table() -> None:
    sent = {key.name for sent, _ in BREAKAGES.values() for key in read_keys(sent)}
    assert sent == {rule.name for rule in RULES}


@pytest.mark.parametrize("arrange", BREAKAGES, ids=lambda arrange: arrange.__name__)
async def test_a_breakage_is_sent_as_one_alert_and_inhibits_what_follows_from_it(
    measured: Callable[[Arrange], Awaitable[list[Sample]]], arrange: Arrange
) -> None:
    sent, inhibited = map(read_keys, BREAKAGES[arrange])
    alerts = evaluate(await measured(arrange))
    assert set(alerts) == sent | inhibited
    assert set(without_inhibited(alerts)) == sent


@needs_promtool
async def test_prometheus_has_the_same_alerts_of_the_same_numbers(
    measured: Callable[[Arrange], Awaitable[list[Sample]]], tmp_path: Path
) -> None:
    tests: list[dict[str, Any]] = []
    for arrange in BREAKAGES:
        samples = await measured(arrange)
        tests.append(prometheus_test(arrange.__name__, samples, set(evaluate(samples))))
    document = {
        "rule_files": [str(FOLDER / "rules.yml")],
        "evaluation_interval": "15s",
        "tests": tests,
    }
    path = tmp_path / "tests.yml"
    path.write_text(yaml.safe_dump(document))
    assert run_promtool("test", "rules", str(path)) is not None
