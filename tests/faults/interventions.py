"""What people do to items while they are worked, drawn by a seed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final

from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.reviews import redrive_items, write_off_items

from .programs import eventually
from .serve import POISON

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from .changing_schedule import ChangingSchedule
    from .load import Load
    from .site import Site

GAP_SECONDS: Final = (0.1, 1.0)
SUPERSEDED: Final = 3
REDRIVEN_SHARE: Final = 0.2  # of parked poison; all others that are parked are redriven
WRITTEN_OFF_SHARE: Final = 0.1
PARKED: Final = """
select i.id, i.business_key
from ledger.review join ledger.due_item i using (effective_date, item_no) order by item_no
"""


class Interventions:
    """Supersedes items, redrives and writes off parked ones, and changes a schedule."""

    def __init__(self, site: Site, seed: int, load: Load, schedule: ChangingSchedule) -> None:
        self._site = site
        self._choice = Random(seed + 2)  # noqa: S311  # no secrets
        self._load = load
        self._schedule = schedule

    @asynccontextmanager
    async def drawn(self) -> AsyncGenerator[None]:
        """Intervene for the length of the block."""
        stop = Stop()
        drawing = asyncio.create_task(self._draw(stop))
        try:
            yield
        finally:
            stop.request()
            await drawing

    async def redrive_innocents(self) -> int:
        """Redrive what is parked and no poison; return how many items that were."""
        innocent = [id_ for id_, key in await self._parked() if not key.startswith(POISON)]
        await self._redrive(innocent)
        return len(innocent)

    async def _draw(self, stop: Stop) -> None:
        while not stop.is_requested:
            await self._choice.choice((self._supersede, self._review, self._schedule.change))()
            await stop.wait(self._choice.uniform(*GAP_SECONDS))

    async def _supersede(self) -> None:
        site, recent = self._site, list(self._load.recent)
        old = self._choice.sample(recent, min(len(recent), SUPERSEDED))
        now = await eventually(site.now)
        drafts = site.drafts_due([(site.emitted[id_].kind, now) for id_ in old])
        await site.emit(drafts)
        await site.withdraw(old, TransitionEvent.SUPERSEDED, [draft.id for draft in drafts])

    async def _review(self) -> None:
        await self.redrive_innocents()
        poison = [id_ for id_, key in await self._parked() if key.startswith(POISON)]
        lots = [self._choice.random() for _ in poison]
        await self._redrive(
            [id_ for id_, lot in zip(poison, lots, strict=True) if lot < REDRIVEN_SHARE]
        )
        hopeless = [
            id_ for id_, lot in zip(poison, lots, strict=True) if lot > 1 - WRITTEN_OFF_SHARE
        ]
        site = self._site
        site.asked += [(id_, TransitionEvent.WRITTEN_OFF, False) for id_ in hopeless]

        async def written_off() -> bool:
            async with site.connected() as connection:
                actor_no = await site.register_person(connection)
                await write_off_items(connection, hopeless, reason="as drawn", actor_no=actor_no)
                return True

        await eventually(written_off)

    async def _parked(self) -> list[tuple[UUID, str]]:
        async def parked() -> list[list[tuple[UUID, str]]]:
            async with self._site.connected() as connection:
                return [[(row[0], row[1]) for row in await connection.fetch(PARKED)]]

        [found] = await eventually(parked)
        return found

    async def _redrive(self, ids: list[UUID]) -> None:
        async def redriven() -> bool:
            async with self._site.connected() as connection:
                actor_no = await self._site.register(connection)
                await redrive_items(connection, ids, reason="as drawn", actor_no=actor_no)
                return True

        await eventually(redriven)
