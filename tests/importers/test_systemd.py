"""Timers of systemd: what their lines mean, and what is left out."""

from pathlib import Path
from typing import Any

import pytest

from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.on_calendar import read_on_calendar
from dueledger.importers.source_job import NewDefinitionFields, TranslatedSchedule
from dueledger.importers.systemd import import_systemd
from dueledger.ledger.errors import UnreadableFile

FILES = Path(__file__).parent / "files/systemd"
"""Written for these tests in the style of the timers that distributions have."""
ANEW = NewDefinitionFields("hosts", zone="Europe/Berlin")


def documents(found: ImportResult) -> dict[str, Any]:
    """Return the documents by the places of their lines."""
    return {one.where: one.document for one in found.jobs}


def names(found: ImportResult) -> list[str]:
    return [one.definition.definition for one in found.jobs]


def read_timer(folder: Path, text: str, name: str = "a.timer") -> ImportResult:
    (folder / name).write_text(text, encoding="utf-8")
    return import_systemd(folder / name, ANEW)


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
    logrotate, billing = read["logrotate.timer:6"], read["billing.timer:5"]
    assert logrotate["when"]["cron"] == "0 0 * * *"
    assert logrotate["catch_up"] == {"policy": "latest"}
    assert read["apt-daily.timer:5"]["smear"] == read["certbot.timer:5"]["smear"] == "PT12H"
    assert billing["smear"] == "PT5M", "from the drop-in"
    assert billing["payload"] == {"unit": "billing-run.service"}
    assert billing["overlap"] == "skip"
    assert read["poll.timer:3"]["when"] == {"after_completion": "PT1M30S"}
    assert read["systemd-tmpfiles-clean.timer:7"]["when"]["every"] == "PT24H"
    assert read["billing.timer:6"]["when"]["cron"] == "30 22 l * *"
    assert [one.where for one in found.skipped] == ["boot.timer:2"]
    assert {one.text for one in found.reported} == {
        "poll.timer OnActiveSec",
        "systemd-tmpfiles-clean.timer OnBootSec",
    }
    questions = {one.where: one.known.questions for one in found.jobs}
    assert OpenQuestion.MISSED in questions["billing.timer:5"]
    assert OpenQuestion.MISSED not in questions["logrotate.timer:6"]
    assert OpenQuestion.PHASE in questions["systemd-tmpfiles-clean.timer:7"]


def test_what_systemctl_cat_prints_is_read(tmp_path: Path) -> None:
    printed = "\n".join(
        f"# /usr/lib/systemd/system/{name}\n{(FILES / name).read_text('utf-8')}"
        for name in ("logrotate.timer", "billing.timer")
    )
    printed += "\n# /etc/systemd/system/billing.timer.d/10-delay.conf\n[Timer]\nOnCalendar=\n"
    printed += "OnCalendar=hourly\nRandomizedDelaySec=2h\n"
    (tmp_path / "timers.txt").write_text(printed, encoding="utf-8")
    found = import_systemd(tmp_path / "timers.txt", ANEW)
    units = [one.document["payload"] for one in found.jobs]
    assert units == [{"unit": "logrotate.service"}, {"unit": "billing-run.service"}], (
        "an empty line undoes those before it"
    )
    billing: Any = found.jobs[-1].document
    assert (billing["when"]["cron"], billing["smear"]) == ("0 * * * *", "PT1H")
    assert "not over PT2H" in found.jobs[-1].known.notes[0]


def test_without_a_zone_nothing_is_guessed() -> None:
    found = import_systemd(FILES, NewDefinitionFields("hosts"))
    assert {name.partition("-")[0] for name in names(found)} == {"billing", "poll", "systemd"}
    assert all("time zone" in one.reason for one in found.skipped if one.where != "boot.timer:2")


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


def test_a_name_depends_on_its_line_alone(tmp_path: Path) -> None:
    line = "OnCalendar=*-*-* 06:00\n"
    [alone] = names(read_timer(tmp_path, f"[Timer]\n{line}"))
    assert alone.startswith("a-")
    grown = names(read_timer(tmp_path, f"[Timer]\nOnCalendar=hourly\n{line}OnCalendar=weekly\n"))
    assert grown[1] == alone
    assert len(set(grown)) == 3
    (tmp_path / "a.timer.d").mkdir()
    (tmp_path / "a.timer.d/1.conf").write_text("[Timer]\nOnCalendar=minutely\n", "utf-8")
    assert names(read_timer(tmp_path, f"[Timer]\n{line}"))[0] == alone


@pytest.mark.parametrize("name", ["OnCalendar", "OnBootSec", "OnUnitActiveSec"])
def test_an_empty_value_undoes_every_line_that_makes_the_timer_elapse(
    tmp_path: Path, name: str
) -> None:
    before = "OnCalendar=hourly\nOnBootSec=5min\nOnUnitInactiveSec=1h\n"
    found = read_timer(tmp_path, f"[Timer]\n{before}{name}=\nOnCalendar=daily\n")
    assert [one.where for one in found.jobs] == ["a.timer:6"]
    assert [one.where for one in found.reported] == ["a.timer:2", "a.timer:3", "a.timer:4"]
    assert all(f"undone by the empty {name}=" in one.meaning for one in found.reported)
    nothing = read_timer(tmp_path, f"[Timer]\n{before}{name}=\n")
    assert [one.where for one in nothing.skipped] == ["a.timer"]


def test_an_empty_value_of_another_setting_undoes_nothing(tmp_path: Path) -> None:
    text = "[Timer]\nOnCalendar=daily\nPersistent=true\nPersistent=\nRandomizedDelaySec=1h\n"
    [one] = read_timer(tmp_path, f"{text}RandomizedDelaySec=\nUnit=\n").jobs
    assert one.document["catch_up"] == {"policy": "latest"}
    assert one.document["smear"] == "PT1H"
    assert one.document["payload"] == {"unit": "a.service"}


@pytest.mark.parametrize(
    ("setting", "note"),
    [
        ("AccuracySec=1h", "AccuracySec=1h is not converted"),
        ("AccuracySec=infinity", "AccuracySec=infinity is not converted"),
        ("AccuracySec=1us", None),
        ("AccuracySec=1min", None),
        ("WakeSystem=true", "nothing wakes a machine"),
        ("WakeSystem=no", None),
        ("RandomizedDelaySec=5min\nFixedRandomDelay=yes", "RandomizedDelaySec= is the same at"),
        ("RandomizedOffsetSec=5min", "RandomizedOffsetSec= is the same at"),
        ("Unit=b@%i.service", "has a specifier"),
        ("RemainAfterElapse=no", None),
        ("DeferReactivation=true", None),
        ("[Unit]\nConditionACPower=true", "ConditionACPower= is not converted"),
    ],
)
def test_a_setting_without_a_counterpart_is_noted(
    tmp_path: Path, setting: str, note: str | None
) -> None:
    found = read_timer(tmp_path, f"[Timer]\nOnCalendar=daily\n{setting}\n")
    notes = found.jobs[0].known.notes
    assert [note in each for each in notes] == [True] if note else notes == ()
    assert found.skipped == found.reported == []


@pytest.mark.parametrize(
    ("settings", "smear"),
    [
        ("RandomizedDelaySec=1h\nRandomizedDelaySec=5min", "PT5M"),
        ("RandomizedDelaySec=1h\nRandomizedOffsetSec=30min", "PT1H30M"),
        ("RandomizedDelaySec=2000ms", "PT2S"),
        ("RandomizedDelaySec=999999999weeks", None),
    ],
)
def test_random_delays_are_a_smear(tmp_path: Path, settings: str, smear: str | None) -> None:
    [one] = read_timer(tmp_path, f"[Timer]\nOnCalendar=daily\n{settings}\n").jobs
    assert one.document.get("smear") == smear


def test_the_first_unit_is_the_one_that_systemd_starts(tmp_path: Path) -> None:
    [one] = read_timer(tmp_path, "[Timer]\nOnCalendar=daily\nUnit=b.service\nUnit=c.service").jobs
    assert one.document["payload"] == {"unit": "b.service"}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("OnCalendar=*-*-* %i:00", "has a specifier"),
        ("OnUnitActiveSec=1h\nOnUnitActiveSec=2h", "that the other lines"),
        ("OnUnitActiveSec=1h\nOnUnitInactiveSec=2h", "that the other lines"),
        ("OnBootSec=1h\nOnStartupSec=1h\nOnActiveSec=1h", "start of the machine"),
        ("OnClockChange=true\nOnTimezoneChange=yes", "sets the clock"),
        ("OnUnitActiveSec=1month", "not a time span"),
        ("OnUnitActiveSec=0", "not a time span"),
        ("OnCalendar=daily Europe/Berln", "not an expression"),
    ],
)
def test_a_line_that_is_no_schedule_of_its_own_is_left_out(
    tmp_path: Path, lines: str, reason: str
) -> None:
    found = read_timer(tmp_path, f"[Timer]\n{lines}\n")
    assert found.jobs == []
    assert len(found.skipped) == len(lines.splitlines())
    assert all(reason in one.reason and one.accepted for one in found.skipped), found.skipped


def test_a_calendar_line_is_kept_beside_those_that_count_from_its_starts(tmp_path: Path) -> None:
    found = read_timer(tmp_path, "[Timer]\nOnCalendar=daily\nOnUnitActiveSec=1h\n")
    assert [one.where for one in found.jobs] == ["a.timer:2"]
    assert [one.where for one in found.skipped] == ["a.timer:3"]


def test_lines_that_systemd_ignores_are_reported(tmp_path: Path) -> None:
    text = "OnCalendar=daily\n[Timer]\nOncalendar=daily\nOnCalendar hourly\nOnCalendar=weekly\n"
    found = read_timer(tmp_path, f"{text}OnClockChange=true\nOnClockChange=no\n")
    assert [one.where for one in found.jobs] == ["a.timer:5"]
    assert [one.where for one in found.reported] == ["a.timer:1", "a.timer:3", "a.timer:4"]
    assert all("systemd ignores it" in one.meaning for one in found.reported)


def test_an_empty_unit_is_listed(tmp_path: Path) -> None:
    assert [one.where for one in read_timer(tmp_path, "").skipped] == ["a.timer"]
    assert [one.where for one in read_timer(tmp_path, "x", name="a.txt").skipped] == ["a.txt"]


def test_a_timer_that_is_masked_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.timer").symlink_to("/dev/null")
    (tmp_path / "b.timer").symlink_to(tmp_path / "nothing")
    (tmp_path / "c.timer").write_text("[Timer]\nOnCalendar=daily\n", "utf-8")
    found = import_systemd(tmp_path, ANEW)
    assert [one.where for one in found.jobs] == ["c.timer:2"]
    assert [one.where for one in found.skipped] == ["a.timer", "b.timer"]


def test_links_that_lead_in_a_circle_are_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.timer").symlink_to(tmp_path / "a.timer")
    (tmp_path / "b.timer").write_text("[Timer]\nOnCalendar=daily\n", "utf-8")
    (tmp_path / "b.timer.d").mkdir()
    (tmp_path / "b.timer.d" / "a.conf").symlink_to(tmp_path / "b.timer.d" / "a.conf")
    found = import_systemd(tmp_path, ANEW)
    with pytest.raises(UnreadableFile):
        import_systemd(tmp_path / "a.timer", ANEW)
    assert [one.where for one in found.jobs] == ["b.timer:2"]
    assert [one.where for one in found.skipped] == ["a.timer"]


def test_a_template_is_left_out(tmp_path: Path) -> None:
    found = read_timer(tmp_path, "[Timer]\nOnCalendar=daily\n", name="a@.timer")
    assert [one.where for one in found.skipped] == ["a@.timer:2"]
    instance = read_timer(tmp_path, "[Timer]\nOnCalendar=daily\n", name="a@b.timer")
    assert instance.jobs[0].document["payload"] == {"unit": "a@b.service"}


def test_a_line_goes_on_after_a_backslash_and_the_comments_behind_it(tmp_path: Path) -> None:
    text = "[Timer]\nOnCalendar=Mon..Fri \\\n# in the morning\n; early\n  06:30\n"
    [one] = read_timer(tmp_path, text).jobs
    assert (one.where, documents(read_timer(tmp_path, text))["a.timer:2"]["when"]["cron"]) == (
        "a.timer:2",
        "30 6 * * 1-5",
    )
    [last] = read_timer(tmp_path, "[Timer]\nOnCalendar=daily\\").jobs
    assert last.where == "a.timer:2"


def test_drop_ins_are_read_by_their_names_from_all_folders_of_the_unit(tmp_path: Path) -> None:
    """systemd.unit(5): by the file's name whatever its folder, the most specific of one name."""
    delays = {
        "timer.d/10-a.conf": "1min",
        "timer.d/90-z.conf": "2min",
        "a-.timer.d/50-b.conf": "3min",
        "a-b.timer.d/50-b.conf": "4min",
        "a-b.timer.d/20-c.conf": "5min",
    }
    for place, delay in delays.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(f"[Timer]\nRandomizedDelaySec={delay}\n", "utf-8")
    (tmp_path / "a-b.timer").write_text("[Timer]\nOnCalendar=daily\n", "utf-8")

    def smear() -> object:
        found = import_systemd(tmp_path, ANEW)
        assert found.skipped == []
        return found.jobs[0].document["smear"]

    assert smear() == "PT2M"
    (tmp_path / "timer.d/90-z.conf").write_text("", "utf-8")
    assert smear() == "PT4M", "the one of a-.timer.d has the same name"


def test_a_drop_in_without_its_timer_is_listed(tmp_path: Path) -> None:
    (tmp_path / "b.timer").write_text("[Timer]\nOnCalendar=daily\n", "utf-8")
    (tmp_path / "a.timer.d").mkdir()
    (tmp_path / "a.timer.d/1.conf").write_text("[Timer]\nOnCalendar=hourly\n", "utf-8")
    (tmp_path / "mytimer.d").mkdir()
    (tmp_path / "mytimer.d/1.conf").write_text("of another program", "utf-8")
    found = import_systemd(tmp_path, ANEW)
    assert [one.where for one in found.jobs] == ["b.timer:2"]
    assert [one.where for one in found.skipped] == ["a.timer.d/1.conf"]


def test_drop_ins_in_what_systemctl_cat_prints_are_of_the_unit_above(tmp_path: Path) -> None:
    printed = """\
# /usr/lib/systemd/system/a-b.timer
[Timer]
OnCalendar=daily

# /etc/systemd/system/a-.timer.d/1.conf
[Timer]
OnCalendar=hourly

# /etc/systemd/system/timer.d/2.conf
[Timer]
Persistent=true

# /usr/lib/systemd/system/a-b.service
[Unit]
Description=Not of the timer
[Timer]
OnCalendar=weekly
"""
    found = read_timer(tmp_path, printed, name="all.txt")
    assert [one.where for one in found.jobs] == ["all.txt:3", "all.txt:7"]
    assert found.skipped == found.reported == []
    for one in found.jobs:
        assert one.document["catch_up"] == {"policy": "latest"}
        assert one.known.description is None


def test_a_link_that_enables_a_timer_is_read_once_with_its_drop_ins(tmp_path: Path) -> None:
    vendor, local = tmp_path / "lib", tmp_path / "etc"
    wants = local / "timers.target.wants"
    for folder in (vendor, wants, local / "a.timer.d"):
        folder.mkdir(parents=True)
    for name in ("a.timer", "b@.timer"):
        (vendor / name).write_text("[Timer]\nOnCalendar=daily\n", "utf-8")
    (local / "a.timer.d/1.conf").write_text("[Timer]\nPersistent=true\n", "utf-8")
    (wants / "a.timer").symlink_to(vendor / "a.timer")
    (wants / "b@c.timer").symlink_to(vendor / "b@.timer")
    found = import_systemd(local, ANEW)
    assert [one.document["payload"] for one in found.jobs] == [
        {"unit": "a.service"},
        {"unit": "b@c.service"},
    ]
    assert found.jobs[0].document["catch_up"] == {"policy": "latest"}
    assert found.skipped == found.reported == []
    (local / "a.timer").write_text("[Timer]\nOnCalendar=hourly\n", "utf-8")
    (wants / "a.timer").unlink()
    (wants / "a.timer").symlink_to(local / "a.timer")
    again = import_systemd(local, ANEW)
    assert [one.where for one in again.jobs] == ["a.timer:2", "timers.target.wants/b@c.timer:2"]
    assert [one.where for one in again.reported] == ["timers.target.wants/a.timer"]
    assert again.skipped == []
