"""The pure parts, compared with the simplest correct code."""

import math
import os
import random
import tracemalloc
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.finding_types import FINDING_RULES, FindingType
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.event_issues import Withdrawal, microseconds_of, sort_withdrawals
from dueledger.ledger.states import TransitionEvent
from dueledger.reconciler.compare.comparison import Comparison, FlowRules
from dueledger.reconciler.compared_items import ActualItem, ExpectedItem, expected_row
from dueledger.reconciler.expect.events import expected_issues
from dueledger.reconciler.expect.item_terms import instant_of
from dueledger.reconciler.expect.spool import Spool
from dueledger.reconciler.find.findings import source_failed, uuid8
from dueledger.reconciler.lateness import Lateness
from dueledger.reconciler.report.model import report_schema
from dueledger.reconciler.sources import PopulationBounds
from dueledger.reconciler.sources_file import load_sources
from dueledger.reconciler.windows import plan_windows

AS_OF = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAY = date(2027, 3, 1)
SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"

keys = st.sets(st.integers(0, 40), max_size=25)


def expected_of(key: int) -> ExpectedItem:
    return ExpectedItem(
        item_id("acme", "K", f"key-{key}", "1", DAY).bytes,
        "acme",
        "K",
        f"key-{key}",
        "1",
        DAY.toordinal(),
        microseconds_of(AS_OF),
        1,
    )


def actual_of(key: int, event: TransitionEvent | None) -> ActualItem:
    return ActualItem(
        DAY,
        key + 1,
        item_id("acme", "K", f"key-{key}", "1", DAY).bytes,
        1,
        f"key-{key}",
        "1",
        AS_OF,
        None,
        None,
        None,
        AS_OF - timedelta(days=1),
        0,
        None if event is None else int(event),
        None if event is None else AS_OF,
        None if event in (None, TransitionEvent.COMPLETED) else "person",
        None if event in (None, TransitionEvent.COMPLETED) else "asked for",
        event == TransitionEvent.SKIPPED,  # excused, as a person alone skips none
        False,  # noqa: FBT003 - in the order of the columns
        None,
        None,
        int(event is None),
    )


@given(owed=keys, recorded=keys, cancelled=keys, chunk=st.integers(1, 7))
def test_g11_a_window_reports_exactly_the_difference_of_both_sides(
    owed: set[int], recorded: set[int], cancelled: set[int], chunk: int
) -> None:
    flow = FlowRules(
        "acme",
        "K",
        timedelta(0),
        is_judged=True,
        is_complete=True,
        is_single=True,
        needs_evidence=False,
    )
    comparison = Comparison(AS_OF, {1: flow}, lambda _item, _key: False, lambda _item, _key: False)
    window = comparison.compare_window(
        {expected_of(key).id: tuple(expected_of(key)) for key in owed}
    )
    rows = [
        actual_of(key, TransitionEvent.CANCELLED if key in cancelled else None)
        for key in sorted(recorded)
    ]
    for begin in range(0, len(rows), chunk):
        window.add(rows[begin : begin + chunk])
    result = window.finish()

    assert {left.business_key for left in result.missing} == {f"key-{n}" for n in owed - recorded}
    assert {item.item_no - 1 for item in result.unexpected} == recorded - owed - cancelled
    tally = comparison.tallies["acme", "K"]
    assert tally.open + sum(tally.ended.values()) == len(recorded)
    assert tally.expected == len(owed & recorded) + len((recorded - owed) & cancelled)


@pytest.mark.parametrize(
    ("ended", "issued", "missing", "unexpected"),
    [
        (TransitionEvent.SUPERSEDED, False, ["1~2"], []),
        (TransitionEvent.SUPERSEDED, True, [], []),
        (TransitionEvent.SKIPPED, False, [], []),
        (TransitionEvent.SKIPPED, True, [], []),
        (TransitionEvent.CANCELLED, True, [], ["1~2"]),
        (TransitionEvent.COMPLETED, True, [], ["1~2"]),
        (None, True, [], ["1~2"]),
    ],
)
def test_g11_the_next_issue_of_an_occurrence_is_expected_as_the_one_before_ended(
    ended: TransitionEvent | None,
    issued: bool,  # noqa: FBT001 - a column of the table
    missing: list[str],
    unexpected: list[str],
) -> None:
    flow = FlowRules(
        "acme",
        "K",
        timedelta(0),
        is_judged=True,
        is_complete=True,
        is_single=False,
        needs_evidence=False,
    )
    comparison = Comparison(AS_OF, {1: flow}, lambda _item, _key: False, lambda _item, _key: False)
    owed = expected_of(1)._replace(definition_no=1)
    window = comparison.compare_window({owed.id: tuple(owed)})
    again = item_id("acme", "K", "key-1", "1~2", DAY).bytes
    window.add([actual_of(1, ended)])
    window.add([actual_of(1, None)._replace(item_no=3, id=again, cycle="1~2")] if issued else [])
    result = window.finish()
    assert [each.cycle for each in result.missing] == missing
    assert [each.cycle for each in result.unexpected] == unexpected


@given(
    counts=st.dictionaries(st.integers(700_000, 700_300), st.integers(0, 50)),
    rows_max=st.integers(1, 60),
)
def test_windows_hold_every_day_once_and_stay_within_the_bound(
    counts: Mapping[int, int], rows_max: int
) -> None:
    windows = list(plan_windows(counts, rows_max))
    days = [day for window in windows for day in range(window.from_day, window.to_day)]

    assert set(counts) <= set(days)
    assert len(days) == len(set(days))
    for window in windows:
        held = [counts.get(day, 0) for day in range(window.from_day, window.to_day)]
        assert sum(held) <= rows_max or sum(count > 0 for count in held) == 1


def test_a_spool_gives_back_what_was_put_aside_whatever_was_written_out() -> None:
    rows = [(bytes([n % 251]) * 16, n, "text", None, (n, "a", "b")) for n in range(250_000)]
    with Spool() as spool:
        for row in rows:
            spool.add(700_000 + row[1] % 3, row)
        for day in range(3):
            wanted = [row for row in rows if row[1] % 3 == day]
            read = spool.read(700_000 + day, 700_001 + day)
            assert sorted(read, key=itemgetter(1)) == wanted


def test_a_spool_holds_few_rows_in_memory_where_their_payloads_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dueledger.reconciler.expect.spool._BUFFERED_CHARS_MAX", 1_000_000)
    tracemalloc.start()
    with Spool() as spool:
        for number in range(100):
            payload = f"{number:0100000}"
            spool.add(700_000 + number % 3, (number, payload), payload_chars=len(payload))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 5_000_000, "of ten"
        read = [row for day in range(3) for row in spool.read(700_000 + day, 700_001 + day)]
    assert sorted(read) == [(number, f"{number:0100000}") for number in range(100)]


@given(seed=st.randoms(use_true_random=False))
def test_g1_the_order_in_which_events_are_read_does_not_matter(seed: random.Random) -> None:
    withdrawals = [
        Withdrawal((at, "s", str(at)), TransitionEvent.CANCELLED, "PolicyCancelled")
        for at in seed.sample(range(20), 3)
    ]
    rows = [
        tuple(expected_of(1)._replace(moment=(at, "s", "x"), received=seed.randrange(9)))
        for at in seed.sample(range(20), 3)
    ]
    owed: set[tuple[ExpectedItem, ...]] = set()
    for _ in range(4):
        seed.shuffle(rows)
        seed.shuffle(withdrawals)
        owed.add(tuple(expected_issues(rows, sort_withdrawals(withdrawals))))
    assert len(owed) == 1
    (issues,) = owed
    assert len({issue.id for issue in issues}) == len(issues)
    assert not any(issue.is_live for issue in issues[:-1])


@given(microseconds=st.integers(0, 7_258_118_399_999_999))
def test_instants_survive_as_microseconds(microseconds: int) -> None:
    assert microseconds_of(instant_of(microseconds)) == microseconds


@given(seconds=st.lists(st.floats(0, 1e6), min_size=1, max_size=200), share=st.floats(0.01, 1))
def test_percentiles_are_at_most_a_step_above_the_exact_ones(
    seconds: list[float], share: float
) -> None:
    lateness = Lateness()
    for value in seconds:
        lateness.add(value)
    exact = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
    estimate = lateness.percentile(share)
    assert exact - 0.001 <= estimate + 1e-9 or math.isclose(exact, estimate)
    assert estimate <= max(exact * 1.05, 0.001)
    assert sum(count for _, count in lateness.bars()) == len(seconds)


def test_every_finding_type_has_its_rule() -> None:
    assert set(FINDING_RULES) == set(FindingType)


def test_an_expected_row_has_the_fields_of_an_expected_item_in_their_order() -> None:
    fields: dict[str, Any] = {name: f"a {name}" for name in ExpectedItem._fields}
    assert expected_row(**fields) == ExpectedItem(**fields)
    required = {name: fields[name] for name in fields.keys() - ExpectedItem._field_defaults.keys()}
    assert expected_row(**required) == ExpectedItem(**required)


def test_a_finding_keeps_its_id_and_ids_are_version_8() -> None:
    assert source_failed("a", "x").id == source_failed("a", "y").id
    assert source_failed("a", "x").id != source_failed("b", "x").id
    assert uuid8("a", "b").version == 8


def test_the_published_schema_is_the_report_s() -> None:
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        SCHEMA.write_bytes(report_schema())
    assert SCHEMA.read_bytes() == report_schema(), "write it again: make schema"


def test_a_file_of_sources_is_read_with_its_secrets_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY_DSN", "postgresql://u:hunter2@db/policies")
    path = tmp_path / "sources.yaml"
    path.write_text(
        "sources:\n"
        "  - {population: policies, dsn_env: POLICY_DSN, query: select 1, complete: true,"
        " tenant: a, kinds: [K, L], change_max: 0.5}\n"
        "  - {evidence: bookings, dsn_env: POLICY_DSN, tenant: a, kind: K, query: select 2}\n"
    )
    sources = load_sources(path)

    assert [source.name for source in sources.populations] == ["policies"]
    (policies,) = sources.populations
    assert policies.named_kinds == {("a", "K"), ("a", "L")}
    assert policies.bounds == PopulationBounds(rows_min=1, change_max=0.5, skipped_max=0)
    assert [source.name for source in sources.evidence] == ["bookings"]
    assert "hunter2" not in repr(sources.populations) + repr(sources.evidence)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: [{population: p, tenant: a, kinds: [K], query: q}]", "dsn"),
        ("sources: [{population: p, kinds: [K], query: q, dsn: x}]", "tenant"),
        ("sources: [{population: p, tenant: a, kinds: [], query: q, dsn: x}]", "kinds"),
        ("sources: [{population: p, tenant: a, kinds: [K], query: q, dsn: x, dsn_env: Y}]", "dsn"),
        (
            "sources: [{population: p, tenant: a, kinds: [K], query: q, dsn_env: DUELEDGER_NOT}]",
            "DUELEDGER_NOT",
        ),
        ("sources: [{evidence: e, query: q, dsn: hunter2}]", "kind"),
        ("sources: {", "malformed"),
        (
            "sources: [{evidence: e, tenant: a, kind: K, query: q, dsn: hunter2, rows_min: 3}]",
            "rows_min judges all rows",
        ),
        (
            "sources: [{evidence: e, tenant: a, kind: K, csv: e.csv, change_max: 0.1}]",
            "change_max judges all rows",
        ),
    ],
)
def test_a_file_of_sources_that_is_wrong_is_refused_by_field_without_its_secret(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSetting) as refusal:
        load_sources(path)
    assert message in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
