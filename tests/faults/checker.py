"""Holds what is left after a run against the guarantees.

The evidence does not come from the ledger: what was emitted and acknowledged is the test's own,
what was worked is in another database, what was published is in Kafka, what was refused is in the
processes' logs. Each rule is a query for what must not be.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition
from pydantic import SecretStr

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.kafka import envelope
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store.findings import list_findings
from dueledger.reconciler import ReconcilerSettings, ReconcilerSources, open_reconciler

from .rules import DERIVE, PREPARE, RULES
from .serve import POISON
from .short_times import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from aiokafka import ConsumerRecord

    from dueledger.ledger.store import Connection

    from .site import Site

COPIED: Final = "test-copied"  # header of what a test published again itself
POLL_MILLISECONDS: Final = 200
SHOWN_MAX: Final = 3


@dataclass(frozen=True)
class _Record:
    topic: str
    partition: int
    place: int
    fence: int
    position: int
    item: str
    copied: bool


async def violations(site: Site) -> list[str]:
    """Return a line for each rule that is broken; none where all guarantees hold."""
    async with gathered(site) as connection:
        return await broken_rules(site, connection)


@asynccontextmanager
async def gathered(site: Site) -> AsyncGenerator[Connection]:
    """Collect all evidence: a connection to the ledger, with temporary tables."""
    connection = await asyncpg.connect(site.dsn)
    try:
        await connection.execute(PREPARE)
        await _load(site, connection)
        await connection.execute(DERIVE)
        yield connection
    finally:
        await connection.close()


async def broken_rules(
    site: Site, connection: Connection, rules: Mapping[str, str] = RULES
) -> list[str]:
    """Return a line for each of the rules, by name, whose query finds rows."""
    found: list[str] = []
    within = [kind for kind, handler in site.kinds.items() if handler == "transaction"]
    for rule, query in rules.items():
        rows = await connection.fetch(query, *([within] if "$1" in query else []))
        if rows:
            shown = [dict(row) for row in rows[:SHOWN_MAX]]
            found.append(f"{rule}: {len(rows)} break it, such as {shown}")
    return found


async def open_findings(site: Site) -> list[str]:
    """Return a line for each finding that a reconciliation with Kafka has; none if all is right.

    Poison that is parked is overdue, as it should be.
    """
    settings = ReconcilerSettings(
        dsn=SecretStr(site.dsn), bootstrap_servers=site.bootstrap_servers, reconcile_kafka=True
    )
    async with open_reconciler(settings, ReconcilerSources()) as reconciler:
        await reconciler.run_pass()
    async with site.connected() as connection:
        rows = await list_findings(connection)
    poison = {id_ for id_, draft in site.emitted.items() if draft.business_key.startswith(POISON)}
    return [
        f"{row['type']}: {row['sentence']}"
        for row in rows
        if row["type"] != FindingType.OVERDUE or row["item_id"] not in poison
    ]


async def _load(site: Site, connection: Connection) -> None:
    evidence = await asyncpg.connect(site.evidence_dsn)
    effects = await evidence.fetch("select item, fence, position, attempt, at from effect")
    await evidence.close()
    records = await _read_topics(site)
    lines = [line for program in site.programs for line in program.logged(*LogEvent)]
    tables: dict[str, list[tuple[Any, ...]]] = {
        "emitted": [
            (id_, draft.kind, draft.business_key.startswith(POISON))
            for id_, draft in site.emitted.items()
        ],
        "occurrence": list(site.occurrences),
        "asked": [(id_, event.label, done) for id_, event, done in site.asked],
        "effect": [tuple(effect) for effect in effects],
        "record": [
            (
                each.topic,
                each.partition,
                each.place,
                each.fence,
                each.position,
                each.item,
                each.copied,
            )
            for each in records
        ],
        "refusal": list(_refusals(lines)),
        "unsent": [(line["fence"],) for line in lines if line["event"] == LogEvent.CLAIM_NOT_SENT],
    }
    for table, rows in tables.items():
        await connection.copy_records_to_table(table, records=rows)


def _refusals(lines: Iterable[dict[str, Any]]) -> Iterable[tuple[str, int | None, int | None]]:
    for line in lines:
        match line["event"]:
            case LogEvent.SETTLEMENT_REFUSED:
                yield "settle", None, line["run_no"]
            case LogEvent.START_REFUSED:
                yield "start", line["fence"], None
            case _:
                pass


async def _read_topics(site: Site) -> list[_Record]:
    """Read the topics of all kinds from their beginning to what is their end now."""
    async with AIOKafkaConsumer(
        bootstrap_servers=site.bootstrap_servers, enable_auto_commit=False
    ) as consumer:
        topics = {envelope.work_topic(kind) for kind in site.kinds} & await consumer.topics()
        places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        if not places:
            return []
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        found: list[_Record] = []
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for place, records in (await consumer.getmany(timeout_ms=POLL_MILLISECONDS)).items():
                found += [_read(place, record) for record in records]
        return found


def _read(place: TopicPartition, record: ConsumerRecord) -> _Record:
    work = envelope.parse_work_headers(record.headers)

    return _Record(
        place.topic,
        place.partition,
        record.offset,
        work.fence,
        work.position,
        str(work.item),
        COPIED in dict(record.headers),
    )
