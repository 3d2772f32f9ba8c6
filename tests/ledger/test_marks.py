"""The mark of an acknowledgement: what it makes of claims that are open, started or released."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pytest

from dueledger.ledger.store.claims import mark_published, release_claims
from dueledger.ledger.store.clock import set_clock, set_machine_clock
from dueledger.ledger.store.reported_outcomes import ReportedPlace, start_topic_runs

from .conftest import Ledger

MINUTE: Final = timedelta(minutes=1)
DISPATCH: Final = timedelta(seconds=30)
QUEUE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A claim of two items: how many are started, before its mark and after it, and its runs."""

    by_topic: bool = False
    started: int = 0
    released: bool = False
    started_after: int
    runs_after: int


CASES: Final = {
    "open": Case(started_after=0, runs_after=0),
    "started in part": Case(started=1, started_after=1, runs_after=1),
    "started": Case(started=2, started_after=2, runs_after=1),
    "released": Case(released=True, started_after=0, runs_after=0),
    "released in part": Case(started=1, released=True, started_after=1, runs_after=1),
    "settled by topic": Case(by_topic=True, started_after=2, runs_after=1),
    "started by an outcome": Case(by_topic=True, started=2, started_after=2, runs_after=1),
    "settled by topic and released": Case(
        by_topic=True, released=True, started_after=0, runs_after=0
    ),
}


async def _stand_at(ledger: Ledger, instant: datetime) -> None:
    await set_clock(ledger.connection, instant, 0)
    await set_machine_clock(ledger.connection, instant, 0)


async def _runs(ledger: Ledger) -> list[tuple[int, datetime]]:
    rows = await ledger.connection.fetch("select fence, started_at from ledger.run order by 1, 2")
    return [(row["fence"], row["started_at"]) for row in rows]


@pytest.mark.parametrize("after", [timedelta(0), MINUTE], ids=["at once", "later"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_g4_a_mark_starts_an_open_claim_settled_by_topic_and_changes_no_closed_one(
    undone_ledger: Ledger, noon: datetime, case: Case, after: timedelta
) -> None:
    ledger = undone_ledger
    await _stand_at(ledger, noon)
    await ledger.emit(2)
    claim = await ledger.claim(by_topic=case.by_topic)
    if case.by_topic and case.started:
        item = await ledger.connection.fetchval(
            "select i.id from ledger.due_item i join ledger.claim c on i.item_no = c.item_no[1]"
        )
        await start_topic_runs(ledger.connection, [ReportedPlace(claim.id, 1, item)])
    elif case.started:
        await ledger.start(claim.fence, 1, case.started)
    if case.released:
        await release_claims(ledger.connection, [claim.id], ledger.worker_no)
    closed_at = await ledger.connection.fetchval("select closed_at from ledger.claim")
    await _stand_at(ledger, noon + after)

    marked = await mark_published(ledger.connection, [claim.id], [7])

    assert marked == ([] if case.released else [claim.fence])
    row = await ledger.connection.fetchrow(
        "select published_at, base_offset, started, closed_at, deadline from ledger.claim"
    )
    assert row is not None
    starts = case.started_after > case.started
    assert tuple(row) == (
        noon + after,
        7,
        case.started_after,
        noon + after if starts else closed_at,
        noon + after + QUEUE if closed_at is None else noon + DISPATCH,
    )
    assert (closed_at is None) == (case.started < 2 and not case.released)
    started_at = noon + after if starts else noon
    assert await _runs(ledger) == [(claim.fence, started_at)] * case.runs_after


async def test_g4_a_mark_starts_a_claim_settled_by_topic_beside_runs_of_other_claims(
    undone_ledger: Ledger, noon: datetime
) -> None:
    """A run of another claim may have started at the same instant, or have the same fence."""
    ledger = undone_ledger
    fences: list[int] = []
    for instant in (noon, noon, noon + MINUTE):
        await _stand_at(ledger, instant)
        await ledger.emit()
        if fences[1:]:  # as after a restored backup
            await ledger.connection.execute("select setval('ledger.fence', $1, false)", fences[0])
        claim = await ledger.claim(by_topic=True)
        fences += await mark_published(ledger.connection, [claim.id], [0])
    assert fences[2] == fences[0]
    assert await _runs(ledger) == [
        (fences[0], noon),
        (fences[0], noon + MINUTE),
        (fences[1], noon),
    ]
