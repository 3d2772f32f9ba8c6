"""What a start tells its user, and how it is called off."""

import threading
from collections.abc import Callable
from typing import final

from dueledger.stack.endpoints import StackError


@final
class StartProgress:
    """One line a step to the user, from any thread; the way to call a start off."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        """Tell each step to `progress`, or nobody."""
        self._progress = progress
        self._cancelled = threading.Event()

    def report(self, step: str) -> None:
        """Say what is done now; raise when the start was called off."""
        self.check()
        if self._progress is not None:
            self._progress(step)

    def cancel(self) -> None:
        """Make the threads that start servers give up at their next look."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise StackError when the start was called off."""
        if self._cancelled.is_set():
            raise StackError(
                "start_cancelled", "The start was interrupted.", "Start again when ready."
            )
