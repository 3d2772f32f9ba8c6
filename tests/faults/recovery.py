"""A storm, and how fast a site is afterwards: measured by the ledger's rows and their times."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from . import measures
from .breakages import faults_of_processes, faults_of_servers
from .changing_schedule import ChangingSchedule
from .load import Load
from .programs import eventually
from .storm_kinds import FOURTEEN, add_kinds
from .supervision import Slot, supervised
from .waiting_work import WaitingWork

if TYPE_CHECKING:
    from .site import Site
    from .storm import Storm

Way = Literal["kafka", "direct"]
ALLOCATORS: Final = 2
WORKERS: Final = 3
LOAD_ITEMS: Final = 15
FIRST_ITEMS: Final = 5  # of each kind, before the load
LOAD_SECONDS: Final = 0.1
RAMP_SECONDS: Final = 2.0  # until as many items end as are emitted
CANCELLED_SHARE: Final = 0.03


class Lengths(NamedTuple):
    """How long the phases take, in seconds. `window` is that in which recovery is measured."""

    calm: float
    storm: float
    window: float
    patience: float


class Recovery(NamedTuple):
    """What a storm left, and how fast it was made up."""

    before_per_second: float
    after_per_second: float
    backlog: int
    """Due and not ended when all was healthy again."""
    open_due: int
    """Of these, not ended when patience ended."""
    seconds: float
    """From then until the last of those that did end."""

    def __str__(self) -> str:
        return (
            f"before {self.before_per_second:.0f}/s, backlog {self.backlog}, ended after "
            f"{self.seconds:.1f} s at {self.after_per_second:.0f}/s, still open {self.open_due}"
        )


async def recover(site: Site, storm: Storm, seed: int, way: Way, lengths: Lengths) -> Recovery:
    """Run a load into a storm; measure it before, and once all is healthy again.

    Everything that was owed by then is an item when it returns.
    """
    start_worker = {"direct": site.start_direct_worker, "kafka": site.start_worker}[way]
    kinds = await add_kinds(site, dispatch=way)
    schedule = ChangingSchedule(site, await site.add_kind("single", dispatch=way), seed + 2)
    for kind, terms in zip(kinds, FOURTEEN, strict=True):
        storm.note(f"{kind} {terms.name}")
    slots = {
        **{f"allocator {number}": Slot(site.start_allocator) for number in range(ALLOCATORS)},
        **{f"worker {number}": Slot(start_worker) for number in range(WORKERS)},
        "materialiser 0": Slot(site.start_materialiser),
    }
    faults = [*faults_of_processes(slots), *faults_of_servers(site.servers)]
    load = Load(
        site=site,
        seed=seed,
        kinds=kinds,
        items=LOAD_ITEMS,
        seconds=LOAD_SECONDS,
        spread_seconds=(0.0, 1.0),
        cancelled_share=CANCELLED_SHARE,
    )
    for kind in kinds:
        await site.emit(site.drafts(kind, FIRST_ITEMS))
    async with supervised(slots.values()):

        async def all_worked() -> bool:
            return await site.completed_kinds() == set(kinds)

        await eventually(all_worked)
        async with WaitingWork(site, storm.note).sampled(), load.emitted(), schedule.changed():
            calm_from = await measures.after(site, await site.now(), RAMP_SECONDS)
            calm_until = await measures.after(site, calm_from, lengths.calm)
            storm.note("calm until now")
            await storm.rage(faults, lengths.storm)
            await site.servers.heal()
            healed_at = await eventually(site.now)
            backlog = await measures.count_open_due(site, healed_at)
            storm.note(f"healed; backlog {backlog}")

            async def ended() -> bool:
                return await measures.count_open_due(site, healed_at) == 0

            with suppress(AssertionError):
                await eventually(ended, seconds=lengths.patience)
            await measures.after(site, healed_at, lengths.window)
        await schedule.end()
    measured_until = healed_at + timedelta(seconds=lengths.window)
    last_ended = await measures.last_ended(site, healed_at)
    assert not [each for slot in slots.values() for each in slot.surprises]
    return Recovery(
        await measures.ended_per_second(site, calm_from, calm_until),
        await measures.ended_per_second(site, healed_at, measured_until),
        backlog,
        await measures.count_open_due(site, healed_at),
        (last_ended - healed_at).total_seconds(),
    )
