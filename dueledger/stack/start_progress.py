"""The progress of a start, and its cancellation."""

import threading
from collections.abc import Callable
from typing import final

from dueledger.stack.endpoints import StackError


@final
class StartProgress:
    """Reports one line for each step, from any thread, and cancels a start."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        """Report each step to `progress`, if there is one."""
        self._progress = progress
        self._cancelled = threading.Event()

    def report(self, step: str) -> None:
        """Report a step; raise if the start was cancelled."""
        self.check()
        if self._progress is not None:
            self._progress(step)

    def cancel(self) -> None:
        """Make the threads that start servers stop at their next check."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise StackError if the start was cancelled."""
        if self._cancelled.is_set():
            raise StackError(
                "start_cancelled", "The start was interrupted.", "Start again when ready."
            )
