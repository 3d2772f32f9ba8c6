"""Everything at once, at random: after it, every guarantee holds."""

import os

import pytest

from dueledger.ledger.states import TransitionEvent

from .checker import open_findings, violations
from .random_faults import RandomFaults
from .site import Site
from .storm import Storm, chosen_seed

SECONDS_VARIABLE = "DUELEDGER_FAULT_SECONDS"
# Otherwise the storm did not know what it is to know.
HAPPENED = {
    TransitionEvent.COMPLETED,
    TransitionEvent.FAILED,
    TransitionEvent.TIMED_OUT,
    TransitionEvent.SNOOZED,
    TransitionEvent.PARKED,
    TransitionEvent.REDRIVEN,
    TransitionEvent.CANCELLED,
    TransitionEvent.SUPERSEDED,
    TransitionEvent.SKIPPED,
    TransitionEvent.REVISED,
}


async def _run_for(site: Site, seconds: float, *, pace: float = 1.0) -> None:
    seed = chosen_seed()
    storm = Storm(seed, pace=pace)
    faults = RandomFaults(site, storm, seed)
    try:
        await faults.run(seconds)
        assert faults.surprises == []
        assert await site.end_all() == {}
        assert await violations(site) == []
        assert await site.completed_kinds() | {faults.poisoned} == site.kinds.keys()
        assert await site.recorded_events() >= HAPPENED
    finally:
        print(*storm.steps, sep="\n")  # noqa: T201


@pytest.mark.full  # `make test` has three seconds of it, in test_recovery
@pytest.mark.long
async def test_g5_a_minute_of_random_faults_breaks_no_guarantee(site: Site) -> None:
    """As many faults as in two minutes of the longer run: half of the items cost half."""
    await _run_for(site, 60.0, pace=2.0)


@pytest.mark.faults
async def test_g5_ten_minutes_of_random_faults_break_no_guarantee(site: Site) -> None:
    await _run_for(site, float(os.environ.get(SECONDS_VARIABLE) or 600.0))
    assert await open_findings(site) == []
