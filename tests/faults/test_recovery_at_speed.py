"""Recovery by the defaults and under 2,000 items a second: outages, and a rolling restart."""

import asyncio
from datetime import timedelta

import pytest

from . import measures
from .programs import eventually, moment
from .site import LONG_AGO, Site
from .supervision import Slot, supervised
from .timetable import Timetable

pytestmark = pytest.mark.faults
PER_SECOND = 2000
KINDS = 2
WORKERS = 3
FLOOD_ITEMS = 40_000
CALM_SECONDS = 10
BACK_SECONDS = 15
BACK_SHARE = 0.9
DRAIN_SHARE = 0.8
RESTART_SECONDS = 5
COUNTED = """
select count(*) from ledger.transition where event in (6, 7, 9) or attempt > 1
"""


def _slots(site: Site) -> dict[str, Slot]:
    return {
        "allocator 0": Slot(site.start_allocator),
        **{f"worker {number}": Slot(site.start_named_worker) for number in range(WORKERS)},
    }


async def _pipeline_per_second(site: Site, kind: str) -> float:
    """Measure how fast a flood is worked; it also lets every process begin."""
    emitted_from = await site.now()
    for _ in range(FLOOD_ITEMS // 2000):
        await site.emit(site.drafts(kind, 2000, due_at=LONG_AGO))
    await site.finished()
    first = await site.fetchval(
        "select min(at) from ledger.transition where at >= $1", emitted_from
    )
    last = await measures.last_ended(site, emitted_from)
    return FLOOD_ITEMS / (last - first).total_seconds()


@pytest.mark.parametrize(
    ("server", "seconds"), [("postgres", 20), ("kafka", 60)], ids=["postgres", "kafka"]
)
async def test_g5_after_an_outage_under_load_it_is_back_within_seconds_and_drains_at_full_speed(
    site: Site, server: str, seconds: int
) -> None:
    site.use_defaults()
    kinds = [await site.add_kind("quick") for _ in range(KINDS)]
    stack = site.servers.stack
    async with supervised(_slots(site).values()):
        await _pipeline_per_second(site, kinds[0])
        pipeline = await _pipeline_per_second(site, kinds[0])
        load_seconds = CALM_SECONDS + seconds + 4 * BACK_SECONDS
        load = await Timetable.plan(
            site, kinds, PER_SECOND, load_seconds, ahead=CALM_SECONDS + seconds
        )
        async with load.emitted():
            await measures.after(site, load.starts_at, CALM_SECONDS)
            down_at = await site.now()
            if server == "postgres":
                await asyncio.to_thread(stack.postgres.stop, "immediate")
            else:
                await asyncio.to_thread(stack.kafka.stop)
            await moment(seconds)
            await asyncio.to_thread(getattr(stack, server).start)
            up_at = await eventually(site.now)

            async def caught_up() -> bool:
                return await measures.count_waiting(site) <= PER_SECOND

            backlog = await measures.count_waiting(site)
            await eventually(caught_up)
            caught_up_at = await site.now()
    before = await measures.ended_per_second(site, load.starts_at, down_at)
    back = await measures.seconds_until_back(site, up_at, BACK_SHARE * PER_SECOND)
    drained_from = up_at + timedelta(seconds=back)
    drained = await measures.ended_per_second(site, drained_from, caught_up_at)
    print(  # noqa: T201  # the figures
        f"{server} away {seconds} s: pipeline {pipeline:.0f}/s, before {before:.0f}/s, backlog "
        f"{backlog}, back after {back:.1f} s, drained at {drained:.0f}/s in "
        f"{(caught_up_at - up_at).total_seconds():.1f} s"
    )
    assert back <= BACK_SECONDS
    assert drained >= DRAIN_SHARE * pipeline


async def test_g5_a_rolling_restart_under_load_counts_no_attempt_and_makes_nothing_late(
    site: Site,
) -> None:
    site.use_defaults()
    kinds = [await site.add_kind("quick") for _ in range(KINDS)]
    slots = _slots(site)
    async with supervised(slots.values()):
        await _pipeline_per_second(site, kinds[0])
        seconds = CALM_SECONDS + RESTART_SECONDS * (WORKERS + 1)
        load = await Timetable.plan(site, kinds, PER_SECOND, seconds, ahead=seconds)
        async with load.emitted():
            restarted_from = await measures.after(site, load.starts_at, CALM_SECONDS)
            for number in range(WORKERS):
                await slots[f"worker {number}"].terminate(0)
                await measures.after(site, restarted_from, RESTART_SECONDS * (number + 1))
        await measures.after(site, load.ends_at, 0)
        await site.finished()
    calm = await measures.lags(site, load.starts_at, restarted_from, kinds)
    lags = await measures.lags(site, restarted_from, load.ends_at, kinds)
    counted = await site.fetchval(COUNTED)
    print(f"rolling restart: before {calm}, meanwhile {lags}, counted {counted}")  # noqa: T201
    assert [each for slot in slots.values() for each in slot.surprises] == []
    assert counted == 0
    assert lags.p99_seconds <= 1.0
