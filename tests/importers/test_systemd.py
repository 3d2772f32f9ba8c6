"""Timers of systemd: what their lines mean, and what is left out."""

from pathlib import Path
from typing import Any

import pytest

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.on_calendar import read_on_calendar
from dueledger.importers.source_job import NewDefinitionFields, TranslatedSchedule
from dueledger.importers.systemd import import_systemd

FILES = Path(__file__).parent / "files/systemd"
"""Written for these tests in the style of the timers that distributions have."""
ANEW = NewDefinitionFields("hosts", zone="Europe/Berlin")


def documents(found: ImportResult) -> dict[str, Any]:
    return {one.definition.definition: one.document for one in found.jobs}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("minutely", "* * * * *"),
        ("hourly", "0 * * * *"),
        ("daily", "0 0 * * *"),
        ("weekly", "0 0 * * 1"),
        ("monthly", "0 0 01 * *"),
        ("yearly", "0 0 1 1 *"),
        ("quarterly", "0 0 1 1,4,7,10 *"),
        ("Mon..Fri 06:30", "30 6 * * 1-5"),
        ("Mon,Wed,Sat..Sun *-*-* 12:00:00", "0 12 * * 1,3,6-7"),
        ("Monday *-*-01..07 00:00", "0 0 1-7 * 1"),
        ("*-*-* 6,18:00", "0 6,18 * * *"),
        ("*:0/15", "0/15 * * * *"),
        ("*:*:0/30", "0/30 * * * * *"),
        ("*-02~01 00:00", "0 0 l 2 *"),
        ("*-*~03 10:00", "0 10 l-2 * *"),
        ("Mon *-05~07/1", "0 0 l,l-1,l-2,l-3,l-4,l-5,l-6 5 1"),
        ("2027..2029-12-24 18:00:00", "0 0 18 24 12 * 2027-2029"),
        ("12-24 18:00", "0 18 24 12 *"),
        ("*-1/2-1,15 *:00", "0 * 1,15 1/2 *"),
        ("05:40 UTC", "40 5 * * *"),
        ("Fri *-*-13 00:00 America/New_York", "0 0 13 * 5"),
    ],
)
def test_an_expression_of_the_manual_is_read(text: str, expression: str) -> None:
    read = read_on_calendar(text, "Europe/Berlin")
    assert isinstance(read, TranslatedSchedule), read
    assert read.when["cron"] == expression.replace("01 *", "1 *")
    named = text.rpartition(" ")[2]
    zone = named if named in {"UTC", "America/New_York"} else "Europe/Berlin"
    assert read.when["timezone"] == zone


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an expression"),
        ("Mon *-*-* *-*-* 06:00", "not an expression"),
        ("tomorrow", "weekday `tomorrow`"),
        ("Fri..Mon 06:00", "is descending"),
        ("*-*-* *:*/5", "minute `*/5`"),
        ("*-*-32", "day `32`"),
        ("*-13-01", "month `13`"),
        ("*-*-* 25:00", "hour `25`"),
        ("*-*-* 06:00:00.5", "second `00.5`"),
        ("*-*~0", "day `~0`"),
        ("Mon *-*-* 06:00 Europe/Berln x", "not an expression"),
        ("*-*-* 06:00:00 " + "x" * 600, "longer than"),
        ("1969-01-01", "year `1969`"),
    ],
)
def test_what_is_not_understood_is_left_out(text: str, reason: str) -> None:
    read = read_on_calendar(text, "Europe/Berlin")
    assert isinstance(read, ImportRefusal)
    assert reason in read.reason


def test_a_folder_of_timers_is_read_with_its_drop_ins() -> None:
    found = import_systemd(FILES, ANEW)
    read = documents(found)
    assert read["logrotate"]["when"]["cron"] == "0 0 * * *"
    assert read["logrotate"]["catch_up"] == {"policy": "latest"}
    assert read["apt-daily"]["smear"] == read["certbot"]["smear"] == "PT12H"
    assert read["billing"]["smear"] == "PT5M", "from the drop-in"
    assert read["billing"]["payload"] == {"unit": "billing-run.service"}
    assert read["billing"]["overlap"] == "skip"
    assert read["poll"]["when"] == {"after_completion": "PT1M30S"}
    assert read["systemd-tmpfiles-clean"]["when"]["every"] == "PT24H"
    second = next(name for name in read if name.startswith("billing-"))
    assert read[second]["when"]["cron"] == "30 22 l * *"
    assert [one.where for one in found.skipped] == ["boot.timer"]
    assert {one.text for one in found.reported} == {
        "poll.timer OnActiveSec",
        "systemd-tmpfiles-clean.timer OnBootSec",
    }
    questions = {one.definition.definition: one.known.questions for one in found.jobs}
    assert OpenQuestion.MISSED in questions["billing"]
    assert OpenQuestion.MISSED not in questions["logrotate"]
    assert OpenQuestion.PHASE in questions["systemd-tmpfiles-clean"]


def test_what_systemctl_cat_prints_is_read(tmp_path: Path) -> None:
    printed = "\n".join(
        f"# /usr/lib/systemd/system/{name}\n{(FILES / name).read_text('utf-8')}"
        for name in ("logrotate.timer", "billing.timer")
    )
    printed += "\n# /etc/systemd/system/billing.timer.d/10-delay.conf\n[Timer]\nOnCalendar=\n"
    printed += "OnCalendar=hourly\nRandomizedDelaySec=2h\n"
    (tmp_path / "timers.txt").write_text(printed, encoding="utf-8")
    found = import_systemd(tmp_path / "timers.txt", ANEW)
    assert set(documents(found)) == {"logrotate", "billing"}, "an empty line undoes those before it"
    billing = documents(found)["billing"]
    assert (billing["when"]["cron"], billing["smear"]) == ("0 * * * *", "PT1H")
    assert "not over PT2H" in found.jobs[-1].known.notes[0]


def test_without_a_zone_nothing_is_guessed() -> None:
    found = import_systemd(FILES, NewDefinitionFields("hosts"))
    assert {name.partition("-")[0] for name in documents(found)} == {"billing", "poll", "systemd"}
    assert all("time zone" in one.reason for one in found.skipped if one.where != "boot.timer")


@pytest.mark.parametrize(
    ("delay", "smear"),
    [("1h 30min", "PT1H30M"), ("90", "PT1M30S"), ("2 days", "PT24H"), ("1M", None), ("x", None)],
)
def test_a_delay_is_a_time_span(tmp_path: Path, delay: str, smear: str | None) -> None:
    unit = f"[Timer]\nOnCalendar=daily\nRandomizedDelaySec={delay}\n"
    (tmp_path / "a.timer").write_text(unit, encoding="utf-8")
    [one] = import_systemd(tmp_path / "a.timer", ANEW).jobs
    assert one.document.get("smear") == smear
    assert bool(one.known.notes) == (delay in {"2 days", "1M", "x"})
