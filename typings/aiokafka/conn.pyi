# The part of the connection of aiokafka 0.14 that ledger.kafka.broker_check uses.

from asyncio import Future
from collections.abc import Awaitable, Sequence
from ssl import SSLContext

from aiokafka.abc import AbstractTokenProvider
from aiokafka.protocol.metadata import MetadataRequest

class _MetadataResponse:
    brokers: Sequence[object]

class AIOKafkaConnection:
    def send(self, request: MetadataRequest) -> Awaitable[_MetadataResponse]: ...
    def close(self) -> Future[None] | None: ...

async def create_conn(
    host: str,
    port: int,
    *,
    client_id: str = ...,
    request_timeout_ms: int = ...,
    ssl_context: SSLContext | None = ...,
    security_protocol: str = ...,
    sasl_mechanism: str | None = ...,
    sasl_plain_username: str | None = ...,
    sasl_plain_password: str | None = ...,
    sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
) -> AIOKafkaConnection: ...
