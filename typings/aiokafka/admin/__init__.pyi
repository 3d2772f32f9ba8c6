from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any, TypeAlias

from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin.config_resource import ConfigResource
from aiokafka.structs import OffsetAndMetadata, TopicPartition

class NewTopic:
    name: str
    num_partitions: int
    replication_factor: int
    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = ...,
        topic_configs: Mapping[str, str] | None = ...,
    ) -> None: ...

class RecordsToDelete:
    def __init__(self, before_offset: int) -> None: ...

class _DescribeConfigsResponse:
    # (error code, message, type, name, entries: name, value, ...)
    resources: Sequence[tuple[int, str | None, int, str, Sequence[tuple[Any, ...]]]]

class _CreateTopicsResponse:
    # (topic, error code, error message)
    topic_errors: Sequence[tuple[str, int, str | None]]

class _DeleteTopicsResponse:
    topic_error_codes: Sequence[tuple[str, int]]

_Member: TypeAlias = tuple[str, str, str, bytes, bytes]  # id, client, host, metadata, assignment

class _DescribeGroupsResponse:
    # (error code, group, state, protocol type, protocol, members)
    groups: Sequence[tuple[int, str, str, str, str, Sequence[_Member]]]

class AIOKafkaAdminClient:
    def __init__(
        self,
        *,
        bootstrap_servers: str | list[str] = ...,
        client_id: str = ...,
        request_timeout_ms: int = ...,
        retry_backoff_ms: int = ...,
        metadata_max_age_ms: int = ...,
        security_protocol: str = ...,
        ssl_context: SSLContext | None = ...,
        sasl_mechanism: str = ...,
        sasl_plain_username: str | None = ...,
        sasl_plain_password: str | None = ...,
        sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
    ) -> None: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...
    async def create_topics(
        self, new_topics: list[NewTopic], timeout_ms: int | None = ..., validate_only: bool = ...
    ) -> _CreateTopicsResponse: ...
    async def delete_topics(
        self, topics: list[str], timeout_ms: int | None = ...
    ) -> _DeleteTopicsResponse: ...
    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete]
    ) -> dict[TopicPartition, int]: ...
    async def describe_configs(
        self, config_resources: list[ConfigResource], include_synonyms: bool = ...
    ) -> list[_DescribeConfigsResponse]: ...
    async def list_topics(self) -> list[str]: ...
    async def describe_topics(self, topics: list[str] | None = ...) -> list[dict[str, Any]]: ...
    async def describe_cluster(self) -> dict[str, Any]: ...
    async def list_consumer_group_offsets(
        self, group_id: str, group_coordinator_id: int | None = ...
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...
    async def describe_consumer_groups(
        self,
        group_ids: list[str],
        group_coordinator_id: int | None = ...,
        include_authorized_operations: bool = ...,
    ) -> list[_DescribeGroupsResponse]: ...
