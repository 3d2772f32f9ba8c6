"""The witness agrees wherever it answers, and no answer is said to be none."""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.schedule import Cron, Rrule
from dueledger.ledger.schedule.cron import DayRule
from dueledger.ledger.witness import Agreement, Witness, WitnessedTimes
from dueledger.ledger.witness.questions import ask_about

from .schedules import CRONS, rrules

SINCE = datetime(2027, 3, 1, 12, tzinfo=UTC)
GREEDY = """
class CroniterBadDateError(ValueError):
    pass

class croniter:
    def __init__(self, text, start, **options):
        bytes(1 << 30)  # no page of it is ever touched

    def get_next(self, kind):
        raise CroniterBadDateError
"""
PATIENT = 30.0
"""Seconds for an answer: as long as it takes, except where no answer is expected."""


@pytest.fixture(scope="module")
def witness() -> Iterator[Witness]:
    with Witness(PATIENT) as witness:
        yield witness


@pytest.fixture(scope="module")
def hasty() -> Iterator[Witness]:
    """A witness that gives up early, for rules that dateutil searches for hours."""
    with Witness(0.5) as witness:
        yield witness


def cron(text: str, **fields: object) -> Cron:
    return Cron.model_validate({"cron": text, "timezone": "America/New_York", **fields})


def rrule(text: str, **fields: object) -> Rrule:
    document = {"rrule": text, "start": "2027-01-01T18:00", "timezone": "America/New_York"}
    return Rrule.model_validate(document | fields)


@pytest.mark.parametrize(
    ("when", "library"),
    [
        (cron("30 2 * * *"), "croniter"),
        (cron("*/7 * * * *"), "croniter"),
        (cron("17 23-23/24 * * *"), "croniter"),
        (cron("0 9 13 * fri", day_rule="any"), "croniter"),
        (cron("0 9 13 * fri", day_rule="all"), "croniter"),
        (cron("0 9 1-31 * mon"), "croniter"),
        (cron("0 0 9 ? 6 fri#2 2027-2030"), "croniter"),
        (cron("0 9 15W * *"), "croniter"),
        (cron("0 9 L-3 * *"), "dateutil"),
        (cron("0 9 15,L-3 * mon", day_rule="any"), "dateutil"),
        (cron("0 9 15,L-3 2,3 mon", day_rule="all"), "dateutil"),
        (rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"), "dateutil"),
        (rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYSETPOS=1"), "dateutil"),
        (rrule("FREQ=WEEKLY;WKST=SU;BYDAY=SU,WE;BYSETPOS=1"), "dateutil"),
        (rrule("FREQ=DAILY;COUNT=10"), "dateutil"),
        (rrule("FREQ=DAILY;UNTIL=20270601T000000Z"), "dateutil"),
        (rrule("FREQ=DAILY", rdate=["2027-03-02T10:00"], exdate=["2027-03-03T18:00"]), "dateutil"),
        (rrule("FREQ=MINUTELY;INTERVAL=7", start="1999-01-01T00:00"), "dateutil"),
    ],
)
def test_the_witness_agrees(witness: Witness, when: Cron | Rrule, library: str) -> None:
    found = witness.ask(when, SINCE)
    assert found.agreement is Agreement.AGREES, found
    assert library in (found.package or "")
    assert 0 < len(found.ours) <= 50


@pytest.mark.parametrize("rule", ["FREQ=WEEKLY", "FREQ=WEEKLY;INTERVAL=2;WKST=SU"])
def test_the_witness_agrees_on_rules_whose_first_week_their_start_cuts(
    witness: Witness, rule: str
) -> None:
    """Of the first week, which began before the rule, the first of both days is the Wednesday."""
    when = rrule(f"{rule};BYDAY=WE,SA;BYSETPOS=1")
    found = witness.ask(when, datetime(2027, 1, 1, tzinfo=UTC))
    assert found.agreement is Agreement.AGREES, found


def test_the_first_week_of_a_rule_without_bysetpos_is_witnessed_too(witness: Witness) -> None:
    found = witness.ask(rrule("FREQ=WEEKLY;BYDAY=WE,SA"), datetime(2027, 1, 1, tzinfo=UTC))
    assert found.agreement is Agreement.AGREES, found
    assert found.ours[0] == datetime(2027, 1, 2, 18)  # noqa: DTZ001 - a local time


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        (cron("0 9 29 2 *", end="2027-12-31T00:00"), "nothing falls due"),
        (cron("0 9 LW * *"), "`W` of another day"),
        (cron("0 9 31W * *"), "`W` of another day"),
        (cron("0 9 2,15W * *"), "`W` beside other days"),
        (cron("0 9 L-3,15W * *"), "`L-n` beside `W`"),
        (cron("0 9 L-3 * *", start="2193-01-01T00:00"), "AGREES"),
        (cron("0 9 * * *", start="2098-01-01T00:00"), "croniter ends in 2099"),
        (rrule("FREQ=DAILY", end="2027-02-01T00:00"), "nothing falls due"),
    ],
)
def test_what_is_not_witnessed_says_why(witness: Witness, when: Cron | Rrule, reason: str) -> None:
    found = witness.ask(when, SINCE)
    if reason == "AGREES":
        assert found.agreement is Agreement.AGREES
        return
    assert found.agreement is Agreement.NOT_WITNESSED
    assert str(found).startswith("not witnessed: ")
    assert reason in str(found)


def test_what_takes_longer_than_its_limit_is_ended_and_not_witnessed() -> None:
    never = "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"  # dateutil searches it for seconds
    slow = rrule(never, rdate=["2027-03-02T10:00"], sparse=True)
    with Witness(0.2) as witness:
        found = witness.ask(slow, SINCE)
        assert found.agreement is Agreement.NOT_WITNESSED
        assert str(found).endswith("gave no answer within 0.2 s")
        assert witness.cpu_seconds > 0.1
        assert witness.ask(slow, SINCE) is found, "asked once"


def test_the_kernel_ends_what_takes_more_cpu_time_however_long_is_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dueledger.ledger.witness.witness._ELAPSED_FACTOR", 10_000)
    searched = (
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"  # by dateutil for seconds, then found to be none
    )
    with Witness(0.2) as witness:
        found = witness.ask(rrule(searched, rdate=["2027-03-02T10:00"], sparse=True), SINCE)
    assert str(found).endswith("gave no answer within 0.2 s")


def test_a_library_that_waits_without_cpu_time_is_ended_and_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = GREEDY.replace("bytes(1 << 30)", "import signal; signal.pause()")
    (tmp_path / "croniter.py").write_text(waiting, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Witness(0.05) as witness:
        found = witness.ask(cron("30 2 * * *"), SINCE)
    assert str(found).endswith("gave no answer within 0.05 s")


def test_a_library_that_takes_too_much_memory_ends_and_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "croniter.py").write_text(GREEDY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Witness(PATIENT) as witness:
        found = witness.ask(cron("30 2 * * *"), SINCE)
    assert str(found).endswith("ended without an answer, with code 1")


def test_after_a_process_that_ended_the_next_question_starts_another() -> None:
    with Witness(PATIENT) as witness:
        assert witness.ask(cron("30 2 * * *"), SINCE).agreement is Agreement.AGREES
        process = witness._process  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        ended = witness.ask(cron("31 2 * * *"), SINCE)
        assert str(ended).endswith("ended without an answer, with code -9")
        assert witness.ask(cron("32 2 * * *"), SINCE).agreement is Agreement.AGREES


def test_a_disagreement_names_the_place_where_both_part() -> None:
    days = tuple(datetime(2027, 3, day) for day in range(1, 5))  # noqa: DTZ001 - nominal
    found = WitnessedTimes(Agreement.DISAGREES, "croniter 7.0.0", days[:3], (*days[:2], days[3]))
    assert found.parts_after == 2
    assert str(found) == (
        "croniter 7.0.0 disagrees from time 3 on: here 2027-03-03T00:00:00, "
        "there 2027-03-04T00:00:00"
    )
    shorter = WitnessedTimes(Agreement.DISAGREES, "croniter 7.0.0", days, days[:1])
    assert str(shorter).endswith("from time 2 on: here 2027-03-02T00:00:00, there nothing more")


def check_cron(witness: Witness, text: str, day_rule: str, days: int) -> None:
    try:
        when = cron(text, day_rule=day_rule, sparse=True)
    except ValidationError:
        reject()
    found = witness.ask(when, SINCE + timedelta(days=days))
    assert found.agreement is not Agreement.DISAGREES, (text, found)


CRON_CASES = given(CRONS, st.sampled_from(list(DayRule)), st.integers(0, 9000))
RULE_CASES = given(rrules(), st.integers(0, 4000))
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@settings(max_examples=50, suppress_health_check=SLOW, derandomize=True)
@CRON_CASES
def test_cron_texts_of_every_form_are_witnessed(
    witness: Witness, text: str, day_rule: str, days: int
) -> None:
    check_cron(witness, text, day_rule, days)


@pytest.mark.full
@settings(max_examples=20_000, suppress_health_check=SLOW)
@CRON_CASES
def test_many_cron_texts_of_every_form_are_witnessed(
    witness: Witness, text: str, day_rule: str, days: int
) -> None:
    check_cron(witness, text, day_rule, days)


def check_rule(witness: Witness, text: str, days: int) -> None:
    try:
        when = rrule(text, sparse=True)
    except ValidationError:
        reject()
    found = witness.ask(when, SINCE + timedelta(days=days))
    assert found.agreement is not Agreement.DISAGREES, (text, found)


@settings(max_examples=30, suppress_health_check=SLOW, derandomize=True)
@RULE_CASES
def test_rules_of_every_form_are_witnessed(hasty: Witness, text: str, days: int) -> None:
    assume("MINUTELY" not in text and "HOURLY" not in text)
    check_rule(hasty, text, days)


@pytest.mark.full
@settings(max_examples=3_000, suppress_health_check=SLOW)
@RULE_CASES
def test_many_rules_of_every_form_are_witnessed(hasty: Witness, text: str, days: int) -> None:
    check_rule(hasty, text, days)


def test_the_question_has_the_text_as_it_is_written_unless_croniter_misreads_it() -> None:
    assert ask_about(cron("0 9 * * MON-FRI"), SINCE).question["text"] == "0 9 * * MON-FRI"
    assert ask_about(cron("17 23-23/24 * * *"), SINCE).question["text"] == "17 23 * * *"
    assert ask_about(cron("0 22-2 * * *"), SINCE).question["text"] == "0 22-2 * * *"
    assert ask_about(cron("0 22-2/3 * * *"), SINCE).question["text"] == "0 1,22 * * *"
    assert ask_about(cron("0 0 * * 7-sun"), SINCE).question["text"] == "0 0 * * 0"
    assert ask_about(cron("0-0 * * * * ?"), SINCE).question["text"] == "* * * * *"
    assert ask_about(cron("0 0 */1 * mon"), SINCE).question["text"] == "0 0 * * 1"
