"""A connection to Kafka that is lost while a request is written, or given up while it is made."""

# pyright: reportPrivateUsage=false

import asyncio
from typing import Any

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

POLLS_MAX = 100


async def _until_unwritable(connection: AIOKafkaConnection) -> None:
    """Lose the connection by a reset; return in the turn of the loop before its reader notices."""
    inside: Any = connection
    end = inside._protocol.connection_lost

    def end_by_reset(_: Exception | None) -> None:
        end(ConnectionResetError())

    inside._protocol.connection_lost = end_by_reset
    inside._writer.transport.abort()
    await asyncio.sleep(0)
    assert inside.connected()


async def _send_after_loss(settings: KafkaSettings) -> None:
    host, port = settings.bootstrap_servers.split(":")
    client_arguments(settings)
    connection = await create_conn(host, int(port))
    try:
        await _until_unwritable(connection)
        with pytest.raises(KafkaConnectionError):
            await connection.send(MetadataRequest([]))
        inside: Any = connection
        assert not inside.connected()
    finally:
        connection.close()


async def _poll_after_loss(settings: KafkaSettings, topic: str) -> None:
    await make_missing_topics(settings, [topic])
    async with AIOKafkaConsumer(
        topic,
        **client_arguments(settings),
        group_id=f"group-{topic}",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=100,
    ) as consumer:
        inside: Any = consumer
        coordinator = inside._coordinator
        for _ in range(POLLS_MAX):
            await consumer.getmany(timeout_ms=100)
            if consumer.assignment():
                break
        (connection,) = (
            each
            for (_, group), each in inside._client._conns.items()
            if group.name == "COORDINATION"
        )
        await _until_unwritable(connection)
        await coordinator._do_heartbeat()
        for _ in range(POLLS_MAX):
            await consumer.getmany(timeout_ms=100)
            if await coordinator._do_heartbeat():
                return
        pytest.fail("no heartbeat reached the broker again")


async def test_a_request_on_a_connection_that_uvloop_has_closed_is_a_kafka_error(
    bootstrap_servers: str,
) -> None:
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers)
    await asyncio.to_thread(uvloop.run, _send_after_loss(settings))


async def test_a_consumer_goes_on_after_a_heartbeat_on_a_lost_connection(
    bootstrap_servers: str, kind: str
) -> None:
    settings = KafkaSettings(bootstrap_servers=bootstrap_servers)
    await asyncio.to_thread(uvloop.run, _poll_after_loss(settings, f"due.{kind}"))


async def test_a_client_that_is_cancelled_while_it_connects_leaves_no_connection_open(
    bootstrap_servers: str,
) -> None:
    asked_for_metadata, ended = asyncio.Event(), asyncio.Event()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = bootstrap_servers.split(":")
        from_broker, to_broker = await asyncio.open_connection(host, int(port))
        to_broker.write(await reader.read(65_536))
        writer.write(await from_broker.read(65_536))  # which versions it speaks
        to_broker.close()
        await reader.read(65_536)
        asked_for_metadata.set()
        await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}")
    connecting = asyncio.create_task(AIOKafkaClient(**client_arguments(settings)).bootstrap())
    await asked_for_metadata.wait()
    connecting.cancel()
    await asyncio.wait({connecting})
    assert connecting.cancelled()
    async with asyncio.timeout(10):
        await ended.wait()
    server.close()
