"""Rows that are computed many at a time say what drafts say, or are left to the drafts."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.reconciler.columns.expected_columns import PlainWindow, expected_columns
from dueledger.reconciler.columns.plain_rows import KeptRows, PlainRows
from dueledger.reconciler.columns.terms import SEPARATOR
from dueledger.reconciler.expect.events import ExpectedEventRules
from dueledger.reconciler.expect.expected_rows import event_rows, occurrence_row
from dueledger.reconciler.expect.plain_events import InboxPage, PlainRules
from dueledger.reconciler.expect.plain_schedules import (
    LeftSpan,
    PlainSchedule,
    put_unit,
    unit_spans,
)
from dueledger.reconciler.expect.schedules import expected_drafts, schedule_drafts
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.sources import SourceTotals
from tests.examples import examples

START = datetime(2027, 3, 1, tzinfo=UTC)
END = START + timedelta(days=30)
MINUTE = timedelta(minutes=1)
RULE: dict[str, Any] = {
    "event": "PolicyActivated",
    "business_key": "data.policy",
    "cycle": "data.term",
    "effective_date": "data.expires.on",
    "when": {
        "relative": "P-30D",
        "to": "effective_date",
        "at": "02:30",
        "timezone": "America/New_York",
    },
}
Compared = tuple[int, ...]


def span(number: int, document: dict[str, Any], **since: datetime) -> DefinitionSpan:
    """Return a version in force."""
    name = document.get("definition", f"definition-{number}")
    definition = parse_definition(
        {"definition": name, "tenant": "acme", "kind": "Renewal", **document}
    )
    from_at = since.get("from_at", START)
    return DefinitionSpan(number, name, 1, definition, from_at, None, None)


def rows_of(plain: PlainRows, numbers: list[int]) -> list[Compared]:
    days, columns = plain.read(date(1970, 1, 1).toordinal(), date(2200, 1, 1).toordinal())
    kinds = dict.fromkeys(numbers, 1)
    return compared(PlainWindow(days, columns).as_expected(kinds, days[:0]))


def compared(columns: dict[str, Any]) -> list[Compared]:
    names = sorted(columns, key=lambda name: (name not in ("high", "low"), name))
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))


SCHEDULES: dict[str, dict[str, Any]] = {
    "minutes": {"when": {"cron": "* * * * *", "timezone": "UTC"}},
    "gap and fold": {"when": {"cron": "*/10 * * * *", "timezone": "America/New_York"}},
    "in a gap": {"when": {"cron": "30 2 * * *", "timezone": "America/New_York"}},
    "every": {"when": {"every": "PT7M", "anchor": "2027-01-01T00:00:30Z"}},
    "month": {
        "when": {
            "rrule": "FREQ=MONTHLY;BYDAY=-1FR",
            "start": "2026-01-01T09:00:15",
            "timezone": "Asia/Kathmandu",
        }
    },
    "business": {"when": {"business": "last", "at": "09:00", "timezone": "Europe/Berlin"}},
    "with terms": {
        "when": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
        "payload": {"b": "Prämie", "a": [1, None]},
        "labels": {"region": "south", "x": "1"},
        "sla": {"start_within": "PT1H", "complete_within": "PT5H"},
    },
    "smeared": {"when": {"cron": "0 9 * * *", "timezone": "UTC"}, "smear": "PT1H"},
}
PLAIN_SHARES = {"in a gap": 0.9, "gap and fold": 0.9, "business": 0.0, "smeared": 0.0}


def put_schedules(
    rows: PlainRows, schedules: list[PlainSchedule], totals: SourceTotals
) -> list[LeftSpan]:
    return [
        left
        for unit_span in unit_spans(schedules)
        for left in put_unit(rows, schedules, unit_span, totals, {})
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_occurrences_as_columns_and_those_left_are_those_of_the_drafts(name: str) -> None:
    version = span(7, {"business_key": "tick", **SCHEDULES[name]})
    end = START + timedelta(days=300 if name != "minutes" else 45)
    drafts = [*expected_drafts(version, end)]
    plain = PlainSchedule.of(version, end)
    kept, totals = KeptRows(), SourceTotals()
    rows = PlainRows(kept)
    left = put_schedules(rows, [plain] if plain else [], totals)
    count, found = totals.row_count, rows_of(rows, [7])
    for start, until in [each[1:] for each in left] if plain else [(START, end)]:
        for draft, _ in schedule_drafts(version, start, until):
            totals.add(draft.id.bytes)
    ids = {row[:2] for row in found}
    rows_of_drafts = [occurrence_row(7, *each, is_live=True) for each in drafts]
    of_drafts = compared(expected_columns(rows_of_drafts, {version.key: 1}, None))
    assert [row for row in of_drafts if row[:2] in ids] == found
    assert totals.row_count == len(drafts)
    assert count >= PLAIN_SHARES.get(name, 1.0) * len(drafts)


def on_day(day: str | int) -> dict[str, Any]:
    return {"on": day}


bodies: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "policy": st.one_of(
            st.sampled_from(["P-1", "Prämie 2", "", "a\u001fb", "\ud800", "x" * 513]),
            st.integers(-5, 10**20),
            st.booleans(),
            st.none(),
        ),
        "term": st.sampled_from(["2027", 2027, "1~r00000000", "x" * 190, "x" * 200, None, []]),
        "expires": st.one_of(
            st.builds(
                on_day,
                st.sampled_from(
                    ["2027-04-13", "2027-12-01", "20270413", "2027-02-30", "1969-01-01", "", 5]
                ),
            ),
            st.just("2027-04-13"),
        ),
        "more": st.sampled_from([1.5, {"z": 1, "a": [None]}, "\u001f", 2**70]),
    },
)
RULES = {
    "all data": RULE,
    "a part as payload": RULE | {"payload": {"policy": "data.policy", "none": "data.none"}},
    "with SLA": RULE | {"sla": {"complete_within": "P2D"}},
    "another path": RULE | {"cycle": "data.term || `1`"},
    "catch-up": RULE | {"catch_up": {"policy": "all", "window": "P1D"}},
    "cancelled": RULE | {"cancel_on": [{"event": "PolicyEnded", "business_key": "data.policy"}]},
}


@settings(max_examples=examples(25, full=60))
@given(
    events=st.lists(st.tuples(bodies, st.integers(0, 2)), max_size=12),
    first=st.sampled_from([*RULES]),
    second=st.sampled_from([*RULES]),
)
@example(
    events=[({"policy": "P-1", "term": "1", "expires": {"on": "2027-04-13"}}, 2)] * 2,
    first="all data",
    second="with SLA",
)
def test_items_of_events_as_columns_and_those_left_are_those_of_the_rules(
    events: list[tuple[dict[str, Any], int]], first: str, second: str
) -> None:
    versions = [
        span(1, RULES[first] | {"definition": "one"}),
        span(2, RULES[second] | {"definition": "one"}, from_at=START + timedelta(days=1)),
        span(3, RULES[second] | {"definition": "two"}, from_at=START + timedelta(days=1)),
    ]
    rules = ExpectedEventRules(versions)
    plain = PlainRules(rules.by_type)
    inbox: list[dict[str, Any]] = [
        {
            "event_no": number,
            **dict.fromkeys(("subject", "traceparent")),
            "tenant": "acme",
            "source": "s",
            "id": str(number),
            "type": "PolicyActivated",
            "occurred_at": START,
            "received_at": START + timedelta(days=days, seconds=-1),
            "body": body,
        }
        for number, (body, days) in enumerate(events)
        if (text := try_dump(body)) is not None and orjson.loads(text) == body
    ]
    page = InboxPage(
        [event["event_no"] for event in inbox],
        [microseconds_since_2000(event["received_at"]) for event in inbox],
        [
            f"acme{SEPARATOR}PolicyActivated{SEPARATOR}".encode() + orjson.dumps(event["body"])
            for event in inbox
        ],
    )
    left = plain.add(page)
    rows = PlainRows(KeptRows())
    plain.batch.put(rows)
    totals = rows.finish("a unit").totals
    found = rows_of(rows, [1, 2, 3])
    of_rules = [
        row
        for event in inbox
        if event["event_no"] not in left
        for row in event_rows(cast("Any", event), rules.apply(cast("Any", event), Counter()))
    ]
    assert found == compared(expected_columns(of_rules, {("acme", "Renewal"): 1}, None))
    assert totals.rows == len(of_rules)
    usual = {"policy": "P-1", "term": "1", "expires": {"on": "2027-04-13"}}
    if first == "all data" and second in ("all data", "with SLA", "cancelled"):
        assert not [
            event for event in inbox if event["body"] == usual and event["event_no"] in left
        ]


def test_units_are_taken_as_long_as_they_are_needed_and_the_file_stays_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dueledger.reconciler.columns.plain_rows._UNUSED_BYTES_MAX", 0)
    monkeypatch.setattr("dueledger.reconciler.expect.plain_schedules._UNIT_OCCURRENCES", 10_000)
    kept = KeptRows()
    schedule = PlainSchedule.of(span(7, {"business_key": "tick", **SCHEDULES["minutes"]}), END)
    assert schedule is not None

    def put(end: datetime) -> tuple[PlainRows, SourceTotals]:
        rows, totals = PlainRows(kept), SourceTotals()
        schedule.end = end
        assert put_schedules(rows, [schedule], totals) == []
        return rows, totals

    before, _ = put(END)
    kept.keep(before.units)
    again, totals = put(END)
    assert again.units == before.units
    assert rows_of(again, [7]) == rows_of(before, [7])
    assert totals.row_count == sum(again.counts.values()) == (END - START) // MINUTE
    later, _ = put(END + MINUTE)
    assert len(again.units.keys() - later.units.keys()) <= 1
    assert len(later.units.keys() - again.units.keys()) == 1
    kept.keep({name: later.units[name] for name in list(later.units)[:1]})
    assert kept.units == {}, "most of its file was of no use"
    assert put(END)[0].counts == again.counts


def try_dump(body: dict[str, Any]) -> bytes | None:
    try:
        return orjson.dumps(body)
    except TypeError:
        return None


def microseconds_since_2000(instant: datetime) -> int:
    return (instant - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
