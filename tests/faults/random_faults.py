"""Everything at once, at random: faults, people and new versions, over a steady load."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Final

from dueledger.ledger.states import TransitionEvent

from .breakages import faults_of_processes, faults_of_servers, faults_of_wires
from .changing_schedule import ChangingSchedule
from .interventions import Interventions
from .load import Load
from .programs import eventually
from .storm_kinds import add_kinds
from .supervision import Slot, supervised
from .waiting_work import WaitingWork

if TYPE_CHECKING:
    from .site import Site
    from .storm import Storm

ALLOCATORS: Final = 2
WORKERS: Final = 3
LOAD_SECONDS: Final = 0.25
LOAD_ITEMS: Final = 30
CANCELLED_SHARE: Final = 0.05
VERDICTS: Final = {
    "DUELEDGER_FAILURES_PER_THOUSAND": "20",
    "DUELEDGER_PARKED_PER_THOUSAND": "5",
}

HAS_RUN: Final = """
select exists (
  select from ledger.run r
  join ledger.actor a on a.actor_no = r.worker_no
  where r.closed_at is null and split_part(a.name, ':', 3) = $1)
"""
"""Whether the process of a number has an open run."""


class RandomFaults:
    """A site with every kind of process and item, and a storm over it."""

    def __init__(self, site: Site, storm: Storm, seed: int) -> None:
        self._site, self._storm, self._seed = site, storm, seed
        self.poisoned = ""
        """The kind of poison, once it runs: only what supersedes some of it can complete."""
        start_worker = partial(site.start_worker, **VERDICTS)
        self._slots = {
            **{f"allocator {number}": Slot(site.start_allocator) for number in range(ALLOCATORS)},
            **{f"worker {number}": Slot(start_worker) for number in range(WORKERS)},
            "direct 0": Slot(partial(site.start_direct_worker, **VERDICTS)),
            "outcomes 0": Slot(site.start_outcomes),
            "materialiser 0": Slot(site.start_materialiser),
        }

    @property
    def surprises(self) -> list[str]:
        """Return the processes that ended although no fault ended them."""
        return [each for slot in self._slots.values() for each in slot.surprises]

    async def run(self, seconds: float) -> None:
        """Break things for so long; return once all is mended and everything owed has ended."""
        site, storm, slots = self._site, self._storm, self._slots
        kinds = await add_kinds(site)
        kinds += [await site.add_kind(each, dispatch="direct") for each in ("batch", "transaction")]
        kinds.append(foreign := await site.add_kind("foreign", settled_by="topic"))
        slots["foreign 0"] = Slot(partial(site.start_foreign, foreign))
        # More than an innocent neighbour of poison can lose by faults, which take seconds each.
        self.poisoned = await site.add_kind("batch", attempt_max=10)
        schedule = ChangingSchedule(site, await site.add_kind("single"), self._seed + 3)
        load = Load(
            site=site,
            seed=self._seed,
            kinds=kinds,
            items=LOAD_ITEMS,
            seconds=LOAD_SECONDS,
            cancelled_share=CANCELLED_SHARE,
            poisoned=self.poisoned,
        )
        people = Interventions(site, self._seed, load, schedule)
        await schedule.change()
        faults = [
            *faults_of_processes(slots),
            *faults_of_servers(site.servers),
            *faults_of_wires(site.servers),
        ]
        async with supervised(slots.values()):
            async with load.emitted(), people.drawn():
                await eventually(self._items_timed_out)
                await storm.rage(faults, seconds)
                await site.servers.heal()
            storm.note(f"healed; {len(site.emitted)} emitted, {len(site.asked)} asked to end")
            await schedule.end()

            async def all_ended() -> bool:
                return await people.redrive_innocents() == 0 == await site.count_open()

            async with WaitingWork(site, storm.note).sampled():
                await eventually(all_ended)
                await eventually(self._no_request_left)
            storm.note("finished")
            await eventually(self._all_ready)

    async def _items_timed_out(self) -> bool:
        """Kill a worker that has a run until a run timed out: no fault by chance need do so."""
        if TransitionEvent.TIMED_OUT in await self._site.recorded_events():
            return True
        slot = self._slots["direct 0"]
        if slot.program is not None and slot.ready:
            slot.program.send(signal.SIGSTOP)
            if await self._site.fetchval(HAS_RUN, str(slot.program.process.pid)):
                await slot.kill(0.0)
            else:
                slot.program.thaw()
        return False

    async def _all_ready(self) -> bool:
        return all(slot.ready for slot in self._slots.values())

    async def _no_request_left(self) -> bool:
        return not await self._site.fetchval("select exists (select from ledger.withdrawal)")
