"""Handlers that a process can load by name, so that suspects run isolated.

The environment has the kinds, as `KIND=HANDLER,…`. They leave no evidence outside the ledger.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.runtime.service import Stop

KINDS_VARIABLE = "DUELEDGER_TEST_KINDS"
HOLD_VARIABLE = "DUELEDGER_HOLD_FILE"
HOLD_SECONDS = 0.1
POISON = "poison"

handlers = Handlers()


def quick(kind: str) -> None:
    """Complete whatever comes."""

    @handlers.on_batch(kind)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        return [Completed() for _ in items]


def held(kind: str) -> None:
    """Hold a thousand items while a file exists; after that, poison kills its worker."""
    hold = Path(os.environ[HOLD_VARIABLE])

    @handlers.on(kind, concurrency=1000, timeout_seconds=300)
    async def work(item: DueItem) -> Verdict:
        while hold.exists():  # noqa: ASYNC240 - of a local file
            await Stop().wait(HOLD_SECONDS)
        if item.business_key.startswith(POISON):
            os.kill(os.getpid(), signal.SIGKILL)
        return Completed()


for assignment in os.environ.get(KINDS_VARIABLE, "").split(","):
    match assignment.partition("="):
        case kind, _, "quick":
            quick(kind)
        case kind, _, "held":
            held(kind)
        case _:
            pass
