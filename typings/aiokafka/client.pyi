from asyncio import Future
from collections.abc import Collection, Sequence
from ssl import SSLContext
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.structs import TopicPartition

class _Cluster:
    def leader_for_partition(self, partition: TopicPartition) -> int | None: ...
    def partitions_for_topic(self, topic: str) -> set[int] | None: ...

class AIOKafkaClient:
    cluster: _Cluster
    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = ...,
        client_id: str = ...,
        request_timeout_ms: int = ...,
        security_protocol: str = ...,
        ssl_context: SSLContext | None = ...,
        sasl_mechanism: str = ...,
        sasl_plain_password: str | None = ...,
        sasl_plain_username: str | None = ...,
        sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
    ) -> None: ...
    async def bootstrap(self) -> None: ...
    async def fetch_all_metadata(self) -> _Cluster: ...
    async def close(self) -> None: ...
    def add_topic(self, topic: str) -> Future[bool]: ...
    def set_topics(self, topics: Collection[str]) -> Future[bool]: ...
    def force_metadata_update(self) -> Future[bool]: ...
    async def send(self, node_id: int, request: object, *, group: object = ...) -> Any: ...
