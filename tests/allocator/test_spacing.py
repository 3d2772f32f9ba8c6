"""How far apart claims for light flows begin."""

from dueledger.allocator.concurrent_claims import (
    BURST_CLAIMS,
    SPACING_SECONDS,
    SPACING_SECONDS_MAX,
    ClaimPace,
    spacing_seconds,
)


def test_claims_that_take_longer_begin_further_apart_within_bounds() -> None:
    apart = [spacing_seconds(seconds, 0.0) for seconds in (0.0, 0.001, 0.012, 0.5)]
    assert apart == [SPACING_SECONDS, SPACING_SECONDS, 0.012, SPACING_SECONDS_MAX]


def test_beside_a_flood_claims_are_few_however_short() -> None:
    assert spacing_seconds(0.001, 0.04) == 0.04


def _starts(wanted: list[float], spacing: float) -> list[float]:
    """Return when claims start that are wanted at these times, in order."""
    pace, now, starts = ClaimPace(), 0.0, list[float]()
    for each in wanted:
        now = max(now, each, pace.next_start_at(spacing))
        pace.started(spacing, now=now)
        starts.append(now)
    return starts


def test_claims_that_are_wanted_less_often_than_their_spacing_start_when_they_are_wanted() -> None:
    wanted = [0.0, 9.0, 10.0, 21.0, 30.0, 31.0, 32.0, 60.0]  # a mean of 7.5, and three at once
    assert _starts(wanted, 6.0) == wanted


def test_claims_that_are_always_wanted_start_a_spacing_apart_after_one_burst() -> None:
    starts = _starts([0.0] * 100, 6.0)
    assert starts[:BURST_CLAIMS] == [0.0] * BURST_CLAIMS
    assert starts[-1] == 6.0 * (100 - BURST_CLAIMS)
