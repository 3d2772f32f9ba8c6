"""The proxy leaves nothing open, whenever it is reset."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.faults.protocol_messages import PostgresTap
from tests.faults.proxy import HOST, Proxy

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
