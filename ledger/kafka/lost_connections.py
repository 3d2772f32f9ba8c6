"""Makes aiokafka 0.14 notice that a connection was lost, and close one that nobody will use.

A write to a connection that has just been lost is a KafkaError, on uvloop too. aiokafka expects an
OSError; uvloop raises RuntimeError between the loss and the end of the connection's reader. The
task that wrote would end: the heartbeats, the fetches or the sends of its client. A consumer
without heartbeats raises the same error at each poll, for ever.

A client that is cancelled while it asks for its first metadata closes the connection that it asks
on: aiokafka leaves it open, with a task that reads from it.
"""

# ruff: noqa: SLF001 - aiokafka has no hook for it
# pyright: reportPrivateUsage=false

from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_SEND: Final = AIOKafkaConnection.send
_CONNECT: Final = AIOKafkaConnection.connect
_BOOTSTRAP: Final = AIOKafkaClient.bootstrap

_connecting: ContextVar[WeakSet[AIOKafkaConnection] | None] = ContextVar("connecting", default=None)


def expect_lost_connections() -> None:
    """Let every Kafka client of this process notice lost connections, and leave none open."""
    AIOKafkaConnection.send = _send
    AIOKafkaConnection.connect = _connect
    AIOKafkaClient.bootstrap = _bootstrap


async def _connect(connection: AIOKafkaConnection) -> Any:  # noqa: ANN401 - as aiokafka's
    if (connecting := _connecting.get()) is not None:
        connecting.add(connection)
    return await _CONNECT(connection)


async def _bootstrap(client: AIOKafkaClient) -> None:
    connecting: WeakSet[AIOKafkaConnection] = WeakSet()
    token = _connecting.set(connecting)
    try:
        await _BOOTSTRAP(client)
    except BaseException:
        for connection in connecting:
            connection.close()
        raise
    finally:
        _connecting.reset(token)


def _send(connection: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Any:  # noqa: ANN401, FBT001, FBT002 - as aiokafka's
    writer = connection._writer
    try:
        return _SEND(connection, request, expect_response)
    except KafkaError:  # is a RuntimeError, too
        raise
    except RuntimeError as error:
        if writer is None or not writer.transport.is_closing():
            raise
        connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
        lost = f"Connection at {connection.host}:{connection.port} was lost"
        raise KafkaConnectionError(lost) from error
