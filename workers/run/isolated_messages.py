"""The messages between a worker and the process in which it isolates suspects.

Each is a pickle after its length. Both sides run the same code with the same privileges, and
nobody else has an end of their socket.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from dueledger import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.store.runs import RunId
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import CallState, RunPart
    from dueledger.workers.verdict_outcomes import ItemOutcome

LENGTH: Final = struct.Struct(">I")
START_RETRY_SECONDS: Final = 5.0  # what cannot run in this process is released for so long


class Program(NamedTuple):
    """The first message: what the process loads, and as which worker it settles."""

    places: tuple[str, ...]
    search_path: tuple[str, ...]
    dsn: str
    worker_name: str
    worker_no: int
    version: str = __version__
    """Of the worker. Another one's messages may differ: such a process ends before it is ready."""


class Call(NamedTuple):
    """Call the handler for some items of a run."""

    call_no: int
    kind: str
    topic: str
    run_id: RunId
    part: RunPart
    items: Sequence[DueItem]


class Cancel(NamedTuple):
    """Cancel what runs of a call."""

    call_no: int


class Ping(NamedTuple):
    """Request a reply, which proves that the event loop is not blocked.

    A process that works and has no other ping within `seconds` ends: its worker is stopped, and
    cannot stop the handlers before their lease ends.
    """

    seconds: float


class Ready(NamedTuple):
    """The handlers are loaded."""


class Ended(NamedTuple):
    """Items of a call ended, by their index in the call."""

    call_no: int
    outcomes: Sequence[tuple[int, ItemOutcome]]


class Called(NamedTuple):
    """Items of a call, by their index in it, were given to their handler, or wait again."""

    call_no: int
    at: Sequence[int]
    state: CallState


class Settled(NamedTuple):
    """Items completed in the transaction of their handler."""

    call_no: int
    at: Sequence[int]


class Cancelled(NamedTuple):
    """Nothing of the call runs any more."""

    call_no: int


class Stuck(NamedTuple):
    """A thread goes on after the timeout of its call: the process should be replaced."""


class Pong(NamedTuple):
    """The reply to a ping."""


Request = Call | Cancel | Ping
Reply = Ready | Called | Ended | Settled | Cancelled | Stuck | Pong


def framed(message: Program | Request | Reply) -> bytes:
    """Return a message as bytes, its length first. Raises InvalidHeader for an unreadable item."""
    body = pickle.dumps(message)
    return LENGTH.pack(len(body)) + body
