"""A proxy between the processes and a server: delays, no answers, resets, held messages."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16
RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER without time: RST instead of FIN


class Wiretap(Protocol):
    """Parses one connection: the client's requests, and the ends of responses."""

    @property
    def answer_end(self) -> bytes: ...

    def heard(self, chunk: bytes) -> Collection[str]: ...


class Breakpoint:
    """Holds one message, or the response to it, until a test forwards it or cuts it off."""

    def __init__(self, label: str, *, answered: bool) -> None:
        self.label, self.is_of_answer = label, answered
        loop = asyncio.get_running_loop()
        self.is_taken = False  # by a connection that sent the message
        self.reached: asyncio.Future[None] = loop.create_future()
        self._passes: asyncio.Future[bool] = loop.create_future()

    def decide(self, *, passes: bool) -> None:
        if not self._passes.done():
            self._passes.set_result(passes)

    async def hold(self) -> None:
        self.reached.set_result(None)
        if not await self._passes:
            raise ConnectionResetError


class Proxy:
    """Forwards to `upstream_port`. What is set takes effect at once, on open connections too."""

    def __init__(self, tap: Callable[[], Wiretap]) -> None:
        self.port = self.upstream_port = 0
        self.is_refusing, self.delay_seconds = False, 0.0
        self.tap = tap
        self._audible, self._never = asyncio.Event(), asyncio.Event()
        self._audible.set()
        self._breakpoints: list[Breakpoint] = []
        self._links: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, HOST)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        self.is_refusing = True  # for clients that were accepted and not connected yet
        await self.reset()

    def silence(self) -> None:
        """Forward requests and hold every response."""
        self._audible.clear()

    def heal(self) -> None:
        self.is_refusing, self.delay_seconds = False, 0.0
        for each in self._breakpoints:
            each.decide(passes=True)
        self._breakpoints.clear()
        self._audible.set()

    async def reset(self) -> None:
        """Reset every open connection, on both sides."""
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def hold(self, label: str, *, answered: bool) -> Breakpoint:
        held = Breakpoint(label, answered=answered)
        self._breakpoints.append(held)
        return held

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.ensure_future(self._link(reader, writer))
        self._links.add(link)

        def end(link: asyncio.Task[None]) -> None:
            self._links.discard(link)
            if not writer.is_closing():  # cancelled before its first step
                writer.transport.abort()

        link.add_done_callback(end)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers, tap = [writer], self.tap()
        answers: list[Breakpoint] = []
        try:
            if self.is_refusing:
                raise ConnectionRefusedError
            upstream, to_upstream = await asyncio.open_connection(HOST, self.upstream_port)
            writers.append(to_upstream)
            pumps = [
                asyncio.ensure_future(self._ask(reader, to_upstream, tap, answers)),
                asyncio.ensure_future(self._answer(upstream, writer, tap, answers)),
            ]
            try:
                ended, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in ended:
                    pump.result()
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            for each in writers:
                each.close()
        except (OSError, asyncio.CancelledError):
            for each in writers:
                sock = each.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
                each.transport.abort()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tap: Wiretap,
        answers: list[Breakpoint],
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            labels = tap.heard(chunk)
            for held in self._breakpoints:
                if held.is_taken or held.label not in labels:
                    continue
                held.is_taken = True
                if held.is_of_answer:
                    answers.append(held)
                else:
                    await held.hold()
            await self._pass(chunk, writer)

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tap: Wiretap,
        answers: list[Breakpoint],
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._audible.wait()
            if tap.answer_end in chunk:
                while answers:
                    await answers.pop().hold()
            await self._pass(chunk, writer)

    async def _pass(self, chunk: bytes, writer: asyncio.StreamWriter) -> None:
        if self.delay_seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._never.wait(), self.delay_seconds)
        writer.write(chunk)
        await writer.drain()
