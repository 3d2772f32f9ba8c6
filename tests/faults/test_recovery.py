"""Once everything is healthy again, it is as fast as before."""

import os

import pytest

from .checker import violations
from .recovery import Lengths, Way, recover
from .site import Site
from .storm import Storm

pytestmark = pytest.mark.long

STORM = Lengths(calm=10, storm=60, window=30, patience=90)
SHORT = Lengths(calm=2, storm=3, window=4, patience=60)
SHORT_SEED = 16362
"""A worker stops for longer than its lease, Postgres crashes, and an allocator is killed."""
SECONDS_MAX = 30
SHARE_MIN = 0.7


async def _recovers(site: Site, seed: int, way: Way, lengths: Lengths) -> None:
    storm = Storm(seed)
    try:
        recovery = await recover(site, storm, seed, way, lengths)
        storm.note(f"{way} seed {seed}: {recovery}")
        assert recovery.open_due == 0
        assert recovery.seconds <= SECONDS_MAX
        assert recovery.after_per_second >= SHARE_MIN * recovery.before_per_second
        await site.finished()
        assert await site.end_all() == {}
        assert await violations(site) == []
    finally:
        test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
        print(f"make test-faults ARGS='{test}'", *storm.steps, sep="\n")  # noqa: T201


@pytest.mark.timed
@pytest.mark.parametrize("way", [pytest.param("direct", marks=pytest.mark.full), "kafka"])
async def test_g5_after_a_short_storm_it_is_as_fast_as_before(site: Site, way: Way) -> None:
    await _recovers(site, SHORT_SEED, way, SHORT)


@pytest.mark.faults
@pytest.mark.parametrize("way", ["kafka", "direct"])
@pytest.mark.parametrize("seed", range(20))
async def test_g5_after_a_minute_of_faults_it_is_as_fast_as_before(
    site: Site, seed: int, way: Way
) -> None:
    await _recovers(site, seed, way, STORM)
