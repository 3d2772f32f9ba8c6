"""A connection of a client: the time for a request's head and for reading an answer."""

import asyncio
import resource
import secrets
import socket
import struct
from collections import OrderedDict
from typing import ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dueledger.service.problems import PROBLEM_TYPE, problem_of

HEAD_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 75
"""Longer than clients and proxies keep a connection, or they would send on one that is closed."""
WRITE_SECONDS: Final = 30.0
_ID_BYTES: Final = 8
_OTHER_FILES: Final = 256
_RESET: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: the connection is reset when it is closed."""


class ClientConnection(H11Protocol):
    """Closes a connection that sends no whole head within 10 s, or reads nothing for 30 s.

    The server's own timer, of kept connections, ends with the first byte, with which the 10 s of
    the next head begin. Without these limits a client that sends nothing would keep its connection
    for ever. Of more connections than `connections_max` the one is closed that has waited longest
    for a head.
    """

    connections_max: ClassVar[int]
    idle: ClassVar[OrderedDict["ClientConnection", None]]
    """Those that wait for a head, the longest first."""

    _head_timer: asyncio.TimerHandle | None = None
    _is_kept = False
    """Whether it was answered, and nothing of the next request has arrived."""
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.connections_max and self.idle:
            longest, _ = self.idle.popitem(last=False)
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what arrived; of a kept connection it begins a head."""
        if self._is_kept:
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        """Read what arrived. The head's time is over once a request has begun.

        A request has `abort` in its state, for an answer that cannot be completed.
        """
        super().handle_events()
        if self.cycle and not self.cycle.response_complete:
            self._stop_head_timer()
            self.cycle.scope.setdefault("state", {})["abort"] = self._abort

    def on_response_complete(self) -> None:
        """Wait for the next request, for as long as the server keeps a connection."""
        self._stop_head_timer()
        self.idle[self] = None
        self._is_kept = True
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on; the client has read."""
        self._stop_write_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the server's own words
        """Answer what is no HTTP, with a problem document as every other error."""
        request_id = secrets.token_hex(_ID_BYTES)
        detail = "The connection sent no valid HTTP/1.1 request."
        document = problem_of(request_id, "REQUEST_INVALID", detail)
        headers = [
            ("content-type", PROBLEM_TYPE),
            ("content-length", str(len(document))),
            ("connection", "close"),
            ("x-request-id", request_id),
        ]
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:  # and not after an answer
            for part in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=document),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def _abort(self) -> None:
        """Reset the connection: for HTTP/1.0 one that is closed is the end of a whole answer."""
        connected: socket.socket = self.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _await_head(self) -> None:
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        self.idle[self] = None

    def _stop_head_timer(self) -> None:
        self.idle.pop(self, None)
        self._is_kept = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def connections_of(requests_max: int) -> type[ClientConnection]:
    """Return the class of a server's connections: twice as many as it answers requests at a time.

    They need as many files; the process may have fewer, and then that decides.
    """
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    connections_max = 2 * requests_max
    if files_max != resource.RLIM_INFINITY:
        connections_max = min(connections_max, max(1, files_max - _OTHER_FILES))
    members = {"connections_max": connections_max, "idle": OrderedDict[ClientConnection, None]()}
    return type("ServerConnection", (ClientConnection,), members)
