"""Unreadable or hostile records are rejected; none of them stops a partition."""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from time import monotonic
from typing import Any, Literal

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import calc_crc32c

from dueledger.ledger.intake import EventIntakeSettings, open_intake
from dueledger.ledger.kafka import partition_reader
from dueledger.ledger.kafka.envelope import (
    REJECTED_CODE,
    REJECTED_COUNT,
    REJECTED_FIELD,
    REJECTED_ORIGIN,
    REJECTED_REASON,
)
from dueledger.ledger.kafka.partitioner import partition_of
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.store import Connection

from .conftest import POLLS_MAX, Message, Send, TakeAll, activated, message, renewal

SetRule = Callable[[Mapping[str, Any]], Awaitable[int]]
States = Callable[[], Awaitable[dict[str, str]]]
ReadRejected = Callable[[int], Awaitable[list[ConsumerRecord]]]


DATA = (b"INVALID_EVENT", b"data")


class RawName(str):
    """A header's name whose bytes are no UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002
        return b"\xff\xfe"


def structured(data: str) -> Message:
    """Return a record in structured mode whose `data` is this text."""
    event = activated("P-X")
    attributes = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time.isoformat(),
        "duetenant": event.tenant,
    }
    value = orjson.dumps(attributes)[:-1] + b',"data":' + data.encode() + b"}"
    return b"P-X", value, [("content-type", b"application/cloudevents+json")]


def binary(data: str, **headers: str) -> Message:
    key, _, attributes = message(activated("P-X"), **headers)
    return key, data.encode(), attributes


@pytest.mark.parametrize(
    ("poison", "why"),
    [
        pytest.param(structured("[" * 1000 + "]" * 1000), DATA, id="deeper than is written"),
        pytest.param(
            binary('{"policy":"P-X","term":"1","expires_on":"2027-03-01","rate":1e-20000}'),
            (b"INVALID_ITEM", b"value"),
            id="a number that jsonb refuses",
        ),
        pytest.param(binary("x" * 1_048_300), DATA, id="larger than a usual request"),
    ],
)
async def test_poison_is_rejected_and_its_partition_goes_on(
    poison: Message,
    why: tuple[bytes, bytes],
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    read_rejected: ReadRejected,
    settings: EventIntakeSettings,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await send([poison, message(activated("P-1"))])
    sums = await take_all(intake, 2)
    assert (sums["events"], sums["rejected"]) == (1, 1)
    assert await read_states() == {"P-1 2027-03-01": "open"}
    (rejected,) = await read_rejected(1)
    headers = dict(rejected.headers)
    assert (headers[REJECTED_CODE], headers.get(REJECTED_FIELD)) == why
    assert headers[REJECTED_ORIGIN].startswith(settings.event_topic.encode())


EXPLOSIVE_PATHS = (
    "data|" + "|".join(["[@,@]"] * 30),
    "data|" + "|".join(["[@,@][]"] * 20),
    "to_string(data|" + "|".join(["[@,@]"] * 29) + ")",
)


async def test_an_expression_that_explodes_rejects_its_events_and_no_others(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    read_rejected: ReadRejected,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    fields = [(field, path) for field in ("payload", "business_key") for path in EXPLOSIVE_PATHS]
    explosions: list[Message] = []
    for number, (field, path) in enumerate(fields):
        changed: dict[str, object] = {
            "event": f"Explosion{number}",
            "cancel_on": [],
            "supersede_on": [],
            field: path,
        }
        await set_rule(renewal(f"{kind}x{number}", **changed))
        explosions.append(message(activated(f"P-{number + 2}"), ce_type=f"Explosion{number}"))
    await send([*explosions, message(activated("P-1"))])
    sums = await take_all(intake, len(explosions) + 1)
    assert (sums["events"], sums["rejected"]) == (1, len(explosions))
    assert await read_states() == {"P-1 2027-03-01": "open"}
    rejected = await read_rejected(len(explosions))
    assert {dict(each.headers)[REJECTED_CODE] for each in rejected} == {b"INVALID_EVENT"}


async def test_poison_too_large_for_the_reject_topic_leaves_its_reason_there(
    settings: EventIntakeSettings, send: Send, take_all: TakeAll, kind: str
) -> None:
    topic = f"small-{kind}"
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    limit = {"max.message.bytes": "20000"}
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs=limit)])
    await admin.close()
    await send(
        [
            binary("x" * 20_000, trace="1"),
            binary("{", trace="2" * 20_000),
            binary("x" * 5_000_000, trace="3"),
            binary("{", trace="4"),
        ]
    )
    changed = settings.model_copy(update={"rejected_topic": topic})
    async with (
        open_intake(changed) as intake,
        AIOKafkaConsumer(
            topic, bootstrap_servers=settings.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
    ):
        assert (await take_all(intake, 4))["rejected"] == 4
        records = [await consumer.getone() for _ in range(4)]
    offsets = {
        dict(record.headers)[REJECTED_ORIGIN].rsplit(b"/", 1)[1]: (
            record.value,
            dict(record.headers).get("trace"),
        )
        for record in records
    }
    assert offsets == {b"0": (b"", b"1"), b"1": (b"", None), b"2": (b"", b"3"), b"3": (b"{", b"4")}


async def test_a_record_without_key_and_value_is_rejected(
    intake: TopicIntake,
    take_all: TakeAll,
    read_rejected: ReadRejected,
    settings: EventIntakeSettings,
) -> None:
    await _write(settings, 0, ("trace", b"1"))
    sums = await take_all(intake, 1)
    assert sums["rejected"] == 1
    (rejected,) = await read_rejected(1)
    assert (rejected.key, rejected.value, dict(rejected.headers)["trace"]) == (None, b"", b"1")


async def test_a_header_whose_name_is_no_text_is_rejected_and_its_partition_goes_on(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    read_rejected: ReadRejected,
    settings: EventIntakeSettings,
) -> None:
    await send([message(activated(f"P-{number:02}")) for number in range(20)])
    for partition in range(settings.topic_partitions):
        await _write(settings, partition, (RawName("x"), b"1"))
    await send([message(activated(f"P-{number:02}")) for number in range(20, 40)])
    poison = settings.topic_partitions
    sums = await take_all(intake, 40 + poison)
    assert (sums["events"], sums["rejected"]) == (40, poison)
    for record in await read_rejected(poison):
        headers = dict(record.headers)
        assert headers[r"\xff\xfe"] == b"1"
        assert headers[REJECTED_CODE] == b"INVALID_HEADER"
        assert b"not UTF-8" in headers[REJECTED_REASON]


async def test_a_record_batch_larger_than_a_transaction_is_taken_in_by_several(
    intake: TopicIntake, take_all: TakeAll, settings: EventIntakeSettings, connection: Connection
) -> None:
    count = 3 * settings.intake_batch_events + 7
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, max_batch_size=1 << 20
    ) as producer:
        batch = producer.create_batch()
        for number in range(count):
            key, value, headers = message(activated(f"P-{number:03}"))
            assert batch.append(timestamp=None, key=key, value=value, headers=headers)
        batch.close()
        await (await producer.send_batch(batch, settings.event_topic, partition=0))
    sums = await take_all(intake, count)
    assert (sums["events"], sums["duplicates"]) == (count, 0)
    rows = await connection.fetch("select xmin::text, count(*) from ledger.event group by 1")
    assert sorted(row["count"] for row in rows) == [7, *[settings.intake_batch_events] * 3]


@pytest.mark.parametrize(
    ("copies", "seconds_max"), [(12_000, None), pytest.param(250_000, 10, marks=pytest.mark.full)]
)
async def test_a_batch_of_endless_copies_is_rejected_in_slices_and_holds_nothing_up(
    take_all: TakeAll,
    read_rejected: ReadRejected,
    settings: EventIntakeSettings,
    connection: Connection,
    copies: int,
    seconds_max: float | None,
) -> None:
    """A batch of 205 kB may have 250,000 of them."""
    slice_records = 2000
    changed = settings.model_copy(update={"intake_batch_events": slice_records})
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        compression_type="zstd",
        max_batch_size=4 << 20,
    ) as producer:

        async def send_event(policy: str, partition: int) -> None:
            key, value, headers = message(activated(policy))
            await producer.send_and_wait(
                settings.event_topic, value, key, partition=partition, headers=headers
            )

        # Both partitions have offsets committed, so that an intake's first fetch asks for both.
        await send_event("P-earlier", 1)
        async with open_intake(changed) as earlier:
            assert (await take_all(earlier, 1))["events"] == 1
        batch = producer.create_batch()
        for _ in range(copies):
            assert batch.append(timestamp=None, key=None, value=None, headers=[])
        batch.close()
        await (await producer.send_batch(batch, settings.event_topic, partition=0))
        await send_event("P-behind", 0)
        began = monotonic()
        async with open_intake(changed) as first:
            assert (await take_all(first, 1))["rejected"] == slice_records
        await send_event("P-beside", 1)
        async with open_intake(changed) as intake:
            rejected = slice_records + await _tick_until(intake, connection, 2)
            assert rejected < copies
            group = await _read_group(settings)
            rejected += await _tick_until(intake, connection, 3)
            seconds = monotonic() - began
            assert await _read_group(settings) == group  # a member that returns has another id
    assert rejected == copies
    assert seconds_max is None or seconds <= seconds_max
    written = await _count_written(settings)
    reported = [
        int(dict(record.headers).get(REJECTED_COUNT, b"1"))
        for record in await read_rejected(written)
    ]
    assert sum(reported) == copies
    assert written <= copies / 100  # one for those of each slice


async def test_of_successive_copies_one_is_rejected_with_their_number(
    intake: TopicIntake, send: Send, take_all: TakeAll, read_rejected: ReadRejected
) -> None:
    same, other = binary("{", trace="1"), binary("{", trace="2")
    await send([same, same, other, same, same, same])
    assert (await take_all(intake, 6))["rejected"] == 6
    written = [
        (headers["trace"], headers.get(REJECTED_COUNT), headers[REJECTED_ORIGIN][-1:])
        for headers in [dict(record.headers) for record in await read_rejected(3)]
    ]
    assert written == [(b"1", b"2", b"0"), (b"2", None, b"2"), (b"1", b"3", b"3")]


async def test_a_batch_that_arrives_damaged_loses_nothing_of_other_partitions(
    intake: TopicIntake,
    send: Send,
    read_states: States,
    set_rule: SetRule,
    settings: EventIntakeSettings,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It delays its own partition: it is not readable before it has arrived completely."""

    def wrong_for_some(checked: memoryview) -> int:
        return 0 if b"damaged" in bytes(checked) else calc_crc32c(checked)

    monkeypatch.setattr(partition_reader, "calc_crc32c", wrong_for_some)
    await set_rule(renewal(kind))
    policies = [f"P-{number:02}" for number in range(40)]
    await send([message(activated(policy)) for policy in policies])
    await _write(settings, 1, ("damaged", b"1"))
    # Records before it in its partition arrive or not, depending on the client's fetches.
    elsewhere = {
        f"{policy} 2027-03-01"
        for policy in policies
        if partition_of(policy.encode(), settings.topic_partitions) != 1
    }
    assert 0 < len(elsewhere) < len(policies)
    raised = False
    for _ in range(POLLS_MAX):
        try:
            await intake.tick()
        except CorruptRecordException:
            raised = True
        if raised and elsewhere <= (await read_states()).keys():
            return
    pytest.fail(f"only these came: {await read_states()}")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_events_are_taken_in(
    compression: Literal["gzip", "snappy", "lz4", "zstd"],
    intake: TopicIntake,
    take_all: TakeAll,
    settings: EventIntakeSettings,
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, compression_type=compression
    ) as producer:
        key, value, headers = message(activated("P-1" * 100))
        await producer.send_and_wait(settings.event_topic, value, key, headers=headers)
    assert (await take_all(intake, 1))["events"] == 1


async def test_what_an_emitters_transaction_took_back_is_not_owed(
    intake: TopicIntake,
    take_all: TakeAll,
    set_rule: SetRule,
    read_states: States,
    settings: EventIntakeSettings,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, transactional_id=kind
    ) as producer:
        for policy, settle in (
            ("P-1", producer.abort_transaction),
            ("P-2", producer.commit_transaction),
        ):
            await producer.begin_transaction()
            key, value, headers = message(activated(policy))
            await producer.send_and_wait(
                settings.event_topic, value, key, partition=0, headers=headers
            )
            await settle()
    assert (await take_all(intake, 1))["events"] == 1
    assert await read_states() == {"P-2 2027-03-01": "open"}


async def test_an_idle_tick_returns_the_same_counts(
    intake: TopicIntake, send: Send, take_all: TakeAll
) -> None:
    idle = await intake.tick()
    await send([message(activated("P-1"))])
    assert idle == dict.fromkeys(await take_all(intake, 1), 0)


async def _tick_until(intake: TopicIntake, connection: Connection, events: int) -> int:
    """Tick until this many events are recorded; return how many records were rejected."""
    rejected = 0
    for _ in range(POLLS_MAX):
        rejected += (await intake.tick())["rejected"]
        if await connection.fetchval("select count(*) from ledger.event") == events:
            return rejected
    pytest.fail(f"{events} events never came")


async def _read_group(settings: EventIntakeSettings) -> object:
    """Return the state of the group at the broker, its members' ids and their partitions."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    (answer,) = await admin.describe_consumer_groups([settings.intake_group])
    await admin.close()
    ((_, _, state, _, _, members),) = answer.groups
    return state, [(member_id, assigned) for member_id, *_, assigned in members]


async def _count_written(settings: EventIntakeSettings) -> int:
    """Return how many records the reject topic has."""
    async with AIOKafkaConsumer(
        settings.rejected_topic, bootstrap_servers=settings.bootstrap_servers
    ) as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
    return sum(ends.values())


async def _write(settings: EventIntakeSettings, partition: int, header: tuple[str, bytes]) -> None:
    """Write a record without key and value, as other clients may."""
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        batch = producer.create_batch()
        if isinstance(header[0], RawName):
            # The compiled builder accepts none but names that can be encoded.
            written: Any = import_module("aiokafka.record.default_records")
            builder = written._DefaultRecordBatchBuilderPy(2, 0, False, -1, -1, -1, 16_384)  # noqa: FBT003 - positional by aiokafka
            setattr(batch, "_builder", builder)  # noqa: B010 - not in the stubs
        batch.append(timestamp=None, key=None, value=None, headers=[header])
        batch.close()
        await (await producer.send_batch(batch, settings.event_topic, partition=partition))
