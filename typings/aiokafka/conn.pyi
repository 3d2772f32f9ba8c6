# The part of the connection of aiokafka 0.14 that ledger.kafka uses.

from asyncio import Future, StreamWriter
from collections.abc import Awaitable, Callable
from enum import IntEnum
from ssl import SSLContext
from typing import Any

from aiokafka.abc import AbstractTokenProvider

class CloseReason(IntEnum):
    CONNECTION_BROKEN = ...

class AIOKafkaConnection:
    _writer: StreamWriter | None
    send: Callable[..., Awaitable[Any]]
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def close(
        self, reason: CloseReason | None = ..., exc: BaseException | None = ...
    ) -> Future[None] | None: ...

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
