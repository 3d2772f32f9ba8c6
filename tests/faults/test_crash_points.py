"""Processes killed at each step of an item: the next process finishes the work."""

import re
import signal
from pathlib import Path

import pytest

from dueledger.ledger.runtime.service import CRASH_VARIABLE

from .checker import violations
from .programs import Program, eventually
from .site import Site

ROOT = Path(__file__).parents[2]
PACKAGES = ("allocator", "dueledger", "ledger", "reconciler", "workers")
PASSES = (1, 2, 5)  # at which a victim dies: the first, and some with others under way
HANDLERS = ("batch", "single", "transaction")


def crash_points() -> list[str]:
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = [re.findall(r'crash_point\("([\w.]+)"\)', path.read_text("utf-8")) for path in sources]
    return sorted({name for names in found for name in names})


SWEPT = [name for name in crash_points() if name.startswith(("allocator.", "worker."))]


async def start_victim(site: Site, point: str, pass_: int = 0) -> Program:
    crash_at = {CRASH_VARIABLE: f"{point}:{pass_}" if pass_ else ""}
    if point.startswith("allocator."):
        return await site.start_allocator(**crash_at)
    return await site.start_worker(**crash_at)


@pytest.mark.faults
@pytest.mark.parametrize("point", SWEPT)
async def test_g5_g6_killed_at_this_step_everything_is_finished_by_the_next(
    site: Site, point: str
) -> None:
    kinds = [await site.add_kind(handler) for handler in HANDLERS]
    lasting = await (
        site.start_worker() if point.startswith("allocator.") else site.start_allocator()
    )
    for pass_ in PASSES:
        victim = await start_victim(site, point, pass_)

        async def died(victim: Program = victim) -> bool:
            for kind in kinds:
                await site.emit(site.drafts(kind, 30))
            return not victim.running

        await eventually(died)
        assert await victim.process.wait() == -signal.SIGKILL
    await start_victim(site, point)

    await site.finished()

    assert lasting.running
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == len(site.emitted)


def test_every_crash_point_of_the_product_is_in_a_sweep() -> None:
    tests = [path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    sweeps = [text for text in tests if "SIGKILL" in text]
    elsewhere = [name for name in crash_points() if name not in SWEPT]
    assert len(SWEPT) >= 9
    for name in elsewhere:
        assert any(all(part in text for part in name.split(".")) for text in sweeps), name
