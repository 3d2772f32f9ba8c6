"""Makes a write to a connection that has just been lost a KafkaError, on uvloop too.

aiokafka 0.14 expects an OSError; uvloop raises RuntimeError between the loss and the end of the
connection's reader. The task that wrote would end: the heartbeats, the fetches or the sends of its
client. A consumer without heartbeats raises the same error at each poll, for ever.
"""

# ruff: noqa: SLF001 - aiokafka has no hook for it
# pyright: reportPrivateUsage=false

from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_SEND: Final = AIOKafkaConnection.send


def expect_closed_transports() -> None:
    """Let every Kafka connection of this process take a closed transport as a lost connection."""
    AIOKafkaConnection.send = _send


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
