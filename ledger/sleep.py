"""The sleep of a process that claims: it is woken when an item may be claimed before it would poll.

While it sleeps its row says so, and who writes an item that is available before notifies it. A
process that is notified too often stays awake and polls, and nobody notifies it: at high rates a
notification for each commit halves their number.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from time import monotonic
from typing import Final, Protocol, final

from dueledger.ledger.errors import Unavailable

SLEEP_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 5.0
"""A sleep is renewed so early that it never ends while the process sleeps."""
PAUSE_SECONDS_MIN: Final = 0.003
"""For a shorter pause it is not worth to register."""
WAKES_MAX: Final = 20
WAKES_SECONDS: Final = 0.1
"""A process that is woken so often in that time, or whose polls take half of it, is busy."""
BUSY_SECONDS: Final = 1.0
"""For so long a busy process polls; then it may sleep again."""
BUSY_POLL_SECONDS: Final = 0.01
BUSY_POLL_DIVISOR: Final = 10
"""The polls of a busy process take a tenth of the time at most."""
POLLS_COMPARED: Final = 4
_REPEAT_SECONDS: Final = 0.002
_REPEAT_DOUBLINGS_MAX: Final = 8


@final
class PollDuration:
    """How long a poll takes: the least of the last few.

    A longer one waited for a core or a lock. If it decided, one of 8 ms would postpone the next by
    80 ms.
    """

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=POLLS_COMPARED)
        self.seconds = 0.0
        """The duration; 0 before the first poll."""

    def add(self, seconds: float) -> None:
        """Record how long a poll took."""
        self._last.append(seconds)
        self.seconds = min(self._last)


class SleepRegister(Protocol):
    """Where a process registers its sleep, on a connection on which it is notified."""

    @property
    def session_no(self) -> int | None:
        """Number of the connection; None without one."""
        ...

    async def register_sleep(self, seconds: float, kinds: Sequence[str] | None) -> int | None:
        """Register a sleep of so long; return the number of the transaction that did, or None."""
        ...

    async def is_seen_by_all(self, transaction_no: int) -> bool:
        """Return whether all who write see what that transaction did."""
        ...

    async def end_sleep(self) -> None:
        """Register that the process is awake."""
        ...


class _State(Enum):
    AWAKE = auto()
    REGISTERED = auto()
    ASLEEP = auto()


@final
class Sleep:
    """Decides how long a process pauses after a poll that found nothing.

    A transaction that wrote before the sleep was registered, and commits after the last poll, would
    wake nobody. So the process polls until all transactions that were open then have ended, and
    once more. Those that write later see that it sleeps. It registers twice: those that were open
    are the ones with a lower number than the second time.
    """

    def __init__(self, presence: SleepRegister, kinds: Sequence[str] | None) -> None:
        """Sleep by `presence`, as a process that claims `kinds`; of an allocator or relay, None."""
        self._presence = presence
        self._kinds = kinds
        self._state = _State.AWAKE
        self._transaction_no = 0
        self._renew_at = float("-inf")
        self._repeats = 0
        self._session_no: int | None = None
        self._wakes: deque[float] = deque(maxlen=WAKES_MAX)
        self._busy_until = float("-inf")

    @property
    def is_asleep(self) -> bool:
        """Return whether the process is notified of items that others emit from now on."""
        return (
            self._state is _State.ASLEEP
            and self._session_no == self._presence.session_no
            and not self._is_over(monotonic())
        )

    def wake_for(self, kinds: Sequence[str]) -> None:
        """Let items of these kinds wake the process, and of no others; it is awake until then."""
        self._kinds, self._state = kinds, _State.AWAKE

    async def pause_seconds(self, wanted: float, *, poll_seconds: float) -> float:
        """Return how long to pause after a poll that found nothing: at most `wanted` seconds.

        If it is less, the process polls afresh after the pause. A poll takes about `poll_seconds`.
        A process that is asleep pauses no longer than its registration lasts at least.
        """
        if wanted < PAUSE_SECONDS_MIN:
            return wanted
        if monotonic() < self._busy_until:
            return min(wanted, max(BUSY_POLL_SECONDS, BUSY_POLL_DIVISOR * poll_seconds))
        try:
            await self._register()
            if self._state is not _State.REGISTERED:
                return min(wanted, SLEEP_SECONDS - RENEW_SECONDS) if self.is_asleep else wanted
            if await self._presence.is_seen_by_all(self._transaction_no):
                self._state = _State.ASLEEP
                return 0.0
        except Unavailable:  # the next poll says so
            self._state = _State.AWAKE
            return wanted
        self._repeats = min(self._repeats + 1, _REPEAT_DOUBLINGS_MAX)
        return min(wanted, _REPEAT_SECONDS * 2**self._repeats)

    async def _register(self) -> None:
        """Register the sleep, or renew it: while it lasts, all see it already."""
        now, session_no = monotonic(), self._presence.session_no
        if session_no is None or session_no != self._session_no or self._is_over(now):
            self._state = _State.AWAKE
        if session_no is None or (self._state is not _State.AWAKE and now < self._renew_at):
            return
        transaction_no = await self._presence.register_sleep(SLEEP_SECONDS, self._kinds)
        if transaction_no is not None and self._state is _State.AWAKE:
            # Its number is older than its commit, and who began to write in between saw nothing.
            transaction_no = await self._presence.register_sleep(SLEEP_SECONDS, self._kinds)
        if transaction_no is None:
            self._state = _State.AWAKE
            return
        self._renew_at = now + RENEW_SECONDS
        if self._state is _State.AWAKE:
            self._state, self._transaction_no, self._repeats = _State.REGISTERED, transaction_no, 0
            self._session_no = session_no

    def _is_over(self, now: float) -> bool:
        return now >= self._renew_at + SLEEP_SECONDS - RENEW_SECONDS

    def woken(self) -> None:
        """Take note of a notification."""
        self._wakes.append(monotonic())

    async def end_if_busy(self, *, poll_seconds: float) -> None:
        """Be awake for a while if notifications came too often: each makes a commit slower."""
        now = monotonic()
        wakes = min(WAKES_MAX, max(1, int(WAKES_SECONDS / 2 / max(poll_seconds, 1e-9))))
        if len(self._wakes) < wakes or now - self._wakes[-wakes] > WAKES_SECONDS:
            return
        self._wakes.clear()
        self._busy_until = now + BUSY_SECONDS
        if self._state is not _State.AWAKE:
            self._state = _State.AWAKE
            with suppress(Unavailable):
                await self._presence.end_sleep()
