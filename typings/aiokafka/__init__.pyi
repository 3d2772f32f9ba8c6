# The part of aiokafka 0.14 that Dueledger calls: keys and values are bytes, no serializers.

from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from ssl import SSLContext
from typing import Literal, Self

from aiokafka.abc import AbstractTokenProvider
from aiokafka.abc import ConsumerRebalanceListener as ConsumerRebalanceListener
from aiokafka.client import AIOKafkaClient as AIOKafkaClient
from aiokafka.errors import ConsumerStoppedError as ConsumerStoppedError
from aiokafka.errors import IllegalOperation as IllegalOperation
from aiokafka.producer.message_accumulator import BatchBuilder, SendableBatch
from aiokafka.structs import ConsumerRecord as ConsumerRecord
from aiokafka.structs import OffsetAndMetadata as OffsetAndMetadata
from aiokafka.structs import OffsetAndTimestamp as OffsetAndTimestamp
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as TopicPartition

class AIOKafkaProducer:
    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = ...,
        client_id: str | None = ...,
        metadata_max_age_ms: int = ...,
        request_timeout_ms: int = ...,
        acks: Literal[0, 1, "all"] = ...,
        compression_type: Literal["gzip", "snappy", "lz4", "zstd"] | None = ...,
        max_batch_size: int = ...,
        max_request_size: int = ...,
        linger_ms: int = ...,
        retry_backoff_ms: int = ...,
        security_protocol: str = ...,
        ssl_context: SSLContext | None = ...,
        connections_max_idle_ms: int = ...,
        enable_idempotence: bool = ...,
        sasl_mechanism: str = ...,
        sasl_plain_password: str | None = ...,
        sasl_plain_username: str | None = ...,
        sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
        transactional_id: str | None = ...,
    ) -> None: ...
    async def start(self) -> None: ...
    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...
    async def flush(self) -> None: ...
    async def stop(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def partitions_for(self, topic: str) -> set[int]: ...
    async def send(
        self,
        topic: str,
        value: bytes | None = ...,
        key: bytes | None = ...,
        partition: int | None = ...,
        timestamp_ms: int | None = ...,
        headers: Sequence[tuple[str, bytes]] | None = ...,
    ) -> Future[RecordMetadata]: ...
    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = ...,
        key: bytes | None = ...,
        partition: int | None = ...,
        timestamp_ms: int | None = ...,
        headers: Sequence[tuple[str, bytes]] | None = ...,
    ) -> RecordMetadata: ...
    def create_batch(self) -> BatchBuilder: ...
    async def send_batch(
        self, batch: SendableBatch, topic: str, *, partition: int
    ) -> Future[RecordMetadata]: ...

class AIOKafkaConsumer:
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] = ...,
        client_id: str = ...,
        group_id: str | None = ...,
        group_instance_id: str | None = ...,
        fetch_max_wait_ms: int = ...,
        fetch_max_bytes: int = ...,
        fetch_min_bytes: int = ...,
        max_partition_fetch_bytes: int = ...,
        request_timeout_ms: int = ...,
        retry_backoff_ms: int = ...,
        auto_offset_reset: Literal["earliest", "latest", "none"] = ...,
        enable_auto_commit: bool = ...,
        check_crcs: bool = ...,
        metadata_max_age_ms: int = ...,
        partition_assignment_strategy: Sequence[type[object]] = ...,
        max_poll_interval_ms: int = ...,
        rebalance_timeout_ms: int | None = ...,
        session_timeout_ms: int = ...,
        heartbeat_interval_ms: int = ...,
        consumer_timeout_ms: int = ...,
        max_poll_records: int | None = ...,
        ssl_context: SSLContext | None = ...,
        security_protocol: str = ...,
        exclude_internal_topics: bool = ...,
        connections_max_idle_ms: int = ...,
        isolation_level: Literal["read_uncommitted", "read_committed"] = ...,
        sasl_mechanism: str = ...,
        sasl_plain_password: str | None = ...,
        sasl_plain_username: str | None = ...,
        sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
    ) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> ConsumerRecord: ...
    def assign(self, partitions: Iterable[TopicPartition]) -> None: ...
    def assignment(self) -> frozenset[TopicPartition]: ...
    def subscribe(
        self,
        topics: Sequence[str] = ...,
        pattern: str | None = ...,
        listener: ConsumerRebalanceListener | None = ...,
    ) -> None: ...
    def subscription(self) -> frozenset[str]: ...
    def unsubscribe(self) -> None: ...
    async def topics(self) -> set[str]: ...
    def partitions_for_topic(self, topic: str) -> set[int] | None: ...
    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata] | None = ...,
    ) -> None: ...
    async def committed(self, partition: TopicPartition) -> int | None: ...
    async def position(self, partition: TopicPartition) -> int: ...
    def highwater(self, partition: TopicPartition) -> int | None: ...
    def last_stable_offset(self, partition: TopicPartition) -> int | None: ...
    def last_poll_timestamp(self, partition: TopicPartition) -> int | None: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool: ...
    async def seek_to_end(self, *partitions: TopicPartition) -> bool: ...
    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]: ...
    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]: ...
    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]: ...
    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]: ...
    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord: ...
    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = ..., max_records: int | None = ...
    ) -> dict[TopicPartition, list[ConsumerRecord]]: ...
    def pause(self, *partitions: TopicPartition) -> None: ...
    def paused(self) -> set[TopicPartition]: ...
    def resume(self, *partitions: TopicPartition) -> None: ...
