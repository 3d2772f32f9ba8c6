"""A steady load of items, and what is asked of some of them later, drawn by a seed."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import UUID

from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent

from .programs import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from .site import Site

POISON_EVERY: Final = 200
RECENT: Final = 500  # items of which one is cancelled


@dataclass(kw_only=True)
class Load:
    """Emits `items` of `kinds` each `seconds`, due from `spread_seconds` of then on.

    Of two hundred items one more is poison, of the kind `poisoned`; `cancelled_share` of the items
    are asked to be cancelled, early or late.
    """

    site: Site
    seed: int
    kinds: Sequence[str]
    items: int
    seconds: float
    spread_seconds: tuple[float, float] = (-1.0, 2.0)
    poisoned: str | None = None
    cancelled_share: float = 0.0
    recent: deque[UUID] = field(default_factory=lambda: deque[UUID](maxlen=RECENT))

    @asynccontextmanager
    async def emitted(self) -> AsyncGenerator[None]:
        """Emit for the length of the block."""
        stop = Stop()
        emitting = asyncio.create_task(self._emit(stop))
        try:
            yield
        finally:
            stop.request()
            await emitting

    async def _emit(self, stop: Stop) -> None:
        choice, site = Random(self.seed + 1), self.site  # noqa: S311  # no secrets
        while not stop.is_requested:
            waiting = asyncio.create_task(stop.wait(self.seconds))
            now = await eventually(site.now)
            due = [
                (
                    choice.choice(self.kinds),
                    now + timedelta(seconds=choice.uniform(*self.spread_seconds)),
                )
                for _ in range(self.items)
            ]
            drafts = site.drafts_due(due)
            before = len(site.emitted)
            if self.poisoned and before // POISON_EVERY != (before + self.items) // POISON_EVERY:
                drafts += site.drafts(self.poisoned, 1, prefix="poison")
            await site.emit(drafts)
            self.recent.extend(draft.id for draft in drafts)
            cancelled = [id_ for id_ in self.recent if choice.random() < self._cancelling_share]
            await site.withdraw(cancelled, TransitionEvent.CANCELLED)
            await waiting

    @property
    def _cancelling_share(self) -> float:
        return self.cancelled_share * self.items / max(len(self.recent), 1)
