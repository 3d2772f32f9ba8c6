"""The coming load, compared with a count minute by minute that shares no schedule code."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.store.pending_load import PendingLoad
from dueledger.planning.load_plan import WAITING_ROWS_MAX, LoadPlan, make_plan
from dueledger.planning.schedule_load import (
    DefinitionInForce,
    LoadSource,
    expand_days,
    expand_schedules,
)

START = datetime(2027, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SMEAR = timedelta(minutes=10)


def schedule(name: str, when: dict[str, object], **fields: object) -> Definition:
    document = {"definition": name, "tenant": "acme", "kind": "X", "business_key": name}
    return parse_definition({**document, "when": when, **fields})


def by_minute(name: str, minutes: set[int]) -> Definition:
    cron = f"{','.join(map(str, sorted(minutes)))} * * * *"
    return schedule(name, {"cron": cron, "timezone": "UTC"})


def source(name: str, tenant: str = "acme") -> LoadSource:
    return LoadSource(tenant, "X", name)


def plan(
    *definitions: Definition, length: timedelta = DAY, quiet_for: timedelta = 30 * MINUTE
) -> LoadPlan:
    in_force = [DefinitionInForce(each, START - DAY, START + length + DAY) for each in definitions]
    schedules = expand_schedules(in_force, START, START + length, smear=SMEAR)
    return make_plan(schedules, quiet_for=quiet_for)


MINUTES = st.lists(st.sets(st.integers(0, 59), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=30)
@given(MINUTES, st.integers(1, 70))
def test_quarters_and_quiet_windows_are_what_a_count_of_minutes_gives(
    all_minutes: list[set[int]], quiet_minutes: int
) -> None:
    made = plan(
        *(by_minute(f"job-{number}", minutes) for number, minutes in enumerate(all_minutes)),
        length=3 * HOUR,
        quiet_for=quiet_minutes * MINUTE,
    )
    hourly = Counter(minute for minutes in all_minutes for minute in minutes)
    counts = [hourly[minute % 60] for minute in range(180)]
    quarters = [counts[low : low + 15] for low in range(0, 180, 15)]
    assert [each.due for each in made.quarters] == [sum(each) for each in quarters]
    assert [each.busiest_minute for each in made.quarters] == [max(each) for each in quarters]
    quiet = {
        minute
        for low in range(180 - quiet_minutes + 1)
        if not any(counts[low : low + quiet_minutes])
        for minute in range(low, low + quiet_minutes)
    }
    found = {
        minute
        for one in made.quiet
        for minute in range((one.start - START) // MINUTE, (one.end - START) // MINUTE)
    }
    assert found == quiet
    sums = [sum(counts[low : low + quiet_minutes]) for low in range(180 - quiet_minutes + 1)]
    if quiet:
        assert made.quietest is None
    else:
        assert made.quietest is not None
        assert made.quietest.due == min(sums)
        assert sums[(made.quietest.start - START) // MINUTE] == min(sums)


def test_a_smear_flattens_a_peak_and_loses_nothing() -> None:
    jobs = [by_minute(f"job-{number}", {0}) for number in range(200)]
    made = plan(*jobs)
    assert [peak.quarter.busiest_minute for peak in made.peaks] == [200] * 5
    assert max(each.smeared_busiest_minute for each in made.quarters) < 60
    # The whole hour is due in its first quarter, and ten minutes later still is.
    assert [each.smeared_due for each in made.quarters] == [each.due for each in made.quarters]
    assert plan(*jobs) == made


def test_a_smear_reaches_over_the_windows_edge_and_never_past_the_next_occurrence() -> None:
    often = schedule("often", {"every": "PT1M", "anchor": "2027-01-01T00:00:00Z"})
    made = plan(often)
    assert {each.smeared_due for each in made.quarters} == {15}  # a minute each, moved by seconds
    late = [by_minute(f"job-{number}", {59}) for number in range(100)]
    first = plan(*late).quarters[0]
    assert first.due == 0
    assert first.smeared_due > 50  # from the minute before the window


def test_a_smear_of_its_own_is_planned_as_the_materialiser_applies_it() -> None:
    when: dict[str, object] = {"cron": "*/20 * * * *", "timezone": "UTC"}
    own = schedule("own", when, smear="PT15M")
    due = [draft.due_at for draft in draft_occurrences(own, START - DAY, START + 2 * DAY).drafts]
    expected = Counter((each - START) // (15 * MINUTE) for each in due)
    made = plan(own)
    assert [each.due for each in made.quarters] == [expected[number] for number in range(96)]
    assert len(set(expected.values())) > 1


def test_the_peaks_name_what_makes_most_of_them() -> None:
    made = plan(by_minute("often", set(range(60))), by_minute("once", {20}))
    [first, *_] = made.peaks
    assert first.quarter.due == 16
    assert first.most_of == ((source("often"), 15), (source("once"), 1))


def test_definitions_of_one_name_in_two_tenants_are_two() -> None:
    ours = by_minute("nightly", {20})
    made = plan(ours, ours.model_copy(update={"tenant": "umbra"}))
    assert made.peaks[0].most_of == ((source("nightly"), 1), (source("nightly", "umbra"), 1))


def test_what_waits_is_added_and_no_smear_moves_it() -> None:
    waiting = [
        PendingLoad(START + 20 * MINUTE, "acme", "X", "hourly", 3),
        PendingLoad(START + 20 * MINUTE, "umbra", "Y", None, 40),
        PendingLoad(START + 29 * MINUTE, "umbra", "Y", None, 2),
        PendingLoad(None, "umbra", "Y", None, 7),
    ]
    in_force = [DefinitionInForce(by_minute("hourly", {20}), START, START + DAY)]
    schedules = expand_schedules(in_force, START, START + HOUR, smear=timedelta(0))
    made = make_plan(schedules, waiting, quiet_for=5 * MINUTE)
    assert [each.due for each in made.quarters] == [0, 46, 0, 0]
    assert [each.waiting for each in made.quarters] == [0, 45, 0, 0]
    assert made.quarters[1].busiest_minute == made.quarters[1].smeared_busiest_minute == 44
    assert [(peak.quarter.start, peak.most_of) for peak in made.peaks] == [
        (START + 15 * MINUTE, ((LoadSource("umbra", "Y", None), 42), (source("hourly"), 4)))
    ]
    quiet = [((one.start - START) // MINUTE, (one.end - START) // MINUTE) for one in made.quiet]
    assert quiet == [(0, 20), (21, 29), (30, 60)]
    assert made.overdue == 7


def test_more_waits_than_a_plan_can_hold() -> None:
    waiting = [PendingLoad(START, "acme", "X", None, 1)] * (WAITING_ROWS_MAX + 1)
    with pytest.raises(InvalidInput) as refused:
        make_plan(expand_schedules([], START, START + HOUR, smear=SMEAR), waiting, quiet_for=MINUTE)
    assert refused.value.code == "WINDOW_TOO_LARGE"


def test_a_version_counts_while_it_is_in_force() -> None:
    old, new = by_minute("old", {0}), by_minute("new", {30})
    noon = START + 12 * HOUR
    in_force = [
        DefinitionInForce(old, START - DAY, noon),
        DefinitionInForce(new, noon, START + 9 * DAY),
    ]
    made = make_plan(expand_schedules(in_force, START, START + DAY, smear=SMEAR), quiet_for=HOUR)
    due = {each.start for each in made.quarters if each.due}
    assert due == {START + n * HOUR for n in range(12)} | {
        noon + n * HOUR + 30 * MINUTE for n in range(12)
    }


def test_what_cannot_be_foretold_is_named_and_not_counted() -> None:
    renewal = parse_definition(
        {
            "definition": "renewal",
            "tenant": "acme",
            "kind": "X",
            "event": "Activated",
            "business_key": "data.number",
            "cycle": "data.term",
            "effective_date": "data.expires_on",
            "when": {"relative": "P-30D", "at": "09:00", "timezone": "UTC"},
        }
    )
    made = plan(renewal, schedule("chain", {"after_completion": "PT1H"}))
    assert made.definitions == 0
    assert [each.source for each in made.not_counted] == [source("renewal"), source("chain")]
    assert [(one.start, one.end) for one in made.quiet] == [(START, START + DAY)]


def test_the_window_is_widened_to_whole_quarters() -> None:
    window = START + 7 * MINUTE, START + HOUR + MINUTE
    made = make_plan(expand_schedules([], *window, smear=SMEAR), quiet_for=MINUTE)
    assert (made.start, made.end) == (START, START + HOUR + 15 * MINUTE)
    assert len(made.quarters) == 5


def test_days_that_are_kept_are_what_the_window_is_at_once() -> None:
    berlin = {"timezone": "Europe/Berlin"}
    days = {"weekend": ["sat", "sun"], "roll": "following"}
    clock_change = datetime(2027, 3, 28, 0, 20, tzinfo=UTC)
    definitions = [
        schedule("nightly", {"cron": "30 2 * * *", **berlin}),
        schedule("minutely", {"cron": "* * * * *", **berlin}),
        schedule("smeared", {"cron": "*/20 * * * *", **berlin}, smear="PT20M"),
        schedule("observing", {"cron": "0 9 * * *", **berlin}, calendar=days),
        schedule("chain", {"after_completion": "PT1H"}),
    ]
    spans = [DefinitionInForce(each, START - DAY, START + 40 * DAY) for each in definitions]
    spans.append(DefinitionInForce(definitions[0], START, clock_change + HOUR))
    for start in (START, clock_change, clock_change + 15 * MINUTE, clock_change + DAY - MINUTE):
        window = start, start + 2 * DAY
        assert expand_days(spans, *window, occurrences_max=10_000) == expand_schedules(
            spans, *window
        )
    with pytest.raises(InvalidInput) as refused:
        expand_days(spans, START, START + 2 * DAY, occurrences_max=2_000)
    assert refused.value.code == "WINDOW_TOO_LARGE"


@pytest.mark.parametrize(
    ("length", "smear", "quiet_for", "field"),
    [
        (-HOUR, SMEAR, MINUTE, "--to"),
        (63 * DAY, SMEAR, MINUTE, "--to"),
        (timedelta(days=365_000), SMEAR, MINUTE, "--to"),
        (DAY, 2 * DAY, MINUTE, "--smear"),
        (DAY, SMEAR, 2 * DAY, "--quiet-for"),
    ],
)
def test_a_plan_without_bound_is_refused(
    length: timedelta, smear: timedelta, quiet_for: timedelta, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_plan(expand_schedules([], START, START + length, smear=smear), quiet_for=quiet_for)
    assert refused.value.problems[0].field == field


def test_more_than_a_plan_can_hold_is_refused() -> None:
    secondly = schedule("secondly", {"every": "PT1S", "anchor": "2027-01-01T00:00:00Z"})
    with pytest.raises(InvalidInput) as refused:
        plan(secondly, length=60 * DAY)
    assert refused.value.code == "WINDOW_TOO_LARGE"
