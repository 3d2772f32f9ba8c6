"""How far apart claims for light flows begin."""

from dueledger.allocator.concurrent_claims import (
    SPACING_SECONDS,
    SPACING_SECONDS_MAX,
    spacing_seconds,
)


def test_claims_that_take_longer_begin_further_apart_within_bounds() -> None:
    apart = [spacing_seconds(seconds, heavy_active=False) for seconds in (0.0, 0.001, 0.012, 0.5)]
    assert apart == [SPACING_SECONDS, SPACING_SECONDS, 0.012, SPACING_SECONDS_MAX]


def test_beside_a_flood_claims_are_few_however_short() -> None:
    assert spacing_seconds(0.001, heavy_active=True) == SPACING_SECONDS_MAX
