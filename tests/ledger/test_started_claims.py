"""start_runs for two of a claim's three items, in each state that the claim may be in."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from dueledger.ledger.store.runs import StartRefusal

from .conftest import Ledger

LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
ANOTHER: Final = 4_711
CLOSED: Final[dict[str, Any]] = {"closed_at": LONG_AGO}
STALE: Final = StartRefusal.STALE
WRONG_SETTLER: Final = StartRefusal.WRONG_SETTLER


@dataclass(frozen=True, slots=True)
class Case:
    """Columns of the claim, the first position asked for, and the answer."""

    claim: dict[str, Any] = field(default_factory=dict[str, Any])
    first: int = 1
    runs: bool = False
    started_to: int = 0
    closed: bool = False
    refusal: StartRefusal | None = None


CASES: Final[dict[str, Case]] = {
    "first": Case(runs=True, started_to=2),
    "rest": Case({"started": 1}, 2, runs=True, started_to=3),
    "another-allocator": Case({"allocator_no": ANOTHER}, runs=True, started_to=2),
    "direct": Case({"partition": -1}, runs=True, started_to=2),
    "gap": Case(first=2),
    "gap-another-allocator": Case({"allocator_no": ANOTHER}, 2),
    "gap-direct": Case({"partition": -1}, 2),
    "again": Case({"started": 2}, started_to=2),
    "again-when-all-is-started": Case({"started": 3, **CLOSED}, started_to=3, closed=True),
    "released": Case(CLOSED, closed=True, refusal=STALE),
    "rest-released": Case({"started": 1, **CLOSED}, 2, started_to=1, closed=True, refusal=STALE),
    "released-direct": Case({"partition": -1, **CLOSED}, closed=True, refusal=STALE),
    "direct-of-another": Case(
        {"partition": -1, "allocator_no": ANOTHER}, closed=True, refusal=WRONG_SETTLER
    ),
    "by-topic": Case({"topic_actor_no": ANOTHER}, closed=True, refusal=WRONG_SETTLER),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_g4_a_start_is_answered_and_changes_its_claim_as_the_claim_permits(
    undone_ledger: Ledger, case: Case
) -> None:
    ledger = undone_ledger
    await ledger.emit(3)
    claim = await ledger.claim()
    for column, value in case.claim.items():
        await ledger.connection.execute(f"update ledger.claim set {column} = $1", value)  # noqa: S608 - names of the test

    start = await ledger.start(claim.fence, case.first, case.first + 1)

    assert (start.run is not None, start.started_to) == (case.runs, case.started_to)
    assert (start.closed, start.refusal) == (case.closed, case.refusal)
    rejected = [] if case.refusal is None else [("start", case.refusal)]
    assert await ledger.rejected() == rejected
    (row,) = await ledger.connection.fetch(
        "select started, closed_at is not null as closed from ledger.claim"
    )
    before = (case.claim.get("started", 0), "closed_at" in case.claim)
    after = (case.started_to, case.started_to == 3) if case.runs else before
    assert tuple(row) == after
