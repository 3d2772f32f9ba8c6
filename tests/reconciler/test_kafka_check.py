"""Claims against the records that Kafka has: real topics, real claims, and what is done to them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from pydantic import SecretStr

from dueledger.allocator import Allocator, AllocatorSettings, open_allocator
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Record, clock, findings
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from dueledger.reconciler import Reconciler
from dueledger.reconciler.kafka_check import KafkaCheck
from dueledger.reconciler.record_index import ALWAYS, SightingState
from dueledger.reconciler.report.model import StatementVerdict
from tests.claim_ids import claim_ids
from tests.logins import with_login

from .conftest import NOON, resolutions
from .test_event_findings import define_rule

pytestmark = pytest.mark.long

ITEMS = 40
MINUTE = timedelta(minutes=1)
Check = Callable[[], Reconciler]
Publish = Callable[..., Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
ReadTopic = Callable[[], Awaitable[list[ConsumerRecord]]]
Produce = Callable[[Sequence[ConsumerRecord]], Awaitable[None]]


@pytest.fixture
async def allocator(
    frozen: Connection,  # noqa: ARG001 - its clock must be set before the pool connects
    database: str,
    bootstrap_servers: str,
) -> AsyncGenerator[Allocator]:
    settings = AllocatorSettings(
        dsn=SecretStr(with_login(database, "allocator")), bootstrap_servers=bootstrap_servers
    )
    async with open_allocator(settings, stop=Stop()) as running:
        yield running


@pytest.fixture
def publish(
    frozen: Connection,
    allocator: Allocator,
    make_drafts: Drafts,
    actor_no: int,
    kind: str,
) -> Publish:
    """Emit items and publish them; complete them by default."""

    async def run(count: int = ITEMS, prefix: str = "key", *, complete: bool = True) -> None:
        await clock.set_clock(frozen, NOON - MINUTE, 0, database=True)
        drafts = make_drafts(count, prefix=prefix, due_at=NOON - MINUTE)
        await emit_items(frozen, drafts, actor_no=actor_no)
        await clock.set_clock(frozen, NOON, 0, database=True)
        await grant_credits(frozen, actor_no, [f"due.{kind}"], [1_000_000], 3600.0)
        assert (await allocator.tick())["published"] == count
        if complete:
            await _complete(frozen, actor_no)

    return run


async def _complete(connection: Connection, worker_no: int) -> None:
    for row in await connection.fetch(
        "select fence, size from ledger.claim where closed_at is null order by fence"
    ):
        (start,) = await start_runs(
            connection,
            await claim_ids(connection, [row["fence"]]),
            [1],
            [row["size"]],
            worker_no=worker_no,
            lease_seconds=60,
        )
        assert start.run is not None
        outcomes = [Outcome(TransitionEvent.COMPLETED, '{"reason":"test"}', None)] * row["size"]
        assert await settle_runs(connection, [Settlement(start.run, outcomes)], worker_no) == []


@pytest.fixture
def reconciler(make_reconciler: Callable[..., Reconciler], bootstrap_servers: str) -> Reconciler:
    """A reconciler that reads Kafka."""
    made = make_reconciler()
    made.kafka = KafkaCheck(KafkaSettings(bootstrap_servers=bootstrap_servers))
    return made


@pytest.fixture
def read_topic(bootstrap_servers: str, kind: str) -> ReadTopic:
    """Read the work topic, all of it, by partition and offset."""

    async def read() -> list[ConsumerRecord]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers) as consumer:
            await consumer.topics()
            places = [TopicPartition(f"due.{kind}", number) for number in range(4)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            ends = await consumer.end_offsets(places)
            found: list[ConsumerRecord] = []
            while sum(ends.values()) > len(found):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.extend(records)
            return sorted(found, key=lambda each: (each.partition, each.offset))

    return read


@pytest.fixture
def produce(bootstrap_servers: str) -> Produce:
    """Produce records again as they are."""

    async def send(records: Sequence[ConsumerRecord]) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
            for record in records:
                await producer.send_and_wait(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                )

    return send


async def _claims(connection: Connection) -> list[Record]:
    return await connection.fetch("select * from ledger.claim order by fence")


async def _open(connection: Connection, type_: FindingType) -> list[dict[str, Any]]:
    return await findings.list_findings(connection, type_=type_)


async def test_g11_what_was_published_and_completed_gives_no_finding(
    reconciler: Reconciler, publish: Publish, frozen: Connection, kind: str
) -> None:
    await publish()
    await publish(prefix="later", complete=False)

    result = await reconciler.run_pass()

    assert result.found == {}
    assert result.published == {("acme", kind)}
    read = result.sources[-1]
    assert (read.origin, read.extract.row_count, read.failure) == ("kafka", 2 * ITEMS, None)
    ids = [row["id"].bytes for row in await frozen.fetch("select id from ledger.due_item")]
    total = sum(int.from_bytes(each[8:]) for each in ids) & 0xFFFF_FFFF_FFFF_FFFF
    assert read.extract.hash_total == total
    [row] = (await reconciler.report()).accounting
    assert row.checks.kafka


async def test_g11_a_second_pass_reads_on_where_the_first_ended(
    reconciler: Reconciler, publish: Publish
) -> None:
    await publish()
    assert (await reconciler.run_pass()).found == {}
    await publish(prefix="later")

    result = await reconciler.run_pass()

    assert result.found == {}
    assert result.sources[-1].extract.row_count == 2 * ITEMS


@pytest.mark.damages
async def test_g11_records_of_a_claim_that_was_removed_are_orphans(
    reconciler: Reconciler, publish: Publish, frozen: Connection
) -> None:
    await publish()
    claim = (await _claims(frozen))[0]
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute("delete from ledger.claim where fence = $1", claim["fence"])

    await reconciler.run_pass()

    [finding] = await _open(frozen, FindingType.ORPHAN_RECORD)
    assert finding["actual"]["fence"] == claim["fence"]
    assert finding["actual"]["topic"] == claim["topic"]
    assert finding["actual"]["partition"] == claim["partition"]
    assert finding["actual"]["first_offset"] == claim["base_offset"]
    assert finding["actual"]["records"] == claim["size"]
    assert await _open(frozen, FindingType.RECORD_MISSING) == []


async def test_g11_a_record_produced_again_is_an_orphan(
    reconciler: Reconciler,
    publish: Publish,
    frozen: Connection,
    read_topic: ReadTopic,
    produce: Produce,
) -> None:
    await publish()
    again = (await read_topic())[0]
    await produce([again])

    result = await reconciler.run_pass()

    assert result.found == {FindingType.ORPHAN_RECORD: 1}
    [finding] = await _open(frozen, FindingType.ORPHAN_RECORD)
    headers = envelope.parse_work_headers(again.headers)
    assert finding["item_id"] == headers.item
    assert finding["expected"]["base_offset"] == again.offset - headers.position + 1
    assert finding["actual"]["first_offset"] > again.offset
    assert reconciler.kafka
    item = headers.item.bytes
    place = reconciler.kafka.records.find([item, bytes(16)])
    assert place[item].place == (again.topic, again.partition, finding["actual"]["first_offset"])
    assert place[bytes(16)] == (SightingState.NOT_SEEN, None)


FORGED = (
    (envelope.FENCE, b"1"),
    (envelope.TOKEN, b"0" * 32),
    (envelope.POSITION, b"9999"),
    (envelope.FENCE, b"9" * 30),
    (envelope.ITEM, b"no item"),
)


async def test_g11_a_forged_record_is_an_orphan(
    reconciler: Reconciler, publish: Publish, read_topic: ReadTopic, produce: Produce
) -> None:
    await publish()
    published = await read_topic()
    for number, (name, value) in enumerate(FORGED):
        forged = next(each for each in published if each.partition == number % 4)
        headers = dict(forged.headers) | {name: value}
        headers[envelope.ID] = b"%b:%b" % (headers[envelope.ITEM], headers[envelope.FENCE])
        await produce([replace(forged, headers=tuple(headers.items()))])

        for _ in range(2):
            found = (await reconciler.run_pass()).found
            assert found == {FindingType.ORPHAN_RECORD: number + 1}, (name, value)


async def test_a_record_of_another_cell_is_no_finding(
    reconciler: Reconciler, publish: Publish, read_topic: ReadTopic, produce: Produce
) -> None:
    await publish()
    other = (await read_topic())[0]
    headers = dict(other.headers) | {envelope.FENCE: b"%d" % (7 << 43 | 5)}
    headers[envelope.ID] = b"%b:%b" % (headers[envelope.ITEM], headers[envelope.FENCE])
    await produce([replace(other, headers=tuple(headers.items()))])

    result = await reconciler.run_pass()

    assert result.found == {}
    assert result.sources[-1].extract.skipped == {"records of another cell": 1}


async def test_g11_a_changed_offset_is_one_finding_that_names_both_places(
    reconciler: Reconciler, publish: Publish, frozen: Connection
) -> None:
    await publish()
    await publish(prefix="later")
    claim = (await _claims(frozen))[-1]
    move = "update ledger.claim set base_offset = $2 where fence = $1"
    for by in (3, -3, 1_000):
        await frozen.execute(move, claim["fence"], claim["base_offset"] + by)

        result = await reconciler.run_pass()

        assert result.found == {FindingType.RECORD_MISSING: 1}, by
        [finding] = await _open(frozen, FindingType.RECORD_MISSING)
        assert finding["expected"]["base_offset"] == claim["base_offset"] + by
        assert finding["actual"]["base_offset"] == claim["base_offset"]
        await frozen.execute(move, claim["fence"], claim["base_offset"])
        assert (await reconciler.run_pass()).found == {}
        assert set(await resolutions(frozen, FindingType.RECORD_MISSING)) == {"explained"}


async def test_g11_a_changed_topic_partition_or_token_is_found(
    reconciler: Reconciler, publish: Publish, frozen: Connection
) -> None:
    await publish()
    claim = (await _claims(frozen))[0]
    for column, edited, found in (
        ("partition", (claim["partition"] + 1) % 4, FindingType.RECORD_MISSING),
        ("topic", f"{claim['topic']}-other", FindingType.ORPHAN_RECORD),
        ("token", "0123456789abcdef", FindingType.ORPHAN_RECORD),
    ):
        edit = f"update ledger.claim set {column} = $2 where fence = $1"  # noqa: S608 - of the test
        await frozen.execute(edit, claim["fence"], edited)
        assert set((await reconciler.run_pass()).found) == {found}, column
        await frozen.execute(edit, claim["fence"], claim[column])
        assert (await reconciler.run_pass()).found == {}


@pytest.mark.parametrize("is_marked", [True, False])
async def test_g11_a_claim_that_was_published_or_started_and_never_sent_lacks_its_records(
    reconciler: Reconciler, publish: Publish, frozen: Connection, *, is_marked: bool
) -> None:
    await publish()
    [last] = await frozen.fetch(
        "select topic, partition, base_offset + size as after from ledger.claim"
        " order by fence desc limit 1"
    )
    await frozen.execute(
        "insert into ledger.claim (fence, claimed_at, allocator_no, topic, partition, size,"
        " item_no, effective_date, attempt, starts, deadline, closed_at, token, started,"
        " published_at, base_offset) select nextval('ledger.fence'), claimed_at, allocator_no,"
        " topic, partition, size, item_no, effective_date, attempt, starts, deadline, closed_at,"
        " token, started, case when $1 then published_at end,"
        " case when $1 then base_offset + size end from ledger.claim order by fence desc limit 1",
        is_marked,
    )

    assert (await reconciler.run_pass()).found == {FindingType.RECORD_MISSING: 1}
    [finding] = await _open(frozen, FindingType.RECORD_MISSING)
    assert finding["actual"]["missing_from"] == (last["after"] if is_marked else 0)
    assert reconciler.kafka
    assert reconciler.kafka.records.covers_since is None


async def test_what_retention_deleted_is_counted_and_no_finding(
    reconciler: Reconciler,
    publish: Publish,
    frozen: Connection,
    bootstrap_servers: str,
) -> None:
    await publish()
    await publish(prefix="later")
    ids = [
        row["id"].bytes
        for row in await frozen.fetch("select id from ledger.due_item order by item_no")
    ]
    assert reconciler.kafka
    records = reconciler.kafka.records
    assert (await reconciler.run_pass()).found == {}
    assert records.covers_since == ALWAYS
    claims = await _claims(frozen)
    first = claims[0]
    await _delete_before(
        bootstrap_servers, first["topic"], first["partition"], first["base_offset"] + first["size"]
    )

    for kafka in (reconciler.kafka, KafkaCheck(KafkaSettings(bootstrap_servers=bootstrap_servers))):
        reconciler.kafka = kafka
        result = await reconciler.run_pass()

        assert result.found == {}
        assert result.sources[-1].extract.skipped == {
            "claims of which Kafka has deleted the records": 1
        }
        assert kafka.records.covers_since == NOON
        states = [kafka.records.find(ids)[each].state for each in ids]
        assert states.count(SightingState.NOT_SEEN) == first["size"]
        assert states.count(SightingState.SEEN) == 2 * ITEMS - first["size"]


async def test_g11_findings_about_records_stay_open_when_retention_deletes_the_records(
    reconciler: Reconciler,
    publish: Publish,
    frozen: Connection,
    read_topic: ReadTopic,
    produce: Produce,
    bootstrap_servers: str,
) -> None:
    await publish()
    await publish(prefix="later")
    claim, other, *_ = await _claims(frozen)
    moved = "update ledger.claim set base_offset = base_offset + $2 where fence = $1"
    await frozen.execute(moved, claim["fence"], 1)
    records = await read_topic()
    await produce([next(each for each in records if each.partition == other["partition"])])
    both = {FindingType.RECORD_MISSING: 1, FindingType.ORPHAN_RECORD: 1}
    assert (await reconciler.run_pass()).found == both
    ends = {each.partition: each.offset + 1 for each in await read_topic()}
    for partition, end in ends.items():
        await _delete_before(bootstrap_servers, claim["topic"], partition, end)

    for kafka in (reconciler.kafka, KafkaCheck(KafkaSettings(bootstrap_servers=bootstrap_servers))):
        reconciler.kafka = kafka
        assert (await reconciler.run_pass()).found == {}
        for type_ in both:
            assert await resolutions(frozen, type_) == ["open"]
    report = await reconciler.report()
    assert report.statement.verdict is StatementVerdict.NOT_COMPLETE


async def test_claims_of_records_beyond_the_greatest_number_read_are_said_to_be_unread(
    reconciler: Reconciler, publish: Publish, frozen: Connection, bootstrap_servers: str
) -> None:
    await publish()
    await publish(prefix="later")
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers)
    reconciler.kafka = KafkaCheck(settings, records_max=1)

    result = await reconciler.run_pass()

    claims = await _claims(frozen)
    assert result.sources[-1].extract.skipped == {"claims of which no record was read": len(claims)}
    [row] = (await reconciler.report()).accounting
    assert not row.checks.kafka
    # Where all of a topic was read, none is said to be unread.
    reconciler.kafka = KafkaCheck(settings, records_max=2 * ITEMS)
    result = await reconciler.run_pass()
    assert result.sources[-1].extract.skipped == {}
    [row] = (await reconciler.report()).accounting
    assert row.checks.kafka


async def test_what_is_left_of_a_claim_is_compared_by_item(
    reconciler: Reconciler, publish: Publish, frozen: Connection, bootstrap_servers: str
) -> None:
    await publish()
    claim = max(await _claims(frozen), key=lambda row: row["size"])
    assert claim["size"] > 2
    await _delete_before(
        bootstrap_servers, claim["topic"], claim["partition"], claim["base_offset"] + 2
    )
    assert (await reconciler.run_pass()).found == {}
    await frozen.execute(
        "update ledger.claim set item_no[3] = item_no[4], item_no[4] = item_no[3] where fence = $1",
        claim["fence"],
    )

    found = (await reconciler.run_pass()).found

    assert found[FindingType.ORPHAN_RECORD] == 1


async def _delete_before(servers: str, topic: str, partition: int, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        place = TopicPartition(topic, partition)
        await admin.delete_records({place: RecordsToDelete(before_offset=offset)})
    finally:
        await admin.close()


async def test_a_mark_that_a_crash_lost_is_no_finding(
    reconciler: Reconciler,
    publish: Publish,
    frozen: Connection,
    read_topic: ReadTopic,
    produce: Produce,
) -> None:
    await publish()
    claim = (await _claims(frozen))[0]
    await frozen.execute(
        "update ledger.claim set base_offset = null, published_at = null where fence = $1",
        claim["fence"],
    )

    assert (await reconciler.run_pass()).found == {}

    await produce([(await read_topic())[0]])
    assert (await reconciler.run_pass()).found == {FindingType.ORPHAN_RECORD: 1}


@pytest.mark.damages
async def test_g11_a_record_of_which_the_item_was_removed_is_an_orphan_by_item(
    reconciler: Reconciler, publish: Publish, frozen: Connection
) -> None:
    await publish(complete=False)
    [item] = await frozen.fetch("select * from ledger.due_item order by item_no limit 1")
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute("delete from ledger.due_item where item_no = $1", item["item_no"])

    await reconciler.run_pass()

    [finding] = await _open(frozen, FindingType.ORPHAN_RECORD)
    assert finding["item_id"] == item["id"]
    assert finding["expected"]["item_no"] == item["item_no"]
    assert reconciler.kafka
    sighting = reconciler.kafka.records.find([item["id"].bytes])[item["id"].bytes]
    assert sighting.state is SightingState.SEEN
    assert sighting.place is not None
    assert sighting.place.offset == finding["actual"]["offset"]


async def test_g11_a_kafka_that_is_away_is_a_source_that_failed_and_concludes_nothing(
    reconciler: Reconciler,
    publish: Publish,
    frozen: Connection,
    read_topic: ReadTopic,
    produce: Produce,
) -> None:
    await publish()
    await produce([(await read_topic())[0]])
    here = reconciler.kafka
    assert (await reconciler.run_pass()).found == {FindingType.ORPHAN_RECORD: 1}
    reconciler.kafka = KafkaCheck(KafkaSettings(bootstrap_servers="127.0.0.1:1"))

    result = await reconciler.run_pass()

    assert result.found == {FindingType.SOURCE_FAILED: 1}
    assert result.published is None
    assert reconciler.kafka.records.covers_since is None
    assert await resolutions(frozen, FindingType.ORPHAN_RECORD) == ["open"]
    [row] = (await reconciler.report()).accounting
    assert not row.checks.kafka
    reconciler.kafka = here
    assert (await reconciler.run_pass()).found == {FindingType.ORPHAN_RECORD: 1}
    assert await resolutions(frozen, FindingType.SOURCE_FAILED) == ["explained"]


async def test_g11_the_watermark_of_kinds_with_rules_stops_at_the_oldest_unread_event(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    bootstrap_servers: str,
    kind: str,
    actor_no: int,
) -> None:
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=2)
    topic = f"events.{kind}"
    sent = NOON.replace(year=2026)  # the broker refuses times that are to come
    await make_missing_topics(settings, [topic])
    await define_rule(frozen, kind, actor_no)
    reconciler = make_reconciler()
    reconciler.kafka = KafkaCheck(settings, event_topic=topic, intake_group=f"intake-{kind}")

    async def watermark() -> tuple[datetime | None, str | None]:
        marks = (await reconciler.run_pass()).watermarks
        mark = next(((mark.complete_before, mark.blocked_by) for mark in marks), (None, None))
        sentence = (await reconciler.report()).statement.sentence
        assert sentence.startswith("Not complete") == (mark[1] is not None)
        assert mark[1] is None or mark[1] in sentence
        return mark

    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for minutes, partition in ((30, 0), (20, 0), (50, 1)):
            at = int((sent - minutes * MINUTE).timestamp() * 1000)
            await producer.send_and_wait(topic, b"{}", partition=partition, timestamp_ms=at)
    oldest = sent - 50 * MINUTE
    says = f"3 events are unread of {topic}, the oldest from 2026-03-01 11:10:00 UTC"
    assert await watermark() == (oldest, says)

    places = [TopicPartition(topic, number) for number in range(2)]
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id=f"intake-{kind}", enable_auto_commit=False
    ) as intake:
        intake.assign(places)
        await intake.commit({places[0]: 1, places[1]: 1})
        says = f"1 event is unread of {topic}, the oldest from 2026-03-01 11:40:00 UTC"
        assert await watermark() == (sent - 20 * MINUTE, says)

        await intake.commit({places[0]: 2})
        assert await watermark() == (None, None)  # nothing is owed of the kind, and all is known

        await intake.commit({places[0]: 0})
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    await admin.delete_records({places[0]: RecordsToDelete(before_offset=2)})
    await admin.close()
    assert await watermark() == (None, f"2 events of {topic} were deleted before they were read")

    reconciler.kafka = KafkaCheck(KafkaSettings(bootstrap_servers="127.0.0.1:1"))
    assert await watermark() == (None, "it is not known what is unread of domain-events")
