"""The pace of floods in one process: how many items a flood may have now, and when again."""

from math import inf
from time import monotonic
from typing import Final, final

from dueledger.ledger.rules.flood_pace import (
    RESTART_SECONDS,
    SHARE_FIRST,
    TARGET_READ_SECONDS_MAX,
    LagTargets,
    next_share,
    paced_items,
    rest_seconds,
    spacing_seconds,
    step_seconds,
)
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.flood_paces import read_flood_pace, step_flood_pace

CLAIMS_READ_MAX: Final = 1000
WINDOW_STEPS: Final = 2
"""Claims of the last two steps count: fewer would be few, older ones show an older pace."""


@final
class FloodPacer:
    """Applies the stored pace to the claims of floods, and steps it when a step is due.

    Several processes read the same pace, and one of them steps it: each gives floods the same share
    of its own time.
    """

    def __init__(self) -> None:
        self._share = 1.0
        self._spacing_seconds: float | None = None
        self._read_at = -inf
        self._began_at: float | None = None
        self._rests_until = -inf

    @property
    def share(self) -> float:
        """The share of the time in which floods are claimed; 1 at full speed."""
        return self._share

    def items_of(self, items: int) -> int:
        """Return how many of these items a flood may have in one claim."""
        return paced_items(self._share, items)

    @property
    def light_spacing_seconds(self) -> float | None:
        """The mean time between claims of light flows beside floods, if a flow has a target."""
        return self._spacing_seconds

    def next_claim_at(self, now: float) -> float:
        """Return when the next flood may be claimed: now, or when the rest after the last ends."""
        return now if self._share == 1 else max(now, self._rests_until)

    def began(self, now: float) -> None:
        """Take note of a claim of a flood that starts now."""
        self._began_at = now

    def ended(self, now: float) -> None:
        """Take note that the process could claim a flood again: it rests from now on.

        Does nothing if it rests already.
        """
        if self._began_at is not None:
            self._rests_until = now + rest_seconds(self._share, now - self._began_at)
            self._began_at = None

    @property
    def needs_refresh(self) -> bool:
        """Whether the pace is to be read again."""
        return monotonic() >= self._read_at

    def end(self) -> None:
        """Give floods their full speed: no flow has a lag target."""
        self._share, self._spacing_seconds, self._read_at = 1.0, None, -inf

    async def refresh(self, connection: Connection, targets: LagTargets) -> None:
        """Read the pace, and step it, if a step is due.

        `targets` are those of the flows that have items and are no floods themselves.
        """
        seconds = step_seconds(targets.least)
        stored = await read_flood_pace(
            connection,
            window_seconds=WINDOW_STEPS * seconds,
            target_seconds=min(targets.greatest, TARGET_READ_SECONDS_MAX),
            claims_max=CLAIMS_READ_MAX,
        )
        self._share, self._spacing_seconds = stored.share, spacing_seconds(targets.least)
        pause = seconds - stored.age_seconds
        if not 0 < pause <= seconds:  # longer where the clock of the database was set back
            starts_again = stored.age_seconds > RESTART_SECONDS
            late = stored.latest if stored.count.is_late and not starts_again else None
            share = SHARE_FIRST if starts_again else next_share(stored.share, stored.count)
            pause = seconds
            if await step_flood_pace(
                connection, stored.stepped_at, share, late=late, starts_again=starts_again
            ):
                self._share = share
            else:
                pause = 0.0
        self._read_at = monotonic() + pause
