"""Records are fetched in batches, without those of aborted transactions and unreadable ones.

Each call of aiokafka that the fetcher needs meets a real broker here.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.protocol.fetch import FetchRequest
from structlog.testing import capture_logs

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import fetcher
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.client_arguments import client_arguments, member_arguments
from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX
from dueledger.ledger.kafka.record_batches import FetchedBatch, KafkaRecord, RecordReader
from dueledger.ledger.kafka.topic_reader import started
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.log import LogEvent

pytestmark = pytest.mark.long

POLLS_MAX = 300
Send = Callable[[AIOKafkaClient, int, object], Awaitable[Any]]


@pytest.fixture
async def place(kind: str, bootstrap_servers: str) -> TopicPartition:
    topic = f"due.{kind}"
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=1)
    await make_missing_topics(settings, [topic])
    return TopicPartition(topic, 0)


def new_member(topic: str, servers: str) -> BatchConsumer:
    """Return a member of the topic's own group."""
    consumer = BatchConsumer(
        client_arguments(KafkaSettings(bootstrap_servers=servers)),
        member_arguments(f"group-{topic}", session_seconds=10),
        client_id="test",
    )
    consumer.subscribe([topic])
    return consumer


@pytest.fixture
async def consumer(place: TopicPartition, bootstrap_servers: str) -> AsyncGenerator[BatchConsumer]:
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        yield consumer


async def take(consumer: BatchConsumer, end: int, *, records_max: int = 1000) -> list[FetchedBatch]:
    """Take batches until the position has come to `end`."""
    found: list[FetchedBatch] = []
    for _ in range(POLLS_MAX):
        fetched = await consumer.getbatches(timeout_ms=200, records_max=records_max)
        found += [batch for batches in fetched.values() for batch in batches]
        positions = [each.position for each in consumer.positions().values()]
        if positions and all(each is not None and each >= end for each in positions):
            return found
    pytest.fail(f"the position did not come to {end}: {consumer.positions()}")


async def take_some(
    consumer: BatchConsumer, *, without: Collection[TopicPartition] = ()
) -> list[FetchedBatch]:
    for _ in range(POLLS_MAX):
        if found := await consumer.getbatches(timeout_ms=200, records_max=1000, without=without):
            return [batch for batches in found.values() for batch in batches]
    pytest.fail("no batch came")


def records_of(batches: list[FetchedBatch]) -> list[KafkaRecord]:
    found: list[KafkaRecord] = []
    for batch in batches:
        reader = RecordReader(batch)
        while (record := reader.next()) is not None:
            found.append(record)
    return found


async def send(producer: AIOKafkaProducer, place: TopicPartition, *values: bytes) -> None:
    """Send values as one batch."""
    batch = producer.create_batch()
    for value in values:
        batch.append(timestamp=None, key=None, value=value, headers=[])
    batch.close()
    await (await producer.send_batch(batch, place.topic, partition=place.partition))


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_batches_come_whole_however_they_are_compressed(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None,
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type=compression
    ) as producer:
        for number in range(3):
            await send(producer, place, *(b"%d.%d" % (number, each) * 50 for each in range(20)))
    batches = await take(consumer, 60)
    assert [(batch.base_offset, batch.next_offset, batch.size) for batch in batches] == [
        (0, 20, 20), (20, 40, 20), (40, 60, 20),
    ]  # fmt: skip
    found = records_of(batches)
    assert [record.offset for record in found] == list(range(60))
    assert [record.value for record in found] == [
        b"%d.%d" % (number, each) * 50 for number in range(3) for each in range(20)
    ]


async def test_what_a_transaction_took_back_is_never_seen_and_holds_nothing_up(
    consumer: BatchConsumer, place: TopicPartition, kind: str, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id=kind
    ) as producer:
        for number, is_kept in enumerate([True, False, True, False]):
            await producer.begin_transaction()
            await send(producer, place, b"%d" % number)
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    found = records_of(await take(consumer, 8))
    assert [(record.offset, record.value) for record in found] == [(0, b"0"), (4, b"2")]


async def test_a_position_within_a_batch_is_where_its_records_begin(
    consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, *(b"%d" % number for number in range(10)))
    await take(consumer, 10)
    consumer.seek(place, 7)
    [batch] = await take(consumer, 10)
    assert batch.size == 3
    assert [record.value for record in records_of([batch])] == [b"7", b"8", b"9"]


async def test_batches_are_taken_until_their_records_are_enough(
    consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(30):
            await send(producer, place, *(b"%d" % number for number in range(10)))
    taken: list[int] = []
    while sum(taken) < 300:
        fetched = await consumer.getbatches(timeout_ms=200, records_max=25)
        taken += [sum(batch.size for batch in batches) for batches in fetched.values()]
    assert max(taken) == 30
    assert sum(taken) == 300


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_what_decompresses_to_too_much_is_never_had_whole_and_holds_nothing_up(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    compression: Literal["gzip", "snappy", "lz4", "zstd"],
) -> None:
    bombs = 2
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=compression,
        max_batch_size=2 * DECODED_BYTES_MAX,
        max_request_size=2 * DECODED_BYTES_MAX,
    ) as producer:
        for _ in range(bombs):
            await send(producer, place, bytes(DECODED_BYTES_MAX + 1))
        await send(producer, place, b"innocent")
    batches = await take(consumer, bombs + 1)
    assert [batch.base_offset for batch in batches] == list(range(bombs + 1))
    assert max(len(batch.body) for batch in batches) < DECODED_BYTES_MAX / 8
    *unreadable, innocent = records_of(batches)
    for record in unreadable:
        assert record.read_best_effort().headers == []
        with pytest.raises(InvalidHeader):
            record.read_all()
    assert innocent.value == b"innocent"


async def test_batches_are_taken_until_their_bytes_are_enough_and_none_is_lost(
    consumer: BatchConsumer,
    place: TopicPartition,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value, together = bytes(10_000), 35_000
    monkeypatch.setattr(fetcher, "TOGETHER_BYTES_MAX", together)
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type="zstd"
    ) as producer:
        for _ in range(30):
            await send(producer, place, value)
    sizes: list[int] = []
    offsets: list[int] = []
    while len(offsets) < 30:
        fetched = await consumer.getbatches(timeout_ms=200, records_max=1000)
        for batches in fetched.values():
            sizes.append(sum(len(batch.body) for batch in batches))
            offsets += [batch.base_offset for batch in batches]
    assert offsets == list(range(30))
    assert together <= max(sizes) < together + 2 * len(value)


async def test_a_position_beyond_the_log_begins_anew(
    consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one", b"two")
    await take(consumer, 2)
    consumer.seek(place, 1_000)
    again = records_of(await take_some(consumer))
    assert [record.offset for record in again] == [0, 1]


async def test_a_partition_left_out_waits_while_others_are_read(
    kind: str, bootstrap_servers: str
) -> None:
    topic = f"due.{kind}"
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=2)
    await make_missing_topics(settings, [topic])
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = new_member(topic, bootstrap_servers)
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer,
        started(consumer),
    ):
        for number in range(3):
            await send(producer, first, b"left out")
            await send(producer, second, b"%d" % number)
            found = await take_some(consumer, without={first})
            assert [record.value for record in records_of(found)] == [b"%d" % number]
        left_out = await take_some(consumer, without={second})
    assert left_out[0].base_offset == 0


class Sent:
    """Every request of every Kafka client of the test goes through `answer`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetching: set[AIOKafkaClient] = set()
        self.answer: Send = AIOKafkaClient.send
        self.send: Send = AIOKafkaClient.send

        async def send_request(
            client: AIOKafkaClient, node: int, request: object, **more: object
        ) -> Any:  # noqa: ANN401 - as aiokafka's
            if not isinstance(request, FetchRequest):
                return await unchanged(client, node, request, **more)
            self.fetching.add(client)
            return await self.answer(client, node, request)

        unchanged: Any = self.send
        monkeypatch.setattr(AIOKafkaClient, "send", send_request)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


async def test_only_the_fetcher_fetches(
    sent: Sent, consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    """Not the member, which would fetch every record a second time."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one")
        await take(consumer, 1)
        consumer.seek(place, 9)  # and not after it has asked for the first offset
        await take(consumer, 1)
    assert len(sent.fetching) == 1


def refused_once(sent: Sent, code: int) -> Send:
    """Let the broker refuse the partitions of the first request."""

    async def refuse(client: AIOKafkaClient, node: int, request: object) -> Any:  # noqa: ANN401 - as aiokafka's
        sent.answer = sent.send
        response = await sent.send(client, node, request)
        response.topics = [
            (topic, [(number, code, -1, -1, *others) for number, _, _, _, *others in answers])
            for topic, answers in response.topics
        ]
        return response

    return refuse


# Unknown topic, leader not available, not the leader, fenced leader epoch.
@pytest.mark.parametrize("code", [3, 5, 6, 74])
async def test_a_broker_that_leads_a_partition_no_more_is_asked_again_later(
    sent: Sent,
    place: TopicPartition,
    bootstrap_servers: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetcher, "RETRY_SECONDS", 0.05)
    sent.answer = refused_once(sent, code)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one")
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        assert [record.value for record in records_of(await take(consumer, 1))] == [b"one"]
    assert sent.answer == sent.send


async def test_a_topic_that_may_not_be_read_is_an_error_each_time(
    sent: Sent, place: TopicPartition, bootstrap_servers: str
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one")
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        for _ in range(2):
            sent.answer = refused_once(sent, 29)
            with pytest.raises(TopicAuthorizationFailedError):
                await take(consumer, 1)
            consumer.seek(place, 0)
        assert [record.value for record in records_of(await take(consumer, 1))] == [b"one"]


@pytest.mark.parametrize("failure", [KeyError("unexpected"), KafkaError("lost")])
async def test_a_request_that_fails_is_repeated(
    sent: Sent,
    place: TopicPartition,
    bootstrap_servers: str,
    failure: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error that Kafka's client does not know is raised once, and ends nothing."""
    monkeypatch.setattr(fetcher, "RETRY_SECONDS", 0.05)

    async def fail(client: AIOKafkaClient, node: int, request: object) -> Any:  # noqa: ANN401 - as aiokafka's
        del client, node, request
        sent.answer = sent.send
        raise failure

    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one")
    sent.answer = fail
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        if not isinstance(failure, KafkaError):
            with pytest.raises(KafkaError, match="unexpected"):
                await take(consumer, 1)
        assert [record.value for record in records_of(await take(consumer, 1))] == [b"one"]


async def test_a_response_from_before_a_rebalance_or_a_seek_is_dropped(
    sent: Sent, consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    answered, released = asyncio.Event(), asyncio.Event()

    async def hold(client: AIOKafkaClient, node: int, request: object) -> Any:  # noqa: ANN401 - as aiokafka's
        response = await sent.send(client, node, request)
        answered.set()
        await released.wait()
        return response

    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, *(b"%d" % number for number in range(5)))
        await take(consumer, 5)
        for change in ("rebalance", "seek"):
            sent.answer = hold
            answered.clear()
            released.clear()
            await send(producer, place, b"held")
            await answered.wait()  # at first that of a request without records
            if change == "seek":
                consumer.seek(place, 2)
            else:
                consumer.subscribe([place.topic])
                await consumer.getbatches(timeout_ms=0, records_max=1)  # joins again
                assert consumer.positions()[place].position is None
            sent.answer = sent.send
            released.set()
            expected = 2 if change == "seek" else 0  # nothing is committed
            offsets = [record.offset for record in records_of(await take(consumer, 6))]
            assert offsets == list(range(expected, offsets[-1] + 1))


async def test_a_response_to_a_request_from_before_a_revocation_is_dropped_at_once(
    sent: Sent, consumer: BatchConsumer, place: TopicPartition, bootstrap_servers: str
) -> None:
    passed, answered, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(client: AIOKafkaClient, node: int, request: object) -> Any:  # noqa: ANN401 - as aiokafka's
        response = await sent.send(client, node, request)
        passed.set()
        if response.topics[0][1][0][-1]:  # it has records
            answered.set()
            await released.wait()
        return response

    sent.answer = hold
    await passed.wait()  # no earlier request is out
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await send(producer, place, b"one")
    await answered.wait()
    inside: Any = consumer
    requests = list(inside._fetcher._running.values())
    inside._fetcher.revoke()  # and nothing is assigned yet
    released.set()
    await asyncio.wait(requests)
    assert await consumer.getbatches(timeout_ms=0, records_max=10) == {}


async def test_of_successive_requests_that_fail_the_first_is_logged(
    sent: Sent, consumer: BatchConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "RETRY_SECONDS", 0.01)
    failures_left, recovered = 0, asyncio.Event()

    async def fail(client: AIOKafkaClient, node: int, request: object) -> Any:  # noqa: ANN401 - as aiokafka's
        nonlocal failures_left
        if failures_left > 0:
            failures_left -= 1
            raise KafkaError("lost")
        response = await sent.send(client, node, request)
        if not failures_left:
            recovered.set()
        return response

    sent.answer = fail
    for _ in range(2):
        await recovered.wait()
        recovered.clear()
        failures_left = 3
        with capture_logs() as logged:
            await recovered.wait()
        assert [line["event"] for line in logged] == [LogEvent.FETCH_FAILED]
    assert consumer.assignment()


async def test_partitions_move_to_a_second_member_and_each_record_is_read(
    kind: str, bootstrap_servers: str
) -> None:
    topic = f"due.{kind}"
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers, topic_partitions=4)
    await make_missing_topics(settings, [topic])
    places = [TopicPartition(topic, number) for number in range(4)]
    first, second = (new_member(topic, bootstrap_servers) for _ in range(2))
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer,
        started(first),
    ):
        await take(first, 0)
        polling = asyncio.create_task(take(first, 1))  # its requests are out, and wait
        async with started(second):
            for place in places:
                await send(producer, place, b"one")
            found = [*await polling, *await take(second, 1)]
            assert len(first.assignment()) == len(second.assignment()) == 2
            assert first.positions().keys() | second.positions().keys() == set(places)
    assert len(found) == 4


async def test_a_stop_leaves_neither_a_request_nor_a_connection(
    place: TopicPartition, bootstrap_servers: str
) -> None:
    before = asyncio.all_tasks()
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        await take(consumer, 0)  # the next request waits at the broker
        assert asyncio.all_tasks() > before
    assert asyncio.all_tasks() == before


async def test_a_stop_ends_a_connection_that_is_being_made(
    place: TopicPartition, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
    written: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the request for the broker's versions, and never answer."""
        await reader.readexactly(1)
        written.append(writer)
        await reached.put(reader)

    silent = await asyncio.start_server(accept, "127.0.0.1")
    [(_, port)] = [each.getsockname() for each in silent.sockets]
    monkeypatch.setattr(fetcher, "RETRY_SECONDS", 0)
    before = asyncio.all_tasks()
    consumer = new_member(place.topic, bootstrap_servers)
    async with started(consumer):
        await take(consumer, 0)
        inside: Any = consumer
        client = inside._fetcher._client
        [broker] = client.cluster.brokers()
        moved = broker._replace(host="127.0.0.1", port=port)
        monkeypatch.setattr(client.cluster, "broker_metadata", {broker.nodeId: moved}.get)
        for connection in client._conns.values():
            connection.close()
        reader = await reached.get()
    await reader.read()  # until its end
    for writer in written:
        writer.close()
    silent.close()
    await silent.wait_closed()
    assert asyncio.all_tasks() == before
