"""Calls plain functions in threads of their own, so that a blocking handler stops no heartbeat."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class CallResult(NamedTuple):
    """What a function returned, or what it raised."""

    value: object
    error: BaseException | None


def call_in_thread(function: Callable[..., object], argument: object) -> asyncio.Future[CallResult]:
    """Call a function in a daemon thread; the future never carries an exception.

    No executor: its threads are joined at exit, so a handler that hangs would keep a drained
    worker alive. Callers bound how many run.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[CallResult] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: CallResult) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        try:
            result = CallResult(context.run(function, argument), None)
        except BaseException as error:  # noqa: BLE001  # the handler boundary, on its thread
            result = CallResult(None, error)
        with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=work, name=f"handler:{function}", daemon=True).start()
    return future
