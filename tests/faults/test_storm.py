"""Everything at once, at random: after it, every guarantee holds."""

import os
import secrets

import pytest

from .checker import violations
from .site import Site
from .storm import Storm

SEED_VARIABLE = "DUELEDGER_FAULT_SEED"
SECONDS_VARIABLE = "DUELEDGER_FAULT_SECONDS"


async def ride_out(site: Site, seconds: float) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbelow(1 << 32))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201  # shown when the test fails
    storm = Storm(site, seed)
    try:
        await storm.rage(seconds)
        assert storm.surprises == []
        assert await site.end_all() == {}
        assert await violations(site) == []
        assert await site.completed_kinds() == site.kinds.keys()
    finally:
        print(*storm.told, sep="\n")  # noqa: T201


@pytest.mark.long
async def test_g5_two_minutes_of_random_faults_break_no_guarantee(site: Site) -> None:
    await ride_out(site, 120.0)


@pytest.mark.faults
async def test_g5_ten_minutes_of_random_faults_break_no_guarantee(site: Site) -> None:
    await ride_out(site, float(os.environ.get(SECONDS_VARIABLE) or 600.0))
