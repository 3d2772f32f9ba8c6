"""A newer version ends older ones' pending items in its span; others differ in one thing."""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.definitions import supersede_waiting

from .conftest import Ledger
from .versions import define_versions, emit_for_version

NOON: Final = datetime(2027, 3, 10, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
INSTANT: Final = timedelta(microseconds=1)
FIRST_DAY, LAST_DAY = date(2027, 3, 10), date(2027, 3, 11)
LAST: Final = NOON + timedelta(hours=24)
"""The span ends then."""


def _days(day: date, days: int) -> date:
    return day + timedelta(days=days)


@dataclass(frozen=True, slots=True)
class Case:
    """An item of the first version, due in the span, and what was done to it."""

    ends: bool = True
    terms: dict[str, Any] = field(default_factory=dict[str, Any])
    version: str = "first"
    done: str = ""


CASES: Final[dict[str, Case]] = {
    "waits": Case(),
    "at-the-start": Case(terms={"due_at": NOON}),
    "before-it": Case(ends=False, terms={"due_at": NOON - INSTANT}),
    "smeared-into-it": Case(ends=False, terms={"due_at": NOON, "smear_seconds": 1}),
    "before-the-end": Case(terms={"due_at": LAST - INSTANT}),
    "at-the-end": Case(ends=False, terms={"due_at": LAST}),
    "smeared-out-of-it": Case(terms={"due_at": LAST + HOUR, "smear_seconds": 3601}),
    "of-the-earliest-day": Case(terms={"effective_date": _days(FIRST_DAY, -2)}),
    "of-an-earlier-day": Case(ends=False, terms={"effective_date": _days(FIRST_DAY, -3)}),
    "of-the-latest-day": Case(terms={"effective_date": _days(LAST_DAY, 2)}),
    "of-a-later-day": Case(ends=False, terms={"effective_date": _days(LAST_DAY, 3)}),
    "of-the-earliest-month": Case(ends=False, terms={"effective_date": _days(FIRST_DAY, -60)}),
    "of-an-earlier-month": Case(ends=False, terms={"effective_date": _days(FIRST_DAY, -61)}),
    "of-the-latest-month": Case(ends=False, terms={"effective_date": _days(LAST_DAY, 60)}),
    "of-a-later-month": Case(ends=False, terms={"effective_date": _days(LAST_DAY, 61)}),
    "by-hand": Case(ends=False, terms={"nominal": None}),
    "of-another-key": Case(ends=False, terms={"business_key": "another"}),
    "of-an-event": Case(ends=False, version="of events"),
    "own": Case(ends=False, version="second"),
    "newer": Case(ends=False, version="third"),
    "another-name": Case(ends=False, version="another name"),
    "another-tenant": Case(ends=False, version="another tenant"),
    "expedited": Case(
        ends=False,
        done="insert into ledger.expedited values ($1, '2027-03-10', now(), 1, 'test', 1, now())",
    ),
    "retry": Case(ends=False, done="update ledger.pending set state = 4 where item_no = $1"),
    "attempt": Case(ends=False, done="update ledger.pending set attempt = 1 where item_no = $1"),
    "started": Case(ends=False, done="update ledger.pending set starts = 1 where item_no = $1"),
}
CHAINED: Final = {"at-the-end", "of-a-later-day", "of-the-latest-month", "of-a-later-month"}
"""Items of a chain end however late they are due."""
ROLLED: Final = {
    "of-an-earlier-day",
    "of-a-later-day",
    "of-the-earliest-month",
    "of-the-latest-month",
}
"""A calendar may move an item by weeks from its day."""


@pytest.mark.parametrize(
    ("document", "others"),
    [
        ('{"business_key": "one", "when": {"cron": "0 * * * *"}}', set[str]()),
        ('{"business_key": "one", "when": {"after_completion": "PT1H"}}', CHAINED),
        ('{"business_key": "one", "when": {}, "calendar": {"name": "c"}}', ROLLED),
    ],
    ids=["times", "chain", "calendar"],
)
async def test_g13_a_newer_version_ends_only_older_items_of_its_span_that_wait(
    undone_ledger: Ledger, document: str, others: set[str]
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    versions = await define_versions(ledger, document)
    numbers: dict[str, int] = {}
    for name, case in CASES.items():
        (draft,) = ledger.make_drafts(effective_date=FIRST_DAY, due_at=NOON + HOUR)
        terms = {"business_key": "one", "cycle": name, "nominal": name, **case.terms}
        draft = replace(draft, **terms)
        numbers[name] = await emit_for_version(ledger, draft, versions[case.version], case.done)
    ended = [numbers[name] for name, case in CASES.items() if case.ends or name in others]

    async def supersede(limit: int) -> int:
        return await supersede_waiting(
            ledger.connection,
            versions["second"],
            NOON,
            LAST,
            actor_no=ledger.other_worker_no,
            limit=limit,
        )

    assert await supersede(2) == 2
    assert await supersede(100) == len(ended) - 2
    rows = await ledger.connection.fetch(
        "select item_no, event, attempt, actor_no, at, detail from ledger.transition"
        " order by item_no"
    )
    why = {"reason": "version", "version": 3}
    assert [tuple(row) for row in rows] == [
        (number, 12, 0, ledger.other_worker_no, NOON, why) for number in ended
    ]
    for table in ("pending", "withdrawal"):
        left = await ledger.connection.fetch(
            f"select item_no from ledger.{table} order by 1"  # noqa: S608 - names of the test
        )
        assert [row["item_no"] for row in left] == sorted({*numbers.values()} - {*ended})
