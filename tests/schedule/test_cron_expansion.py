"""Expansion by days and times of day, compared with croniter, which steps, on naive local times."""

import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import chain, pairwise

import pytest
from croniter import CroniterBadDateError, croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dueledger.ledger.schedule import (
    Cron,
    Decision,
    Fold,
    Gap,
    Occurrence,
    ScheduleWindow,
    expand,
    load_zone,
    zone_names,
)
from dueledger.ledger.schedule.resolution import PROBE, SCAN_MARGIN, collapse, naive_bounds, resolve
from dueledger.ledger.schedule.zone_offsets import OffsetRange, day_offsets
from tests.examples import examples
from tests.work_bound import check_lines

ZONES = ("UTC", "America/New_York", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia")
STARTS = st.datetimes(datetime(1999, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def lists(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        st.integers(1, high - low + 1).map(lambda step: f"*/{step}"),
        st.lists(value, min_size=1, max_size=4).map(lambda several: ",".join(map(str, several))),
        st.tuples(value, value).map(lambda both: "{}-{}".format(*sorted(both))),
    )


DAYS = st.one_of(
    lists(1, 31), st.just("L"), lists(1, 28).filter(lambda text: "*" not in text).map("{},L".format)
)
NTH = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda both: "{}#{}".format(*both)),
        st.integers(0, 6).map("L{}".format),
    ),
    min_size=1,
    max_size=3,
).map(",".join)
PLAIN = st.tuples(lists(0, 59), lists(0, 23), DAYS, lists(1, 12), lists(0, 6)).map(" ".join)
EXPRESSIONS = st.one_of(
    PLAIN,
    st.tuples(lists(0, 59), lists(0, 23), st.just("*"), lists(1, 12), NTH).map(" ".join),
    st.tuples(lists(0, 59), PLAIN).map(" ".join),  # seconds first
)


def stepped(cron: Cron, low: datetime, high: datetime) -> Iterator[datetime]:
    """Step through naive local times from `low` on, as croniter does."""
    steps = croniter(
        cron.fields.canonical,
        low.replace(tzinfo=None) - timedelta(seconds=1),
        ret_type=datetime,
        day_or=cron.day_rule != "all",
        max_years_between_matches=50,
    )
    while True:
        try:
            nominal = steps.get_next(datetime)
        except CroniterBadDateError:
            return
        if nominal >= high.replace(tzinfo=None):
            return
        if nominal >= low.replace(tzinfo=None):
            yield nominal


def settled(
    nominals: Iterable[datetime], cron: Cron, bounds: tuple[datetime, datetime]
) -> ScheduleWindow:
    """Resolve each local time by itself."""
    zone = load_zone(cron.timezone)
    each = (resolve(nominal, zone, cron.gap, cron.fold) for nominal in nominals)
    return collapse(chain.from_iterable(each), bounds)


def cron_of(text: str, day_rule: str, zone: str = "UTC", **policies: object) -> Cron:
    document = {"cron": text, "timezone": zone, "day_rule": day_rule, "sparse": True}
    return Cron.model_validate(document | policies)


def check_steps(text: str, day_rule: str, start: datetime, days: int) -> None:
    cron = cron_of(text, day_rule)
    of_day = len(cron.fields.seconds) * len(cron.fields.minutes) * len(cron.fields.hours)
    end = start + timedelta(days=min(days, max(1, 3000 // of_day)))
    if of_day > 10_000:
        end = start + timedelta(hours=1)
    found = [each.nominal for each in expand(cron, start, end).occurrences]
    assert found == list(stepped(cron, start, end))


STEPS = given(EXPRESSIONS, st.sampled_from(["any", "all"]), STARTS, st.integers(1, 400))


@settings(max_examples=20)
@STEPS
def test_days_and_times_are_those_that_croniter_steps_to(
    text: str, day_rule: str, start: datetime, days: int
) -> None:
    check_steps(text, day_rule, start, days)


@pytest.mark.full
@settings(max_examples=500)
@STEPS
def test_days_and_times_are_those_that_croniter_steps_to_in_many_cases(
    text: str, day_rule: str, start: datetime, days: int
) -> None:
    check_steps(text, day_rule, start, days)


def check_whole_days(
    text: str, zone: str, gap: Gap, fold: Fold, start: datetime, own: list[timedelta]
) -> None:
    begin, stop = sorted((start + each).replace(tzinfo=None, microsecond=0) for each in own)
    stop += timedelta(seconds=1)
    cron = cron_of(text, "any", zone, gap=gap, fold=fold)
    bounded = cron_of(text, "any", zone, gap=gap, fold=fold, start=begin, end=stop)
    of_day = len(cron.fields.seconds) * len(cron.fields.minutes) * len(cron.fields.hours)
    end = start + timedelta(days=min(200, 1500 / of_day))
    assume(of_day <= 1440)
    nominals = list(stepped(cron, start - SCAN_MARGIN, end + SCAN_MARGIN))
    assert expand(cron, start, end) == settled(nominals, cron, (start, end))
    within = [nominal for nominal in nominals if begin <= nominal < stop]
    assert expand(bounded, start, end) == settled(within, cron, (start, end))
    assert list(bounded.nominals(*naive_bounds(start, end))) == within


WHOLE_DAYS = given(
    EXPRESSIONS,
    st.sampled_from(ZONES),
    st.sampled_from(list(Gap)),
    st.sampled_from(list(Fold)),
    STARTS,
    st.lists(st.timedeltas(timedelta(0), timedelta(days=3)), min_size=2, max_size=2),
)


@settings(max_examples=15)
@WHOLE_DAYS
def test_whole_days_resolved_at_once_equal_each_time_resolved_by_itself(
    text: str, zone: str, gap: Gap, fold: Fold, start: datetime, own: list[timedelta]
) -> None:
    check_whole_days(text, zone, gap, fold, start, own)


@pytest.mark.full
@settings(max_examples=500)
@WHOLE_DAYS
def test_whole_days_resolved_at_once_equal_each_time_resolved_by_itself_in_many_cases(
    text: str, zone: str, gap: Gap, fold: Fold, start: datetime, own: list[timedelta]
) -> None:
    check_whole_days(text, zone, gap, fold, start, own)


def test_a_month_without_a_change_has_one_offset_and_days_near_a_change_have_two() -> None:
    summer, winter = timedelta(hours=-4), timedelta(hours=-5)
    assert set(day_offsets("America/New_York", 2027, 7)) == {OffsetRange(summer, summer)}
    march = day_offsets("America/New_York", 2027, 3)  # the clocks change on the 14th, at 07:00Z
    assert march[:11] == (OffsetRange(winter, winter),) * 11
    assert march[11:16] == (OffsetRange(winter, summer),) * 5
    assert march[16:] == (OffsetRange(summer, summer),) * 15


def test_what_ticks_by_the_second_is_expanded_too() -> None:
    cron = Cron(cron="* * * * * *", timezone="America/New_York")
    start = datetime(2027, 3, 1, 12, 0, 58, tzinfo=UTC)
    found = expand(cron, start, start + timedelta(seconds=4)).occurrences
    assert [each.due_at for each in found] == [start + timedelta(seconds=n) for n in range(4)]
    first = Occurrence(start, datetime(2027, 3, 1, 7, 0, 58), timedelta(hours=-5), Decision.EXACT)  # noqa: DTZ001
    assert found[0] == first


@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "* * * * * *", "start": "2027-01-01T23:59:59", "end": "2027-01-02T00:00"},
        {"cron": "*/2 * * * * *"},
        {"cron": "0/2 1-59 * * * *"},
    ],
)
def test_what_ticks_by_the_second_is_checked_fast(fields: dict[str, object]) -> None:
    def check() -> object:
        return Cron.model_validate({"timezone": "UTC", **fields}).shortest_period

    assert check_lines(check, lines_max=600_000) is not None


@given(lists(0, 59), lists(0, 59), lists(0, 23))
def test_the_shortest_period_is_that_of_all_times_of_two_days(
    seconds: str, minutes: str, hours: str
) -> None:
    cron = cron_of(f"{seconds} {minutes} {hours} * * *", "any")
    fields = cron.fields
    assume(len(fields.hours) * len(fields.minutes) * len(fields.seconds) <= 3_000)
    of_day = [
        timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in fields.hours
        for minute in fields.minutes
        for second in fields.seconds
    ]
    times = [*of_day, of_day[0] + timedelta(days=1)]
    assert cron.shortest_period == min(after - before for before, after in pairwise(times))


def test_the_last_day_beside_others_is_no_restriction_to_it_in_a_short_month() -> None:
    cron = Cron(cron="0 0 1-29,L 2 *", timezone="UTC")
    start = datetime(2027, 1, 1, tzinfo=UTC)
    assert len(expand(cron, start, start + timedelta(days=100)).occurrences) == 28


def changes_of_offset(zone: str) -> list[tuple[int, int]]:
    """Read (instant, offset) out of a zone's TZif file itself (RFC 9636), without `zoneinfo`."""
    content = files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
    isut, isstd, leap, times, types, chars = struct.unpack(">6I", content[20:44])
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    times, types = struct.unpack(">2I", content[second + 32 : second + 40])
    body = second + 44
    instants = struct.unpack(f">{times}q", content[body : body + 8 * times])
    kinds = content[body + 8 * times : body + 9 * times]
    table = body + 9 * times
    offsets = [
        struct.unpack(">i", content[table + 6 * kind : table + 6 * kind + 4])[0]
        for kind in range(types)
    ]
    moves = [(at, offsets[kind]) for at, kind in zip(instants, kinds, strict=True)]
    return [new for old, new in pairwise([(0, offsets[0]), *moves]) if old[1] != new[1]]


def test_no_zone_changes_its_offset_there_and_back_between_two_probes() -> None:
    for zone in zone_names():
        instants = [at for at, _ in changes_of_offset(zone) if at >= 0]
        apart = min((after - before for before, after in pairwise(instants)), default=None)
        assert apart is None or apart > 2 * PROBE.total_seconds(), zone


@pytest.mark.full
@pytest.mark.parametrize("zone", sorted(zone_names())[: examples(0, full=10_000)])
def test_a_generation_of_every_zone_equals_each_time_resolved_by_itself(zone: str) -> None:
    cron = cron_of("30 2,14 * * *", "any", zone)
    start, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
    first = datetime(1999, 12, 29, 2, 30)  # noqa: DTZ001 - nominal times are naive
    nominals = (first + n * timedelta(hours=12) for n in range((end - start).days * 2 + 12))
    assert expand(cron, start, end) == settled(nominals, cron, (start, end))
