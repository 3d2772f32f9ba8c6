"""A schedule whose versions take over from each other, and what they owe together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store.definitions import define

from .programs import eventually
from .site import TENANT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime

    from .site import Site

STEPS: Final = (2, 3, 4, 5, 6)  # seconds: two versions often owe some of the same occurrences
AHEAD_SECONDS: Final = (0.5, 6.0)
GAP_SECONDS: Final = (0.5, 4.0)
NEVER: Final = {"at": "2150-01-01T00:00", "timezone": "UTC"}
REACHED: Final = """
select not exists (
  select from ledger.materialised m
  where m.materialised_until < m.ends_at and m.materialised_until < $1)
"""


class ChangingSchedule:
    """The versions that were acknowledged, with the time from which each decides."""

    def __init__(self, site: Site, kind: str, seed: int) -> None:
        self.kind = kind
        self.versions: list[tuple[datetime, dict[str, Any]]] = []
        self._site = site
        self._choice = Random(seed)  # noqa: S311  # no secrets

    async def change(self) -> None:
        """Put another version in force, soon."""
        step = self._choice.choice(STEPS)
        ahead = self._choice.uniform(*AHEAD_SECONDS)
        await self._put({"cron": f"*/{step} * * * * *", "timezone": "UTC"}, ahead)

    @asynccontextmanager
    async def changed(self) -> AsyncGenerator[None]:
        """Put versions in force for the length of the block."""
        stop = Stop()
        changing = asyncio.create_task(self._change(stop))
        try:
            yield
        finally:
            stop.request()
            await changing

    async def end(self) -> None:
        """Owe nothing any more; return once all that was owed until then is an item."""
        await self._put(NEVER, 0.0)
        ends_at = self.versions[-1][0] + timedelta(seconds=1)

        async def reached() -> bool:
            return await self._site.fetchval(REACHED, ends_at)

        await eventually(reached)
        self._site.occurrences += [(self.kind, cycle) for cycle in sorted(self._owed())]

    async def _change(self, stop: Stop) -> None:
        while not stop.is_requested:
            await self.change()
            await stop.wait(self._choice.uniform(*GAP_SECONDS))

    def _owed(self) -> set[str]:
        """Return the cycles that the version owes which is in force at their time."""
        found: set[str] = set()
        for number, (begins, document) in enumerate(self.versions[:-1], 1):
            ends = min(later for later, _ in self.versions[number:])
            if begins < ends:
                drafts = draft_occurrences(parse_definition(document), begins, ends).drafts
                found |= {draft.cycle for draft in drafts}
        return found

    async def _put(self, when: dict[str, Any], ahead_seconds: float) -> None:
        site = self._site
        begins = await eventually(site.now) + timedelta(seconds=ahead_seconds)
        name = f"schedule-{self.kind}"
        document = {
            "definition": name,
            "tenant": TENANT,
            "kind": self.kind,
            "business_key": name,
            "when": when,
        }

        async def acknowledged() -> bool:
            async with site.connected() as connection:
                await define(
                    connection,
                    parse_definition(document).normalised(),
                    tenant=TENANT,
                    name=name,
                    kind=self.kind,
                    event_type=None,
                    effective_from=begins,
                    actor_no=await site.register(connection),
                )
                return True

        await eventually(acknowledged)
        self.versions.append((begins, document))
