"""The items of a schedule with a smear, and those of missed occurrences."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import BeyondCalendar
from dueledger.ledger.rules.catch_up import count_missed, decide_catch_up, find_latest
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.rules.schedule_drafts import draft_occurrences, expand_schedule
from dueledger.ledger.schedule import Decision, load_zone
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items

START = datetime(2027, 3, 1, tzinfo=UTC)
MIDDLE = datetime(2027, 3, 6, 1, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY_SECOND = {"cron": "* * * * * *", "timezone": "UTC"}
HOURLY = {"cron": "0 * * * *", "timezone": "America/New_York"}


def schedule(when: dict[str, str], **changed: object) -> Definition:
    document: dict[str, Any] = {
        "definition": "d",
        "tenant": "acme",
        "kind": "K",
        "business_key": "k",
        "when": when,
    }
    return parse_definition(document | changed)


def event_rule(**changed: object) -> Definition:
    return schedule(
        {"relative": "P-30D", "at": "09:00", "timezone": "America/New_York"},
        event="PolicyActivated",
        business_key="data.n",
        cycle="'1'",
        effective_date="data.on",
        **changed,
    )


def owed_by_event(rule: Definition, events: int) -> list[ItemDraft]:
    """Return what the events of policies P-1, P-2 … owe."""
    owed: list[ItemDraft] = []
    for number in range(1, events + 1):
        data = {"n": f"P-{number}", "on": "2027-06-30"}
        event = DomainEvent("acme", "/p", str(number), "PolicyActivated", START, data=data)
        owed += [each for each in apply_rule(rule, event) if isinstance(each, ItemDraft)]
    return owed


async def stored_overlaps(
    connection: Connection, drafts: Sequence[ItemDraft], actor_no: int
) -> list[tuple[int | None, str | None]]:
    """Emit drafts, and return what each does while its overlap key is held, and that key."""
    await emit_items(connection, drafts, actor_no=actor_no)
    rows = await connection.fetch(
        "select i.overlap, case when i.serial is not null then n.key end as key,"
        " i.serial is not distinct from case when n.key is not null"
        " then ledger.serial_of(f.kind_no, n.key) end as keyed"
        " from unnest($1::uuid[], $2::text[]) n (id, key) join ledger.due_item i using (id)"
        " join ledger.flow f using (flow_no) order by i.due_at",
        [draft.id for draft in drafts],
        [draft.overlap_key for draft in drafts],
    )
    assert all(row["keyed"] for row in rows)
    return [(row["overlap"], row["key"]) for row in rows]


def test_a_smeared_item_keeps_its_identity_its_nominal_time_and_its_allowance() -> None:
    plain = schedule(HOURLY, sla={"start_within": "PT5M"})
    smeared = schedule(HOURLY, sla={"start_within": "PT5M"}, smear="PT30M")
    end = START + timedelta(days=2)
    before = draft_occurrences(plain, START, end).drafts
    after = draft_occurrences(smeared, START, end).drafts
    assert [draft.id for draft in before] == [draft.id for draft in after]
    assert [draft.nominal for draft in before] == [draft.nominal for draft in after]
    moved = [new.due_at - old.due_at for old, new in zip(before, after, strict=True)]
    assert moved == [timedelta(seconds=draft.smear_seconds or 0) for draft in after]
    assert len(set(moved)) > 20
    assert all(timedelta(0) <= each < 30 * MINUTE for each in moved)
    assert all(draft.start_by == draft.due_at + 5 * MINUTE for draft in after)


@given(
    st.sampled_from(["*/10 * * * *", "5,20,50 */2 * * *", "30 1,2,3 * * *"]),
    st.sampled_from(["2027-03-13T12:00", "2027-11-06T12:00", "2027-06-01T00:00"]),
    st.sampled_from([("skip", "both"), ("shift_forward", "first"), ("gap_end", "second")]),
    st.lists(st.integers(0, 3000), min_size=3, max_size=6),
)
def test_smeared_windows_compose_and_no_item_reaches_the_next_occurrence(
    expression: str, near: str, policy: tuple[str, str], cuts: list[int]
) -> None:
    gap, fold = policy
    when = {"cron": expression, "timezone": "America/New_York", "gap": gap, "fold": fold}
    smeared = schedule(when, smear="PT10M")
    origin = datetime.fromisoformat(near).replace(tzinfo=UTC)
    bounds = [origin + cut * MINUTE for cut in sorted(cuts)]
    whole = draft_occurrences(smeared, bounds[0], bounds[-1]).drafts
    parts = [draft_occurrences(smeared, *bound).drafts for bound in pairwise(bounds)]
    assert whole == [draft for part in parts for draft in part]
    instants = [each.due_at for each in expand_schedule(smeared, bounds[0], bounds[-1]).occurrences]
    for draft, following in zip(whole, instants[1:], strict=False):
        assert draft.due_at < following


@pytest.mark.parametrize(
    "when",
    [
        {"rrule": "FREQ=HOURLY;INTERVAL=5", "start": "2027-01-01T00:30"},
        {"business": {"day_of_month": 6, "roll": "preceding"}, "at": "09:00"},
        {"at": "2027-03-06T09:00"},
        {"cron": "30 */4 * * 4,6", "end": "2027-03-09T12:00"},
    ],
)
def test_items_that_a_calendar_rolls_are_smeared_from_there_and_never_to_the_next(
    when: dict[str, str],
) -> None:
    days = {"weekend": ["sat", "sun"], "roll": "preceding"}
    smeared = schedule({**when, "timezone": "UTC"}, smear="PT4H", calendar=days)
    until = START + timedelta(days=14)
    own = expand_schedule(smeared, START, until).occurrences
    drafts = draft_occurrences(smeared, START, until).drafts
    assert len(own) == len(drafts) >= 1
    assert any(found.decision is Decision.ROLLED for found in own)
    assert all(found.due_at.weekday() < 5 for found in own)
    assert all(old.due_at <= new.due_at for old, new in zip(own, drafts, strict=True))
    assert all(new.due_at < after.due_at for new, after in zip(drafts, own[1:], strict=False))
    halves = [draft_occurrences(smeared, *half).drafts for half in pairwise([START, MIDDLE, until])]
    assert [*halves[0], *halves[1]] == drafts


def test_a_smear_reads_no_further_than_the_calendar_is_known() -> None:
    days = {"weekend": ["sat", "sun"], "last_day": "2027-03-03", "roll": "skip"}
    smeared = schedule({"cron": "0 9 * * *", "timezone": "UTC"}, smear="PT4H", calendar=days)
    assert len(draft_occurrences(smeared, START, START + timedelta(days=3)).drafts) == 3
    with pytest.raises(BeyondCalendar):
        draft_occurrences(smeared, START, START + timedelta(days=4))


def test_what_was_missed_is_counted_on_the_days_that_a_calendar_gives() -> None:
    days = {"weekend": ["sat", "sun"], "roll": "skip"}
    daily = schedule({"cron": "0 9 * * *", "timezone": "UTC"}, calendar=days)
    sunday = START + timedelta(days=6)
    [friday] = find_latest(daily, START, sunday, 1)
    assert friday.nominal.day == 5
    assert count_missed(daily, START, sunday).occurrences == 6  # Saturday, which is on record, too


OVERLAP_WORDS = [
    ("allow", None),
    ("skip", Overlap.SKIP),
    ("buffer_one", Overlap.BUFFER_ONE),
    ("buffer_all", Overlap.WAIT),
    ("cancel_other", Overlap.CANCEL_OTHER),
]


@pytest.mark.parametrize(("word", "overlap"), OVERLAP_WORDS)
async def test_each_word_of_overlap_reaches_the_item_that_a_schedule_owes(
    connection: Connection, actor_no: int, word: str, overlap: Overlap | None
) -> None:
    drafts = draft_occurrences(schedule(HOURLY, overlap=word), START, START + 60 * MINUTE).drafts
    assert [draft.overlap_key for draft in drafts] == [overlap and "d"]
    assert await stored_overlaps(connection, drafts, actor_no) == [(overlap, overlap and "d")]


@pytest.mark.parametrize(("word", "overlap"), OVERLAP_WORDS)
async def test_each_word_of_overlap_reaches_the_item_that_an_event_owes(
    connection: Connection, actor_no: int, word: str, overlap: Overlap | None
) -> None:
    drafts = owed_by_event(event_rule(overlap=word), 1)
    assert await stored_overlaps(connection, drafts, actor_no) == [(overlap, overlap and "d/P-1")]


def test_an_event_rule_smears_over_the_whole_window() -> None:
    owed = owed_by_event(event_rule(smear="PT2H"), 50)
    nine = datetime(2027, 5, 31, 9, tzinfo=load_zone("America/New_York")).astimezone(UTC)
    assert {draft.nominal for draft in owed} == {"2027-05-31T09:00"}
    assert all(draft.due_at == nine + timedelta(seconds=draft.smear_seconds or 0) for draft in owed)
    assert len({draft.due_at for draft in owed}) > 40
    assert max(draft.due_at for draft in owed) < nine + timedelta(hours=2)


@given(
    st.sampled_from(["* * * * *", "0 9 * * 1", "*/7 3 1 * *", "30 2 14 3 *"]),
    st.integers(1, 40),
    st.integers(1, 900_000),
)
def test_the_latest_are_the_last_of_all(expression: str, count: int, minutes: int) -> None:
    definition = schedule({"cron": expression, "timezone": "America/New_York"})
    end = START + min(minutes, 60_000 if expression == "* * * * *" else minutes) * MINUTE
    whole = list(expand_schedule(definition, START, end).occurrences)
    assert find_latest(definition, START, end, count) == whole[-count:]


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("catch_up", "hours", "owed_hours", "in_one"),
    [
        ({}, 5000, 0, False),
        ({"policy": "all", "max_items": 10}, 10, 0, False),
        ({"policy": "all", "max_items": 10}, 11, 1, True),
        ({"policy": "all", "window": "PT4H"}, 10, 6, False),
        ({"policy": "all", "window": "PT4H"}, 1001, 997, True),
        ({"policy": "all", "window": "PT4H", "max_items": 3}, 10, 7, True),
        ({"policy": "all", "window": "PT2H", "max_items": 3}, 10, 8, True),
        ({"policy": "latest"}, 10, 9, False),
        ({"policy": "latest"}, 1001, 1000, True),
        ({"policy": "latest", "max_items": 5}, 6, 5, True),
        ({"policy": "skip"}, 10, 10, False),
        ({"policy": "skip"}, 1001, 1001, True),
    ],
)
def test_what_was_missed_is_owed_by_policy_window_and_cap(
    catch_up: dict[str, Any], hours: int, owed_hours: int, *, in_one: bool
) -> None:
    definition = schedule(HOURLY, catch_up=catch_up)
    now = START + hours * HOUR
    found = decide_catch_up(definition, START, now + 24 * HOUR, now)
    assert (found.owed_from, found.as_one_range) == (START + owed_hours * HOUR, in_one)


def test_the_latest_is_missed_too_if_it_is_before_the_window() -> None:
    daily = schedule(
        {"cron": "0 9 * * *", "timezone": "UTC"}, catch_up={"policy": "latest", "window": "PT1H"}
    )
    now = START + timedelta(days=3, hours=12)
    assert decide_catch_up(daily, START, now, now).owed_from == now - HOUR


def test_of_a_version_that_was_superseded_nothing_is_judged_beyond_its_end() -> None:
    definition = schedule(HOURLY, catch_up={"policy": "all", "window": "PT4H"})
    end, now = START + 10 * HOUR, START + 12 * HOUR
    assert decide_catch_up(definition, START, end, now).owed_from == now - 4 * HOUR
    assert decide_catch_up(definition, START, end, now + 9 * HOUR).owed_from == end


def test_counting_is_bounded_and_goes_on_where_it_ended() -> None:
    definition = schedule(EVERY_SECOND, catch_up={"policy": "skip"})
    end = START + timedelta(days=3)
    counted, at = 0, START
    steps = 0
    while at < end:
        missed = count_missed(definition, at, end)
        assert missed.from_at == at
        assert 0 < missed.occurrences <= 100_001
        counted, at, steps = counted + missed.occurrences, missed.until_at, steps + 1
    assert (counted, steps) == (3 * 86_400, 3)
