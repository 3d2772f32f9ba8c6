"""The proxy leaves nothing open or held, whenever it is reset or healed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.faults.protocol_messages import PostgresTap
from tests.faults.proxy import HOST, Proxy

if TYPE_CHECKING:
    from collections.abc import Collection

ANSWERED_WITHIN_SECONDS = 10


async def test_a_connection_reset_before_it_is_linked_is_closed() -> None:
    proxy = Proxy(PostgresTap)
    await proxy.start()

    async def reset_at_every_turn() -> None:
        while True:
            await proxy.reset()
            await asyncio.sleep(0)

    resetting = asyncio.ensure_future(reset_at_every_turn())
    await asyncio.sleep(0)
    async with asyncio.timeout(ANSWERED_WITHIN_SECONDS):
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()
    resetting.cancel()
    await proxy.stop()


class EchoTap:
    """Each message is a request of its own name, and its response is the same."""

    answer_end = b"\n"

    def heard(self, chunk: bytes) -> Collection[str]:
        return [chunk.decode().strip()]


async def test_an_answer_that_comes_after_its_cut_was_healed_is_forwarded() -> None:
    requested, may_answer = asyncio.Event(), asyncio.Event()

    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            requested.set()
            await may_answer.wait()
            writer.write(request)
        writer.close()

    server = await asyncio.start_server(answer_late, HOST)
    proxy = Proxy(EchoTap)
    proxy.upstream_port = server.sockets[0].getsockname()[1]
    await proxy.start()
    async with asyncio.timeout(ANSWERED_WITHIN_SECONDS):
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        proxy.hold("claim", answered=True)
        writer.write(b"claim\n")
        await requested.wait()
        proxy.heal()
        may_answer.set()
        assert await reader.readline() == b"claim\n"
    writer.close()
    await writer.wait_closed()
    await proxy.stop()
    server.close()
