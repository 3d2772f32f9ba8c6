"""Items emitted ahead of time, so many due each second: a load that goes on in an outage."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from datetime import datetime

    from .site import Site

BATCH_ITEMS: Final = 2000
EMITTED_PER_SECOND: Final = 4000  # at least; the first item is due once the last may be emitted
LEAD_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Timetable:
    """So many items a second of `kinds`, one after another, due from `starts_at` on."""

    site: Site
    kinds: Sequence[str]
    per_second: float
    seconds: float
    starts_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(seconds=self.seconds)

    @classmethod
    async def plan(
        cls, site: Site, kinds: Sequence[str], per_second: float, seconds: float, *, ahead: float
    ) -> Timetable:
        """Make a timetable that starts when the items of `ahead` seconds are emitted."""
        lead = ahead * per_second / EMITTED_PER_SECOND + LEAD_SECONDS
        starts_at = await site.now() + timedelta(seconds=lead)
        return cls(site, kinds, per_second, seconds, starts_at)

    @asynccontextmanager
    async def emitted(self) -> AsyncGenerator[None]:
        """Emit, as far ahead as it goes, for the length of the block."""
        emitting = asyncio.create_task(self._emit())
        try:
            yield
            await emitting
        finally:
            emitting.cancel()

    async def _emit(self) -> None:
        count = int(self.per_second * self.seconds)
        for first in range(0, count, BATCH_ITEMS):
            due = [
                (
                    self.kinds[number % len(self.kinds)],
                    self.starts_at + timedelta(seconds=number / self.per_second),
                )
                for number in range(first, min(first + BATCH_ITEMS, count))
            ]
            await self.site.emit(self.site.drafts_due(due))
