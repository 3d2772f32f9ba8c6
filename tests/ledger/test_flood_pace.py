"""The pace of floods: bounded, and back at full speed when nothing is late."""

from collections import deque
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.console.clock import PageClock, zone_of
from dueledger.flow_status import slowed_text
from dueledger.ledger.flows.flood_pacer import FloodPacer
from dueledger.ledger.rules.flood_pace import (
    DECREASE,
    GROWTH,
    INCREASE,
    ITEMS_MIN,
    REST_SECONDS_MAX,
    SHARE_FIRST,
    SHARE_MIN,
    STEP_SECONDS_MAX,
    STEP_SECONDS_MIN,
    LagCount,
    LagTargets,
    next_share,
    paced_items,
    rest_seconds,
    spacing_seconds,
    step_seconds,
)
from dueledger.ledger.store.claims import FLOOR_MIN, claim_items, release_claims
from dueledger.ledger.store.direct_claims import claim_and_start_items
from dueledger.ledger.store.flood_paces import StoredPace, read_flood_pace, step_flood_pace
from dueledger.ledger.store.flows import list_flows

from .conftest import Ledger

EARLY, NEAR, LATE = LagCount(100, 10, 10), LagCount(100, 10, 11), LagCount(100, 11, 11)
UNKNOWN = LagCount(0, 0, 0)
RECOVERY_SECONDS = 2.0
DELAY_STEPS = 2
shares = st.floats(SHARE_MIN, 1, width=32)
counts = st.builds(LagCount, st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))


@given(shares, st.lists(counts, max_size=200))
def test_the_share_stays_within_its_bounds_whatever_is_counted(
    share: float, seen: list[LagCount]
) -> None:
    for count in seen:
        before, share = share, next_share(share, count)
        assert SHARE_MIN <= share <= 1
        if count.is_late:
            assert share == max(SHARE_MIN, before * DECREASE)
        else:
            assert share == min(1, before * (GROWTH if count.is_early else INCREASE))


@given(shares)
def test_floods_are_at_full_speed_again_after_two_seconds_without_late_claims(
    share: float,
) -> None:
    for _ in range(round(RECOVERY_SECONDS / STEP_SECONDS_MIN)):
        share = next_share(share, EARLY)
    assert share == 1


def _lag(share: float, bearable: float) -> LagCount:
    """Count claims of a queue whose wait is half of the target at 0.8 of the bearable share."""
    return LATE if share > bearable else NEAR if share > 0.8 * bearable else EARLY


@given(st.floats(SHARE_MIN, 1), shares)
def test_the_share_comes_near_what_the_others_bear_within_three_seconds_and_stays_there(
    bearable: float, share: float
) -> None:
    """What is counted is what the share caused two steps ago; nothing counts again after a fall."""
    effects = deque([UNKNOWN] * DELAY_STEPS, DELAY_STEPS)
    seen: list[float] = []
    for _ in range(round(20 / STEP_SECONDS_MIN)):
        count = effects.popleft()
        effects.append(_lag(share, bearable))
        share = next_share(share, count)
        if count.is_late:
            effects = deque([UNKNOWN] * DELAY_STEPS, DELAY_STEPS)
        seen.append(share)
    settled = seen[round(3 / STEP_SECONDS_MIN) :]
    overshoot = GROWTH ** (DELAY_STEPS + 1)
    assert max(settled) <= min(1, bearable * overshoot) + 1e-9
    assert min(settled) >= max(SHARE_MIN, DECREASE * bearable) - 1e-9
    assert sum(settled) / len(settled) >= 0.85 * bearable


def test_a_step_is_long_enough_to_know_what_is_late_and_a_rest_is_bounded() -> None:
    assert [step_seconds(target) for target in (0.001, 0.4, 3600)] == [
        STEP_SECONDS_MIN,
        0.8,
        STEP_SECONDS_MAX,
    ]
    assert rest_seconds(1, 0.02) == rest_seconds(1, inf) == 0
    assert rest_seconds(0.25, 0.02) == pytest.approx(0.06)
    assert rest_seconds(SHARE_MIN, 60) == REST_SECONDS_MAX
    assert [paced_items(share, 2000) for share in (0.125, 0.5, 1)] == [ITEMS_MIN, 1000, 2000]
    assert paced_items(0.125, 90) == 90
    assert [spacing_seconds(target) for target in (0.04, 3600)] == [0.01, 0.05]


async def _pend(ledger: Ledger, lane: str, seconds_ago: float, target: float | None) -> int:
    """Emit an item of a lane that could be claimed so long ago; return the number of its flow."""
    await ledger.emit(1, lane=lane)
    flow_no: int = await ledger.connection.fetchval(
        "update ledger.flow set lag_target_seconds = $2 where lane = $1 returning flow_no",
        lane,
        target,
    )
    await ledger.connection.execute(
        "update ledger.pending set available_at = ledger.now() - make_interval(secs => $2)"
        " where flow_no = $1",
        flow_no,
        seconds_ago,
    )
    return flow_no


async def _start_directly(ledger: Ledger, flow_nos: list[int]) -> None:
    await claim_and_start_items(
        ledger.connection,
        flow_nos,
        [10] * len(flow_nos),
        group_nos=[0] * len(flow_nos),
        apart=[False] * len(flow_nos),
        floors=[FLOOR_MIN] * len(flow_nos),
        run_seconds=[None] * len(flow_nos),
        worker_no=ledger.worker_no,
        lease_seconds=60,
        lag_flow_nos=flow_nos,
    )


async def _read(ledger: Ledger) -> StoredPace:
    return await read_flood_pace(
        ledger.connection, window_seconds=3600, target_seconds=3600, claims_max=100
    )


async def test_a_claim_has_the_flow_whose_target_it_misses_first(ledger: Ledger) -> None:
    """The longest wait is not the reason if its target is longer still; nor is one without."""
    slow = await _pend(ledger, "slow", 30, 3600)
    late = await _pend(ledger, "late", 20, 5)
    other = await _pend(ledger, "other", 300, None)
    await _start_directly(ledger, [slow, late])
    await _start_directly(ledger, [other])
    stored = await _read(ledger)
    assert (stored.count, stored.stepped_at) == (LagCount(1, 1, 1), None)
    assert stored.latest is not None
    assert (stored.latest.flow_no, stored.latest.lag_target_seconds) == (late, 5)
    assert stored.latest.lag_seconds >= 20


@pytest.mark.parametrize(
    ("target", "end", "count"),
    [
        (3600, "", LagCount(0, 0, 0)),  # not started, and not late yet
        (5, "", LagCount(1, 1, 1)),  # not started, and late whenever it is
        (3600, "start", LagCount(1, 0, 0)),
        (30, "start", LagCount(1, 0, 1)),
        (5, "start", LagCount(1, 1, 1)),
        (5, "release", LagCount(0, 0, 0)),
    ],
)
async def test_a_claim_counts_as_late_from_when_it_cannot_be_started_in_time(
    ledger: Ledger, target: float, end: str, count: LagCount
) -> None:
    flow_no = await _pend(ledger, "", 20, target)
    claim = await ledger.claim()
    assert (await _read(ledger)).count == LagCount(0, 0, 0), "nobody asked for its lag"
    await ledger.connection.execute(
        "update ledger.claim set lag_flow_no = $1,"
        " available_since = ledger.now() - interval '20 seconds'",
        flow_no,
    )
    if end == "start":
        await ledger.start(claim.fence)
    elif end == "release":
        await release_claims(ledger.connection, [claim.id], ledger.worker_no)
    assert (await _read(ledger)).count == count
    connection = ledger.connection
    old = await read_flood_pace(connection, window_seconds=0, target_seconds=60, claims_max=100)
    assert old.count == LagCount(0, 0, 0)


async def test_a_claim_counts_when_its_lag_is_known_however_long_ago_it_was_made(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    flow_no = await _pend(ledger, "", 20, 5)
    claim = await ledger.claim()
    await ledger.start(claim.fence)
    await ledger.connection.execute(
        "update ledger.claim set lag_flow_no = $1, claimed_at = claimed_at - interval '8 s',"
        " available_since = ledger.now() - interval '20 s'",
        flow_no,
    )
    for target, count in ((10.0, LagCount(1, 1, 1)), (1.0, LagCount(0, 0, 0))):
        stored = await read_flood_pace(
            ledger.connection, window_seconds=5, target_seconds=target, claims_max=100
        )
        assert stored.count == count


async def test_a_step_is_due_if_the_clock_of_the_database_was_set_back(ledger: Ledger) -> None:
    await ledger.connection.execute(
        "update ledger.flood_pace set stepped_at = ledger.machine_now() + interval '1 hour'"
    )
    pacer = FloodPacer()
    await pacer.refresh(ledger.connection, LagTargets(0.05, 0.05))
    stored = await _read(ledger)
    assert stored.age_seconds < 60


async def test_a_claim_of_an_allocator_has_since_when_items_could_be_claimed(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    asked = await _pend(ledger, "asked", 20, 5)
    other = await _pend(ledger, "other", 30, 5)
    rows = await claim_items(
        ledger.connection, [asked, other], [9, 9], with_fences=True, lag_flow_nos=[asked]
    )
    assert rows.available_since.keys() == {asked}
    assert rows.due_seconds.keys() == {asked, other}
    waited = (rows.claimed_at - rows.available_since[asked]).total_seconds()
    assert waited >= 20


async def test_one_of_two_processes_steps_the_pace_and_later_items_alone_count(
    ledger: Ledger,
) -> None:
    flow_no = await _pend(ledger, "", 20, 5)
    await _start_directly(ledger, [flow_no])
    stored = await _read(ledger)
    share, late = 0.5, stored.latest
    assert late is not None
    for fence, steps in ((stored.stepped_at, True), (stored.stepped_at, False)):
        assert steps is await step_flood_pace(ledger.connection, fence, share, late=late)
    after = await _read(ledger)
    assert (after.share, after.count) == (share, LagCount(0, 0, 0))
    assert await step_flood_pace(ledger.connection, after.stepped_at, 0.75, late=None)
    cause = await ledger.connection.fetchrow("select * from ledger.flood_pace")
    assert cause is not None
    assert (cause["flow_no"], cause["lag_target_seconds"]) == (flow_no, 5)
    assert cause["slowed_at"] is not None
    last = (await _read(ledger)).stepped_at
    assert await step_flood_pace(ledger.connection, last, 1.0, late=None)
    cause = await ledger.connection.fetchrow("select flow_no, slowed_at from ledger.flood_pace")
    assert cause is not None
    assert tuple(cause) == (None, None)


async def test_a_flood_begins_slowly_and_has_its_full_speed_without_a_target(
    ledger: Ledger,
) -> None:
    pacer = FloodPacer()
    await pacer.refresh(ledger.connection, LagTargets(0.05, 0.05))
    assert (pacer.share, pacer.items_of(4000)) == (SHARE_FIRST, 1000)
    assert pacer.next_claim_at(10.0) == 10.0  # nothing was claimed that it would rest from
    pacer.began(10.0)
    pacer.ended(10.02)
    pacer.ended(10.04)  # it has rested since 10.02
    assert pacer.next_claim_at(10.05) == pytest.approx(10.08)
    assert pacer.next_claim_at(60.0) == 60.0
    assert (pacer.needs_refresh, pacer.light_spacing_seconds) == (False, 0.0125)
    pacer.end()
    assert (pacer.share, pacer.items_of(4000), pacer.next_claim_at(10.03)) == (1, 4000, 10.03)
    assert pacer.light_spacing_seconds is None


async def test_a_flood_says_how_it_is_slowed_and_why_and_no_other_flow_does(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    late = await _pend(ledger, "late", 1, 0.05)
    await ledger.emit(201)
    await ledger.connection.execute(
        "update ledger.flood_pace set share = 0.125, stepped_at = ledger.machine_now(),"
        " slowed_at = '2027-03-01T12:03:00Z', flow_no = $1, lag_seconds = 0.18,"
        " lag_target_seconds = 0.05",
        late,
    )
    flows = {row["lane"]: slowed_text(row) for row in await list_flows(ledger.connection)}
    assert flows == {
        "": "since 2027-03-01 12:03:00 UTC fewer of its items are claimed at once, and only "
        "12% of the time, the least that floods have, because the lag of "
        f"acme × {ledger.kind} × late was 180 ms, above its target of 50 ms",
        "late": None,
    }
    zoned = PageClock(None, *zone_of("Europe/Berlin")).exact
    [text] = filter(None, (slowed_text(row, zoned) for row in await list_flows(ledger.connection)))
    assert text.startswith("since 2027-03-01 13:03:00 +01:00 fewer of its items")
    await ledger.connection.execute(
        "update ledger.flood_pace set stepped_at = stepped_at - interval '1 minute'"
    )
    assert not any(row["slowed_share"] for row in await list_flows(ledger.connection))
