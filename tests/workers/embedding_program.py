"""A program with a worker inside: it checks that entering and leaving change nothing of its own."""

import asyncio
import gc
import logging
import signal
import sys

import structlog

from dueledger import Completed, DueItem, Handlers, Verdict, worker

handlers = Handlers()


@handlers.on("LetterDue")
async def complete(item: DueItem) -> Verdict:
    """Nothing is due here."""
    return Completed({"letter": item.business_key})


class Listener(logging.Handler):
    """Keeps what the program's own logging is given."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.parts: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's parts."""
        self.parts.append(vars(record))


def state() -> dict[str, object]:
    """Return what a library may not change."""
    root = logging.getLogger()
    return {
        "signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "root handlers": list(root.handlers),
        "root level": root.level,
        "structlog": structlog.is_configured(),
        "loop policy": vars(asyncio.events)["_event_loop_policy"],
        "excepthook": sys.excepthook,
        "collector": gc.get_threshold(),
        "path": list(sys.path),
    }


async def main() -> None:
    """Run a worker beside nothing."""
    listener = Listener()
    logging.getLogger("dueledger").addHandler(listener)
    logging.getLogger("dueledger").setLevel(logging.INFO)
    before = state()
    async with worker(handlers, direct=True):
        assert state() == before
    assert state() == before
    assert [parts["event"] for parts in listener.parts] == ["process.started", "process.stopped"]
    fields = listener.parts[0]["fields"]
    assert isinstance(fields, dict)
    assert fields["kinds"] == ["LetterDue"]
    sys.stdout.write("the program's own line\n")


asyncio.run(main())
