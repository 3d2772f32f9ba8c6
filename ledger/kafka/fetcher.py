"""Fetches the record batches of assigned partitions, a response ahead of their reader.

aiokafka's consumer makes an object of each record and has no call that returns batches. This asks
the brokers itself, through aiokafka's client. Each broker has one request out at a time, and each
partition at most one response that is not read yet.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

from aiokafka import TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    IllegalStateError,
    KafkaError,
    NoError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from dueledger.ledger.kafka.decompression import DECODED_BYTES_MAX
from dueledger.ledger.kafka.fetch_position import FetchPosition
from dueledger.ledger.kafka.partition_reader import PartitionReader
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.waiting import wait_for_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator

    from aiokafka import AIOKafkaClient, AIOKafkaConsumer

    from dueledger.ledger.kafka.record_batches import FetchedBatch

TOGETHER_BYTES_MAX: Final = DECODED_BYTES_MAX
"""Decompressed bytes that one call may return, not counting its last batch."""
REQUEST_SECONDS: Final = 10
RETRY_SECONDS: Final = 1.0
READ_SECONDS: Final = 0.1
"""A request waits at the broker, and a partition that is not in it waits too. So a broker is not
asked for a part of its partitions before the others had this time to be read, or to begin."""

_BYTES_MIN: Final = 1
_READ_COMMITTED: Final = 1
_NO_LEADER: Final = -1
_VERSION_WITHOUT_LOG_START: Final = 4

log = get_logger("kafka")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long a request may wait for records at the broker, and how much it may return."""

    wait_milliseconds: int = 500
    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024


@dataclass(slots=True, eq=False)
class _Partition:
    """One assignment of a partition. `position` is the offset after the last batch read."""

    position: int | None = None
    is_out_of_range: bool = False
    unread: PartitionReader | None = None
    waited_for_since: float = field(default_factory=monotonic)
    refused_by: int | None = None
    end: int | None = None
    answered_at: float | None = None


@final
class Fetcher:
    """Fetches the partitions that `member` was assigned. It owns `client`."""

    def __init__(
        self, client: AIOKafkaClient, member: AIOKafkaConsumer, limits: FetchLimits
    ) -> None:
        self._client = client
        self._member = member
        self._limits = limits
        self._partitions: dict[TopicPartition, _Partition] = {}
        """Those whose records arrived last are last, and are asked for last."""
        self._is_fetching = False
        self._is_closed = False
        self._running: dict[object, asyncio.Task[None]] = {}
        """Requests by broker, searches for a first position by partition, for leaders by None."""
        self._timer: asyncio.TimerHandle | None = None
        self._failing: set[int] = set()
        """Brokers whose last request failed: of successive failures the first is logged."""
        self._failure: BaseException | None = None
        """The next one to raise. Nothing is fetched before that."""
        self._has_arrived = asyncio.Event()

    async def start(self) -> None:
        """Connect. Raises KafkaError without a broker."""
        await self._client.bootstrap()

    async def aclose(self) -> None:
        """End the requests, then their connections: one may be about to be made."""
        self.revoke()
        self._is_closed = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.close()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these partitions, and no others, from the member's position on."""
        if self._is_closed:
            return
        self._partitions = {each: _Partition() for each in partitions}
        self._is_fetching = True
        if topics := {each.topic for each in self._partitions}:
            self._client.set_topics(topics)
        self._send_requests()

    def revoke(self) -> None:
        """Fetch nothing until partitions are assigned; drop what is not read yet."""
        self._is_fetching = False
        for partition in self._partitions.values():
            partition.unread = None

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Continue at this offset, if the partition is still assigned."""
        if (partition := self._partitions.get(place)) is None:
            return
        partition.position, partition.unread = offset, None
        partition.is_out_of_range = False
        self._send_requests()

    def positions(self) -> dict[TopicPartition, FetchPosition]:
        """Return the position in each partition of the last assignment."""
        return {
            place: FetchPosition(None, None, None)
            if each.answered_at is None
            else FetchPosition(each.position, each.end, each.answered_at)
            for place, each in self._partitions.items()
        }

    async def wait(self, seconds: float) -> None:
        """Wait for records or a failure, at most `seconds`."""
        self._has_arrived.clear()
        await wait_for_event(self._has_arrived, seconds)

    def read(
        self, *, records_max: int, without: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return fetched batches of all partitions but those `without`.

        Stops at `records_max` records or `TOGETHER_BYTES_MAX` decompressed bytes. The last batch
        may exceed both. Raises the failure of a request, or of reading, when nothing is unread;
        until then nothing else is fetched.
        """
        found: dict[TopicPartition, list[FetchedBatch]] = {}
        records = size_bytes = 0
        for place, batch in self._read_batches(without):
            found.setdefault(place, []).append(batch)
            records += batch.size
            size_bytes += len(batch.body)
            if records >= records_max or size_bytes >= TOGETHER_BYTES_MAX:
                break
        failure = None
        if not found:
            failure, self._failure = self._failure, None
        self._send_requests()
        if failure is None:
            return found
        if isinstance(failure, KafkaError):
            raise failure
        raise KafkaError(f"fetching failed: {failure!r}") from failure

    def _read_batches(
        self, without: Collection[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, FetchedBatch]]:
        for place, partition in self._partitions.items():
            while partition.unread is not None and place not in without:
                try:
                    batch = partition.unread.next()
                except CorruptRecordException as error:
                    partition.unread = None  # fetched again
                    self._failure = error
                    break
                partition.position = partition.unread.position
                if batch is None:
                    partition.unread = None
                else:
                    yield place, batch

    def _send_requests(self) -> None:
        """Ask each broker that can be asked now for its partitions that have nothing unread."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_fetching or self._failure is not None:
            return
        now, later = monotonic(), float("inf")
        for leader, (partitions, not_before) in self._plan_requests().items():
            if not_before > now:
                later = min(later, not_before)
            elif leader is None:
                self._run(leader, self._find_leaders)
            else:
                self._run(leader, self._fetch, leader, partitions)
        if later < float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(later - now, self._send_requests)

    def _plan_requests(self) -> dict[int | None, tuple[dict[TopicPartition, _Partition], float]]:
        """Return by broker what to ask it for, and the time before which not to; begin others."""
        wanted: defaultdict[int | None, dict[TopicPartition, _Partition]] = defaultdict(dict)
        not_before: defaultdict[int | None, float] = defaultdict(float)
        for place, partition in self._partitions.items():
            leader = self._leader(place, partition)
            if partition.position is not None and partition.unread is None:
                wanted[leader][place] = partition
                continue
            until = partition.waited_for_since + READ_SECONDS
            not_before[leader] = max(not_before[leader], until)
            if partition.position is None:
                self._run(place, self._begin, place, partition)
        return {leader: (wanted[leader], not_before[leader]) for leader in wanted}

    def _leader(self, place: TopicPartition, partition: _Partition) -> int | None:
        leader = self._client.cluster.leader_for_partition(place)
        return None if leader in {_NO_LEADER, partition.refused_by} else leader

    def _run(
        self, key: object, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object
    ) -> None:
        """Run a request in the background, unless one for `key` runs."""
        if key in self._running:
            return

        def end(task: asyncio.Task[None]) -> None:
            del self._running[key]
            if not task.cancelled() and (failure := task.exception()) is not None:
                self._fail(failure)
            self._send_requests()

        self._running[key] = asyncio.create_task(work(*arguments))
        self._running[key].add_done_callback(end)

    def _fail(self, failure: BaseException) -> None:
        self._failure = failure
        self._has_arrived.set()

    async def _begin(self, place: TopicPartition, partition: _Partition) -> None:
        """Ask the member where to begin: at the committed offset, or else at the first record."""
        try:
            if partition.is_out_of_range:
                await self._member.seek_to_beginning(place)
            position = await self._member.position(place)
        except IllegalStateError:  # not assigned any more, and soon revoked
            await asyncio.sleep(READ_SECONDS)
            return
        if partition.position is None:  # nobody sought meanwhile
            partition.position, partition.is_out_of_range = position, False

    async def _find_leaders(self) -> None:
        await asyncio.wait({self._client.force_metadata_update()}, timeout=REQUEST_SECONDS)
        if any(self._leader(*each) is None for each in self._partitions.items()):
            self._send_requests()  # those whose leaders are known
            await asyncio.sleep(RETRY_SECONDS)
        for partition in self._partitions.values():
            partition.refused_by = None

    async def _fetch(self, broker: int, partitions: dict[TopicPartition, _Partition]) -> None:
        asked = {
            place: (each, each.position)
            for place, each in partitions.items()
            if each.position is not None
        }
        try:
            response = await self._ask(broker, asked)
        except KafkaError as error:
            if broker not in self._failing:
                log.warning(LogEvent.FETCH_FAILED, broker=broker, error=type(error).__name__)
            self._failing.add(broker)
            self._run(None, self._find_leaders)
            await asyncio.sleep(RETRY_SECONDS)
            return
        self._failing.discard(broker)
        if not self._is_fetching:
            return
        for topic, answers in response.topics:
            for number, code, _, end, *others in answers:
                place = TopicPartition(topic, number)
                partition = self._partitions.get(place)
                if partition is None or asked.get(place) != (partition, partition.position):
                    continue  # assigned anew or sought meanwhile
                if (error := for_code(code)) is not NoError:
                    self._take_error(place, partition, broker, error)
                    continue
                partition.end, partition.answered_at = end, monotonic()
                aborted = others[0 if response.API_VERSION == _VERSION_WITHOUT_LOG_START else 1]
                if fetched := others[-1]:
                    partition.unread = PartitionReader(fetched, asked[place][1], aborted or ())
                    partition.waited_for_since = partition.answered_at
                    self._partitions[place] = self._partitions.pop(place)
                    self._has_arrived.set()

    async def _ask(self, broker: int, asked: dict[TopicPartition, tuple[_Partition, int]]) -> Any:  # noqa: ANN401 - aiokafka has a class for each version
        """Request the partitions from their positions on. Raises KafkaError."""
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for place, (_, position) in asked.items():
            part = (place.partition, position, self._limits.partition_bytes_max)
            topics.setdefault(place.topic, []).append(part)
        response = await self._client.send(
            broker,
            FetchRequest(
                self._limits.wait_milliseconds,
                _BYTES_MIN,
                self._limits.bytes_max,
                _READ_COMMITTED,
                list(topics.items()),
            ),
        )
        if not response.topics:
            raise for_code(response.error_code)
        return response

    def _take_error(
        self, place: TopicPartition, partition: _Partition, broker: int, error: type[KafkaError]
    ) -> None:
        if error is OffsetOutOfRangeError:
            partition.position, partition.is_out_of_range = None, True
            partition.waited_for_since = monotonic()
        elif error is TopicAuthorizationFailedError:
            self._fail(error(place.topic))
        else:  # mostly another broker leads it now
            partition.refused_by = broker
