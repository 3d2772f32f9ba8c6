"""A preview of every kind of `when`, with the effect of changes of the clocks in words."""

from datetime import UTC, datetime, timedelta

import pytest

from dueledger.ledger.definitions.parsing import Definition, load_definitions
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.schedule import load_zone
from dueledger.ledger.schedule.when import KINDS
from dueledger.preview.clock_changes import clock_changes
from dueledger.preview.occurrences import preview_definition, preview_document, preview_smears
from dueledger.preview.wording import change_rows, decision_words, skip_words

MARCH = datetime(2027, 3, 1, tzinfo=UTC)
APRIL = datetime(2027, 4, 1, tzinfo=UTC)

# One of each kind there is or will be: a new one is previewed without a change here.
EXAMPLES = {
    "cron": ('{cron: "30 2 * * *", timezone: Europe/Berlin}', "2027-03-01T01:30:00Z"),
    "rrule": (
        "{rrule: 'FREQ=MONTHLY;BYDAY=FR;BYSETPOS=-1', start: 2026-01-01T18:00, timezone: UTC}",
        "2027-03-26T18:00:00Z",
    ),
    "every": ("{every: PT24H, anchor: 2026-10-31T13:00:00Z}", "2027-03-01T13:00:00Z"),
    "after_completion": ("{after_completion: PT10M}", "2027-03-01T00:00:00Z"),
    "at": ("{at: 2027-03-27T02:30, timezone: Europe/Berlin}", "2027-03-27T01:30:00Z"),
    "business": ('{business: last, at: "17:00", timezone: UTC}', "2027-03-31T17:00:00Z"),
}


def schedule(when: str) -> Definition:
    text = f"definition: x\ntenant: acme\nkind: X\nbusiness_key: x\nwhen: {when}\n"
    [found] = load_definitions(text, source="test")
    return found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "relative"])
def test_every_kind_of_schedule_is_previewed(kind: str) -> None:
    when, first = EXAMPLES[kind]
    definition = schedule(when)
    whole = preview_definition(definition, since=MARCH, until=APRIL, effective_date=None)
    shown = preview_document(whole)["occurrences"]
    assert shown[0]["due_at"] == first
    assert list(shown[0]) == ["due_at", "local", "utc_offset", "nominal", "decision"]
    counted = preview_definition(definition, since=MARCH, until=None, effective_date=None, count=1)
    assert counted.occurrences == whole.occurrences[:1]


def test_a_preview_does_not_search_for_ever_what_its_calendar_skips() -> None:
    text = """
definition: x
tenant: acme
kind: X
business_key: x
when: {cron: "* * * * 1-6", timezone: UTC}
calendar: {weekend: [mon, tue, wed, thu, fri, sat], workdays: [2029-11-26], roll: skip}
"""
    [definition] = load_definitions(text, source="test")
    found = preview_definition(definition, since=MARCH, until=None, effective_date=None, count=1)
    assert found.occurrences == ()
    assert 10_000 <= len(found.skipped) < 20_000


def test_an_event_rule_is_previewed_by_its_date() -> None:
    text = """
definition: renewal
tenant: acme
kind: X
event: Activated
business_key: data.number
cycle: data.term
effective_date: data.expires_on
when: {relative: P-30D, at: "09:00", timezone: America/New_York}
"""
    [definition] = load_definitions(text, source="test")
    found = preview_definition(
        definition, since=None, until=None, effective_date=APRIL.date(), count=3
    )
    [shown] = preview_document(found)["occurrences"]
    assert shown["due_at"] == "2027-03-02T14:00:00Z"


@pytest.mark.parametrize(
    "when",
    [
        '{cron: "30 2 * * *", timezone: Europe/Berlin, gap: skip}',
        '{cron: "*/7 * * * *", timezone: Europe/Berlin}',
        "{every: PT61H, anchor: 2026-10-31T13:00:00Z}",
    ],
)
@pytest.mark.parametrize("count", [1, 12, 500])
def test_counting_gives_the_beginning_of_what_a_window_gives(when: str, count: int) -> None:
    definition = schedule(when)
    counted = preview_definition(
        definition, since=MARCH, until=None, effective_date=None, count=count
    )
    last = counted.occurrences[-1].due_at
    whole = preview_definition(
        definition, since=MARCH, until=last + timedelta(seconds=1), effective_date=None
    )
    assert len(counted.occurrences) == count
    assert counted == whole


def test_what_never_falls_due_is_counted_to_nothing() -> None:
    never = schedule('{cron: "0 0 30 2 *", timezone: UTC, sparse: true}')
    found = preview_definition(never, since=MARCH, until=None, effective_date=None, count=3)
    assert found.occurrences == ()


NOT_THERE = "02:30 does not exist on this day: "
TWICE = "02:30 exists twice on this day: "
SPRING = datetime(2027, 3, 27, tzinfo=UTC)
AUTUMN = datetime(2027, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "since", "words"),
    [
        ("gap: skip", SPRING, f"{NOT_THERE}skipped"),
        ("gap: shift_forward", SPRING, f"{NOT_THERE}1 h later, at 03:30"),
        ("gap: gap_end", SPRING, f"{NOT_THERE}right after the gap, at 03:00"),
        ("fold: first", AUTUMN, f"{TWICE}the first one is used"),
        ("fold: second", AUTUMN, f"{TWICE}the second one is used"),
        ("fold: both", AUTUMN, f"{TWICE}both are used, this is the first, and 1 more"),
    ],
)
def test_what_a_change_of_the_clocks_does_is_said_in_words(
    policy: str, since: datetime, words: str
) -> None:
    definition = schedule(f'{{cron: "30 2 * * *", timezone: Europe/Berlin, {policy}}}')
    end = since + timedelta(days=3)
    window = preview_definition(definition, since=since, until=end, effective_date=None)
    [row] = change_rows(window, "Europe/Berlin", since, end)
    assert row["decision"] == words
    assert row["by"] == ("1 h forward" if since is SPRING else "1 h back")


def test_an_occurrence_that_is_merged_into_another_is_shown_with_that_one() -> None:
    definition = schedule('{cron: "30 2,3 * * *", timezone: Europe/Berlin}')
    end = SPRING + timedelta(days=3)
    window = preview_definition(definition, since=SPRING, until=end, effective_date=None)
    [row] = change_rows(window, "Europe/Berlin", SPRING, end)
    assert row["decision"] == f"{NOT_THERE}merged into 03:30, which is due at the same instant"
    assert preview_document(window)["skipped"] == [
        {"nominal": "2027-03-28T02:30:00", "reason": "merged", "into": "2027-03-28T03:30:00"}
    ]


def test_a_rolled_occurrence_that_is_merged_names_the_day_it_is_merged_into() -> None:
    when = '{cron: "0 9 * * *", timezone: UTC}'
    definition = schedule(f"{when}\ncalendar: {{weekend: [sun], roll: following}}")
    end = SPRING + timedelta(days=3)
    window = preview_definition(definition, since=SPRING, until=end, effective_date=None)
    [skipped] = window.skipped
    assert skip_words(skipped) == (
        "Sunday, 2027-03-28 is not a business day: merged into Monday, 2027-03-29, "
        "which is due at the same instant"
    )


def test_the_local_time_that_results_is_shown_beside_its_offset() -> None:
    definition = schedule('{cron: "30 2 * * *", timezone: America/New_York}')
    start = datetime(2027, 3, 14, tzinfo=UTC)
    window = preview_definition(
        definition, since=start, until=start + timedelta(days=1), effective_date=None
    )
    [shown] = preview_document(window)["occurrences"]
    assert shown == {
        "due_at": "2027-03-14T07:30:00Z",
        "local": "2027-03-14T03:30:00",
        "utc_offset": "-04:00",
        "nominal": "2027-03-14T02:30:00",
        "decision": "gap_shifted_forward",
    }


def test_a_change_that_nothing_falls_into_is_shown_as_well() -> None:
    definition = schedule('{cron: "0 9 * * *", timezone: Europe/Berlin}')
    window = preview_definition(definition, since=MARCH, until=APRIL, effective_date=None)
    [row] = change_rows(window, "Europe/Berlin", MARCH, APRIL)
    assert row["decision"] == "no occurrence is affected"
    assert row["clocks_change"] == "2027-03-28 02:00:00"


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "UTC"]
)
def test_changes_of_the_clocks_are_those_that_every_quarter_hour_shows(zone: str) -> None:
    start, quarter = datetime(2011, 1, 1, tzinfo=UTC), timedelta(minutes=15)
    end = start + timedelta(days=366)
    local = load_zone(zone)
    expected: list[datetime] = []
    at, before = start, start.astimezone(local).utcoffset()
    while at < end:
        if (offset := at.astimezone(local).utcoffset()) != before:
            expected.append(at)
            before = offset
        at += quarter
    assert [change.at for change in clock_changes(zone, start, end)] == expected


def test_a_smear_is_shown_as_the_materialiser_will_apply_it() -> None:
    definition = schedule('{cron: "0 9 * * *", timezone: UTC}\nsmear: PT1H')
    window = preview_definition(definition, since=MARCH, until=APRIL, effective_date=None)
    shown = preview_document(window, preview_smears(definition, window))["occurrences"]
    owed = draft_occurrences(definition, MARCH, APRIL).drafts
    assert [one.get("smear_seconds") for one in shown] == [draft.smear_seconds for draft in owed]
    assert len({draft.smear_seconds for draft in owed}) > 20
    counted = preview_definition(definition, since=MARCH, until=None, effective_date=None, count=3)
    assert preview_smears(definition, counted) == [draft.smear_seconds for draft in owed[:3]]


@pytest.mark.parametrize(
    ("roll", "words"),
    [
        ("following", "Sunday, 2027-03-28 is not a business day: on Monday, 2027-03-29"),
        ("skip", "Sunday, 2027-03-28 is not a business day: skipped"),
    ],
)
def test_what_a_calendar_does_is_said_in_words(roll: str, words: str) -> None:
    calendar = f"{{weekend: [sat, sun], roll: {roll}}}"
    when = '{cron: "0 12 28 3 *", timezone: UTC}'
    definition = schedule(f"{when}\ncalendar: {calendar}")
    found = preview_definition(definition, since=MARCH, until=APRIL, effective_date=None)
    said = [*map(decision_words, found.occurrences), *map(skip_words, found.skipped)]
    assert said == [words]


def test_a_gap_on_the_day_that_a_calendar_gives_shows_the_gap_alone() -> None:
    calendar = "{weekend: [fri, sat], roll: following}"
    definition = schedule(
        f"{{at: 2027-03-26T02:30, timezone: Europe/Berlin}}\ncalendar: {calendar}"
    )
    found = preview_definition(definition, since=MARCH, until=APRIL, effective_date=None)
    [said] = map(decision_words, found.occurrences)
    assert said == "02:30 does not exist on this day: 1 h later, at 03:30"
