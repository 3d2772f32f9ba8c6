"""A fence alone names no claim: a start and a settlement repeat when it was made, and its token."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.claim_id import ClaimId, new_claim_id, parse_claim_id
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.claims import mark_published, release_claims
from dueledger.ledger.store.runs import (
    Outcome,
    RefusedSettlement,
    RunId,
    Settlement,
    SettleRefusal,
    StartRefusal,
    StartResult,
    extend_leases,
    settle_runs,
    start_runs,
)
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger

INSTANT = datetime(2026, 11, 22, 20, 1, 2, 3, tzinfo=UTC)
CLAIM_ID = ClaimId(51, INSTANT, "00c0ffee00c0ffee")


async def start(ledger: Ledger, claim_id: ClaimId, size: int = 1) -> StartResult:
    (started,) = await start_runs(
        ledger.connection, [claim_id], [1], [size], worker_no=ledger.worker_no, lease_seconds=60
    )
    return started


@given(
    st.integers(min_value=1, max_value=2**63 - 1),
    st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001  # the strategy adds the zone
        max_value=datetime.max,  # noqa: DTZ901
        timezones=st.just(UTC),
    ),
)
def test_a_claim_is_read_from_a_record_as_it_was_written(fence: int, claimed_at: datetime) -> None:
    claim_id = new_claim_id(fence, claimed_at)
    assert parse_claim_id(fence, claim_id.token_text) == claim_id


def test_no_two_claims_have_the_same_token() -> None:
    tokens = {new_claim_id(1, INSTANT).token for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert {len(token) for token in tokens} == {16}


@pytest.mark.parametrize(
    "text",
    [
        "",
        CLAIM_ID.token,
        CLAIM_ID.token_text.upper(),
        CLAIM_ID.token_text + "0",
        " " + CLAIM_ID.token_text[1:],
        CLAIM_ID.token_text[:-1] + "\n",
        CLAIM_ID.token_text[:-1] + "٤",
        "f" * 32,
    ],
)
def test_a_malformed_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hex digits|9999"):
        parse_claim_id(51, text)


@pytest.mark.parametrize(
    "changed",
    [
        {"token": "00c0ffee00c0ffee"},
        {"token": ""},
        {"claimed_at": INSTANT},
        {"claimed_at": datetime(1970, 1, 1, tzinfo=UTC)},
    ],
    ids=["token", "no token", "time", "time before all partitions"],
)
async def test_g4_a_start_with_another_token_or_time_is_a_mismatch_and_recorded(
    ledger: Ledger, changed: dict[str, str]
) -> None:
    (item,) = await ledger.emit()
    claim = await ledger.claim()

    refused = await start(ledger, claim.id._replace(**changed))

    assert (refused.run, refused.refusal) == (None, StartRefusal.MISMATCH)
    assert (refused.closed, refused.started_to) == (True, 0)
    assert await ledger.rejected() == [("start", "mismatch")]
    assert await ledger.state_of(item) is State.CLAIMED
    assert (await start(ledger, claim.id)).run is not None
    await ledger.check_balance()


async def test_g4_one_slice_of_a_mismatch_keeps_no_other_from_its_start(ledger: Ledger) -> None:
    await ledger.emit(2)
    claims = [await ledger.claim(limit=1) for _ in range(2)]
    asked = [claims[0].id._replace(token="0" * 16), claims[1].id]

    starts = await start_runs(
        ledger.connection, asked, [1, 1], [1, 1], worker_no=ledger.worker_no, lease_seconds=60
    )

    assert [started.refusal for started in starts] == [StartRefusal.MISMATCH, None]
    assert [started.run is None for started in starts] == [True, False]


async def test_g4_a_run_number_given_again_settles_and_extends_nothing_of_another_time(
    ledger: Ledger,
) -> None:
    placed = await ledger.place(State.RUNNING)
    (run,) = await run_ids(ledger.connection, [placed.run_no])
    lost = run._replace(started_at=run.started_at - timedelta(seconds=9))

    refused = await settle_runs(
        ledger.connection,
        [Settlement(lost, [Outcome(TransitionEvent.COMPLETED)])],
        ledger.worker_no,
    )

    assert refused == [RefusedSettlement(placed.run_no, SettleRefusal.STALE)]
    assert await ledger.rejected() == [("settle", "stale")]
    assert await extend_leases(ledger.connection, [lost], ledger.worker_no, 60) == {}
    assert await ledger.state_of(placed.id) is State.RUNNING


async def test_g7_a_settlement_whose_claim_is_not_found_loses_no_item(ledger: Ledger) -> None:
    """A defect in what a worker keeps must not close a run whose items have no transition."""
    placed = await ledger.place(State.RUNNING)
    (run,) = await run_ids(ledger.connection, [placed.run_no])
    wrong = RunId(run.run_no, run.started_at, INSTANT - timedelta(days=999))

    refused = await settle_runs(
        ledger.connection,
        [Settlement(wrong, [Outcome(TransitionEvent.COMPLETED)])],
        ledger.worker_no,
    )

    assert refused == [RefusedSettlement(placed.run_no, SettleRefusal.STALE)]
    assert await ledger.state_of(placed.id) is State.RUNNING
    assert await ledger.settle(placed.run_no, TransitionEvent.COMPLETED) == []
    await ledger.check_balance()


async def test_g4_a_claim_of_another_time_is_neither_marked_nor_released(ledger: Ledger) -> None:
    placed = await ledger.place(State.CLAIMED)
    (claim_id,) = await claim_ids(ledger.connection, [placed.fence])
    lost = claim_id._replace(claimed_at=claim_id.claimed_at - timedelta(seconds=9))

    assert await mark_published(ledger.connection, [lost], [7]) == []
    assert await release_claims(ledger.connection, [lost], ledger.worker_no) == 0

    assert await ledger.state_of(placed.id) is State.CLAIMED
    assert await ledger.connection.fetchval("select published_at from ledger.claim") is None
