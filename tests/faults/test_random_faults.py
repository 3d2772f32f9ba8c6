"""Everything at once, at random: after it, every guarantee holds."""

import os
import secrets

import pytest

from .checker import violations
from .random_faults import RandomFaults
from .site import Site

SEED_VARIABLE = "DUELEDGER_FAULT_SEED"
SECONDS_VARIABLE = "DUELEDGER_FAULT_SECONDS"


async def _run_for(site: Site, seconds: float) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbelow(1 << 32))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201  # shown when the test fails
    faults = RandomFaults(site, seed)
    try:
        await faults.run(seconds)
        assert faults.surprises == []
        assert await site.end_all() == {}
        assert await violations(site) == []
        assert await site.completed_kinds() == site.kinds.keys()
    finally:
        print(*faults.steps, sep="\n")  # noqa: T201


@pytest.mark.long
async def test_g5_two_minutes_of_random_faults_break_no_guarantee(site: Site) -> None:
    await _run_for(site, 120.0)


@pytest.mark.faults
async def test_g5_ten_minutes_of_random_faults_break_no_guarantee(site: Site) -> None:
    await _run_for(site, float(os.environ.get(SECONDS_VARIABLE) or 600.0))
