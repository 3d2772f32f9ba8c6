import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from dueledger.ledger.schedule import Cron, Fold, Gap, expand
from dueledger.ledger.schedule.cron import DayRule
from dueledger.ledger.schedule.cron_dialect import parse_cron
from tests.work_bound import check_lines

PERIODICS = Path(__file__).parents[2] / "examples" / "kubernetes" / "periodics.json"

REFUSED = [
    ("H * * * *", "choose by hash", "a fixed minute"),
    ("H(0-29)/10 * * * *", "choose by hash", "a fixed minute"),
    ("0 R * * *", "by hash or at random", "a fixed hour"),
    ("0 0 W * *", "not understood", "`15W`"),
    ("0 0 32W * *", "outside", "1 to 31"),
    ("0 0 WL * *", "not understood", "`LW`"),
    ("0 0 1-15W * *", "not understood", "`15W`"),
    ("0 0 L-31 * *", "no month", "`L-30`"),
    ("0 0 L-0 * *", "no month", "`L`"),
    ("0 0 0 1 1 * 1969", "outside", "1970 to 2199"),
    ("0 0 0 1 1 * 2029-2027", "descending", "`2027-2029`"),
    ("0 0 0 29 2 * 2027", "never falls due", "sparse: true"),
    ("0 0 0 1 1 * 2027 x", "8 fields", "years last"),
    ("0 0 \u0663 * *", "ASCII", "plain ASCII"),
    ("0\u00a00 * * *", "ASCII", "plain ASCII"),
    ("0 0 * * mon-mon", "equal names", "`mon` for one"),
    ("0 0 1 jan-jan *", "equal names", "`jan` for one"),
    ("59/15 * * * *", "to step to", "`59`"),
    ("0 23/2 * * *", "to step to", "`23`"),
    ("0 0 13 * fri", "both restricted", "day_rule: any"),
    ("0 0 */2 * 1", "both restricted", "day_rule: all"),
    ("0 0 1-7 * mon#1", "ambiguous", "`*` as the day of month"),
    ("0 0 13 * L5", "ambiguous", "`*` as the day of month"),
    ("0 0 * * mon,fri#1", "ambiguous", "two definitions"),
    ("0 0 * * fri#6", "four or five", "#5"),
    ("0 0 * * 5L", "not understood", "L5"),
    ("0 0 30 2 *", "never falls due", "sparse: true"),
    ("0 0 * 2 mon#5", "no occurrence within 8 years", "sparse: true"),
    ("*/0 * * * *", "zero", "one or more"),
    ("*/90 * * * *", "matches only the first", "every:"),
    ("0/90 * * * *", "matches only the first", "every:"),
    ("0-59/90 * * * *", "matches only the first", "every:"),
    ("0 12/13 * * *", "matches only the first", "that value alone"),
    ("0 0 1 1 * 2027", "years in six", "`0` first"),
    ("0 0 1 1 * 2027-2029", "years in six", "`0` first"),
    ("60 * * * *", "outside", "0 to 59"),
    ("0 24 * * *", "outside", "0 to 23"),
    ("0 0 0 * *", "outside", "1 to 31"),
    ("0 0 * 13 *", "outside", "1 to 12"),
    ("0 0 * * 8", "outside", "0 to 6"),
    ("0 0 * * maandag", "not understood", "sun to sat"),
    ("1,, * * * *", "not understood", "0 to 59"),
    ("-5 * * * *", "not understood", "0 to 59"),
    ("0-99999999999999999999 * * * *", "outside", "0 to 59"),
    ("? * * * *", "`?`", "`*`"),
    ("* * * *", "4 fields", "minute hour"),
    ("", "0 fields", "minute hour"),
    ("@reboot", "unknown macro", "@daily"),
    ("@every 5m", "elapsed", "every: PT5M"),
    ("CRON_TZ=Asia/Tokyo 0 0 * * *", "time zone", "timezone:"),
    ("0," * 400 + "0 * * * *", "longer than", "ranges"),
]


@pytest.mark.parametrize(("expression", "reason", "accepted"), REFUSED)
def test_what_reads_in_two_ways_is_refused_with_what_to_write(
    expression: str, reason: str, accepted: str
) -> None:
    def refuse() -> ValidationError:
        with pytest.raises(ValidationError) as refused:
            Cron(cron=expression, timezone="UTC")
        return refused.value

    context = check_lines(refuse, lines_max=10_000).errors()[0].get("ctx", {})
    assert reason in context["reason"]
    assert accepted in context["accepted"]


@pytest.mark.parametrize(
    ("expression", "canonical"),
    [
        ("@daily", "0 0 * * *"),
        ("03 0-23/12 * * *", "3 0,12 * * *"),
        ("17 23-23/24 * * *", "17 23 * * *"),  # croniter alone reads: every hour from 0
        ("0 1/6 * * *", "0 1,7,13,19 * * *"),
        ("*/20 22-2 * * *", "0,20,40 0,1,2,22,23 * * *"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * SAT-SUN", "0 0 * * 0,6"),
        ("0 0 ? JAN,Mar ?", "0 0 * 1,3 *"),
        ("0 0 L * *", "0 0 l * *"),
        ("0 0 15,L * *", "0 0 15,l * *"),
        ("0 9 * * tue#2,L5", "0 9 * * 2#2,l5"),
        ("*/15 30 2 * * *", "30 2 * * * 0,15,30,45"),
        ("0 0 L-3,15W,LW,L-2W * *", "0 0 l-3,l-2w,lw,15w * *"),
        ("0 0 *,L * *", "0 0 * * *"),
        ("0 0 9 1 1 ? 2027/2", "0 9 1 1 * 0 " + ",".join(map(str, range(2027, 2200, 2)))),
        ("0 0 9 1 1 ? *", "0 9 1 1 *"),
    ],
)
def test_an_expression_becomes_plain_numbers(expression: str, canonical: str) -> None:
    assert parse_cron(expression).canonical == canonical


@pytest.mark.parametrize(
    ("expression", "gap", "fold"),
    [
        ("30 2 * * *", Gap.SHIFT_FORWARD, Fold.FIRST),
        ("0 6,18 * * *", Gap.SHIFT_FORWARD, Fold.FIRST),
        ("*/5 * * * *", Gap.SKIP, Fold.BOTH),
        ("17 * * * *", Gap.SKIP, Fold.BOTH),
        ("17 0-23 * * *", Gap.SKIP, Fold.BOTH),
        ("0 */6 * * *", Gap.SKIP, Fold.BOTH),
        ("* 2 * * *", Gap.SKIP, Fold.BOTH),
    ],
)
def test_the_default_policy_follows_what_the_expression_means(
    expression: str, gap: Gap, fold: Fold
) -> None:
    cron = Cron(cron=expression, timezone="Europe/Berlin")
    assert (cron.gap, cron.fold) == (gap, fold)


def nominals(expression: str, **fields: object) -> list[str]:
    cron = Cron.model_validate({"cron": expression, "timezone": "UTC", **fields})
    year = expand(cron, datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
    return [each.nominal.date().isoformat() for each in year.occurrences]


def test_days_of_month_and_week_combine_as_the_day_rule_says() -> None:
    assert nominals("0 0 13 8 fri", day_rule="all") == ["2027-08-13"]
    assert nominals("0 0 13 7 fri", day_rule="any") == [
        "2027-07-02",
        "2027-07-09",
        "2027-07-13",
        "2027-07-16",
        "2027-07-23",
        "2027-07-30",
    ]


def test_weekdays_are_counted_within_their_month() -> None:
    assert nominals("0 0 * 5 fri#2") == ["2027-05-14"]
    assert nominals("0 0 * 5 L5") == ["2027-05-28"]
    assert nominals("0 0 * 5 mon#5") == ["2027-05-31"]
    assert nominals("0 0 L 2,4 *") == ["2027-02-28", "2027-04-30"]


def test_a_sparse_expression_is_kept_and_found_when_it_comes() -> None:
    never = Cron(cron="0 0 30 2 *", timezone="UTC", sparse=True)
    century = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2127, 1, 1, tzinfo=UTC))
    assert expand(never, *century).occurrences == ()
    leap_mondays = Cron(cron="0 0 29 2 1", timezone="UTC", sparse=True, day_rule=DayRule.ALL)
    years = [each.nominal.year for each in expand(leap_mondays, *century).occurrences]
    assert years == [2044, 2072, 2112]


def test_every_expression_of_the_kubernetes_jobs_is_read_as_the_numbers_say() -> None:
    jobs = json.loads(PERIODICS.read_text(encoding="utf-8"))
    expressions = {job["cron"] for job in jobs if "cron" in job}
    assert len(expressions) > 200
    for expression in expressions:
        minute, hour, *_ = expression.split()
        fields = parse_cron(expression)
        assert fields.minutes == plain_numbers(minute, 59)
        assert fields.hours == plain_numbers(hour, 23)


def plain_numbers(text: str, high: int) -> tuple[int, ...]:
    """Read a field as Kubernetes' own cron library does: a/n runs to the end of the field."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "-", str(high)) if span == "*" else span.partition("-")
        end = int(last) if last else (high if step else int(first))
        found.update(range(int(first), end + 1, int(step or 1)))
    return tuple(sorted(found))


def test_bounds_of_its_own_are_half_open_and_counted_on_the_nominal_time() -> None:
    bounds = {"start": "2027-03-14T02:30", "end": "2027-03-16T02:30"}
    document = {"cron": "30 2 * * *", "timezone": "America/New_York", **bounds}
    cron = Cron.model_validate(document)
    year = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
    found = expand(cron, *year).occurrences
    assert [each.nominal.day for each in found] == [14, 15]
    assert found[0].due_at.hour == 7  # 03:30, after the gap
    assert Cron.model_validate(cron.model_dump(mode="json", exclude_none=True)) == cron


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("30 2 * * *", ["2027-03-14T07:00"]),  # soon after the change, says cron(8)
        ("*/30 2 * * *", []),
        ("0 1,3 * * *", ["2027-03-14T06:00", "2027-03-14T07:00"]),
    ],
)
def test_the_preset_of_debian_runs_at_the_end_of_a_gap_what_it_skipped(
    expression: str, due: list[str]
) -> None:
    cron = Cron.model_validate(
        {"cron": expression, "timezone": "America/New_York", "preset": "debian"}
    )
    day = (datetime(2027, 3, 14, 5, tzinfo=UTC), datetime(2027, 3, 14, 20, tzinfo=UTC))
    found = [f"{each.due_at:%Y-%m-%dT%H:%M}" for each in expand(cron, *day).occurrences]
    assert found == due
