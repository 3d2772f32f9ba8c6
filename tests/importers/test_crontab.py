"""Each line of a crontab is a definition, or left out with the reason, or said to be no job."""

from typing import Any

import pytest

from dueledger.importers.crontab import import_crontab
from dueledger.importers.import_result import ImportedJob, ImportResult, OpenQuestion, SkippedJob
from dueledger.importers.source_job import NewDefinitionFields

BERLIN = NewDefinitionFields("acme", zone="Europe/Berlin")
NO_ZONE = NewDefinitionFields("acme")


def read(text: str, anew: NewDefinitionFields = BERLIN, *, of_system: bool = False) -> ImportResult:
    return import_crontab(text + "\n", "tab", anew, of_system=of_system)


def job(text: str, *, of_system: bool = False) -> ImportedJob:
    [found] = read(text, of_system=of_system).jobs
    return found


def left_out(
    text: str, anew: NewDefinitionFields = BERLIN, *, of_system: bool = False
) -> SkippedJob:
    found = read(text, anew, of_system=of_system)
    assert found.jobs == []
    [one] = found.skipped
    return one


def when(text: str) -> Any:  # noqa: ANN401 - a document
    return job(text).document["when"]


def test_a_line_is_read_on_its_machines_clock_as_cron_has_it() -> None:
    assert when("30 2 * * * x") == {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "gap": "gap_end",
        "fold": "first",
    }
    assert when("*/15 * * * * x")["gap"] == "skip"
    assert when("0 */2 * * * x")["fold"] == "both"


def test_without_a_zone_nothing_is_guessed() -> None:
    one = left_out("30 2 * * * x", NO_ZONE)
    assert "does not name the time zone" in one.reason
    assert one.accepted == "--timezone Europe/Berlin"


def test_cron_tz_holds_for_the_lines_below_it() -> None:
    jobs = read("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\nCRON_TZ = 'UTC'\n0 1 * * * c").jobs
    zones = [one.definition.when.timezone for one in jobs]  # type: ignore[union-attr]
    assert zones == ["Europe/Berlin", "Asia/Tokyo", "UTC"]


def test_an_unknown_cron_tz_is_named_with_the_nearest() -> None:
    one = left_out("CRON_TZ=Europe/Berln\n0 1 * * * a")
    assert "Europe/Berln" in one.reason
    assert one.accepted is not None
    assert "Europe/Berlin" in one.accepted


def test_tz_is_the_commands_zone_and_is_said_to_be() -> None:
    found = read("TZ=Asia/Tokyo\n0 1 * * * a")
    assert found.jobs[0].definition.when.timezone == "Europe/Berlin"  # type: ignore[union-attr]
    assert "for commands, not for schedules" in found.reported[0].meaning
    unsaid = read("TZ=Asia/Tokyo\n0 1 * * * a", NO_ZONE)
    assert unsaid.jobs == []
    assert "--timezone" in unsaid.reported[0].meaning


def test_environment_lines_are_reported_without_their_values() -> None:
    found = read("DB_PASSWORD=hunter2\nPATH = /bin:/usr/bin\n0 1 * * * a")
    assert [(one.where, one.text) for one in found.reported] == [
        ("tab:1", "DB_PASSWORD"),
        ("tab:2", "PATH"),
    ]
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@hourly", "@hourly"),
        ("@daily", "@daily"),
        ("@midnight", "@midnight"),
        ("@weekly", "@weekly"),
        ("@monthly", "@monthly"),
        ("@yearly", "@yearly"),
        ("@annually", "@annually"),
        ("@DAILY", "@DAILY"),
    ],
)
def test_macros_are_converted(macro: str, expression: str) -> None:
    assert when(f"{macro} x")["cron"] == expression


def test_reboot_is_no_time_and_a_command_is_never_quoted() -> None:
    one = left_out("@reboot /opt/start --password=hunter2", NO_ZONE)
    assert "when a machine starts" in one.reason
    assert "hunter2" not in repr(one)


def test_the_comment_above_a_line_is_its_description() -> None:
    text = (
        "# Of the file\n\n# Dumps the ledger,\n# kept thirty days\n0 1 * * * dump\n0 2 * * * sweep"
    )
    dump, sweep = read(text).jobs
    assert dump.known.description == "Dumps the ledger, kept thirty days"
    assert sweep.known.description is None


def test_debians_header_describes_nothing() -> None:
    assert job("# m h  dom mon dow   command\n0 1 * * * dump").known.description is None


def test_a_job_in_a_comment_is_reported_as_switched_off() -> None:
    found = read("#0 7 * * 1-5 /opt/old --token=hunter2\n0 1 * * * dump")
    assert [one.text for one in found.reported] == ["0 7 * * 1-5"]
    assert "switched off" in found.reported[0].meaning
    assert found.jobs[0].known.description is None
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("line", "command", "stdin"),
    [
        ("mail a@b.c%Hello%you", "mail a@b.c", "Hello\nyou"),
        (r"date +\%F > x", "date +%F > x", None),
        (r"mail a@b.c%100\% sure", "mail a@b.c", "100% sure"),
        ("cat%", "cat", ""),
    ],
)
def test_a_percent_sign_begins_the_standard_input(
    line: str, command: str, stdin: str | None
) -> None:
    payload: Any = job(f"0 1 * * * {line}").document["payload"]
    assert payload["command"] == command
    assert payload.get("stdin") == stdin


@pytest.mark.parametrize("gap", ["    ", " ", "\t", " \t "])
def test_a_systems_crontab_names_a_user(gap: str) -> None:
    one = job(f"17 *\t* * *\troot{gap}cd / && run-parts --report /etc/cron.hourly", of_system=True)
    payload: Any = one.document["payload"]
    assert payload["user"] == "root"
    assert payload["command"] == "cd / && run-parts --report /etc/cron.hourly"
    assert one.definition.definition.startswith("run-parts-")
    assert one.inventory()["owner"] == "root"


def test_a_line_of_the_other_sort_of_crontab_is_left_out_with_the_option() -> None:
    assert left_out("0 1 * * * root /opt/x").accepted == "--system"
    assert left_out("0 1 * * * /opt/x", of_system=True).accepted == "without --system"
    assert left_out("0 1 * * * backup", of_system=True).accepted == "without --system"


@pytest.mark.parametrize("line", ["bad", "0 1 * *", "0 1 * * *", "@daily", "=x"])
def test_a_line_that_is_nothing_is_left_out(line: str) -> None:
    assert left_out(line).where == "tab:1"


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ("5/15 * * * *", "some crons read 5 alone"),
        ("0~30 * * * *", "at random"),
        ("0 22-2 * * *", "is descending"),
        ("0 1 ? * *", "does not read `?`"),
        ("0 1 L * *", "not accepted by cron"),
        ("0 1 * * 5#2", "not accepted by cron"),
        ("0 R * * *", "not accepted by cron"),
        ("*/0 * * * *", "does not advance"),
        ("61 * * * *", "outside the field"),
        ("*/90 * * * *", "matches only the first"),
    ],
)
def test_what_crons_read_differently_is_left_out_with_what_to_write(
    times: str, reason: str
) -> None:
    one = left_out(f"{times} x")
    assert reason in one.reason
    assert one.accepted


def test_a_time_that_never_comes_is_asked_about() -> None:
    one = job("0 0 30 2 * x")
    assert one.inventory()["frequency"] == "never"
    assert OpenQuestion.SWITCHED_OFF in one.known.questions


def test_a_job_that_a_change_of_the_clocks_moves_is_asked_about() -> None:
    assert OpenQuestion.CLOCKS in job("30 2 * * * x").known.questions
    assert OpenQuestion.CLOCKS not in job("30 7 * * * x").known.questions


@pytest.mark.parametrize(
    "command",
    ["PGPASSWORD=abc dump", "curl https://me:abc@host/", "mysqldump -u x -pabc", "x --token abc"],
)
def test_a_command_that_seems_to_hold_a_secret_is_asked_about(command: str) -> None:
    assert OpenQuestion.SECRET in job(f"0 1 * * * {command}").known.questions
    assert OpenQuestion.SECRET not in job("0 1 * * * /opt/dump --all").known.questions


def names(*lines: str) -> list[str]:
    return [one.definition.definition for one in read("\n".join(lines)).jobs]


def test_a_name_depends_on_its_line_alone() -> None:
    [dump] = names("0 1 * * * dump a")
    assert dump.startswith("dump-")
    more = names("0 2 * * * dump b", "A=1", "# of the dump", "0 1 * * * dump a", "0 3 * * * sweep")
    assert more[1] == dump
    assert len(set(more)) == 3


def test_the_same_line_under_two_zones_is_two_jobs() -> None:
    line = "0 9 * * * report"
    assert len(set(names("CRON_TZ=Asia/Tokyo", line, "CRON_TZ=America/New_York", line))) == 2


@pytest.mark.parametrize(
    ("text", "smear", "meaning"),
    [
        ("RANDOM_DELAY=45\n0 1 * * * x", "PT45M", "as many random minutes"),
        ("RANDOM_DELAY=45\nRANDOM_DELAY=0\n0 1 * * * x", None, "delays no start"),
        ("RANDOM_DELAY=a\n0 1 * * * x", None, "not a number of minutes"),
        ("RANDOM_DELAY=6\n*/5 * * * * x", "PT5M", "as many random minutes"),
    ],
)
def test_a_random_delay_is_a_smear(text: str, smear: str | None, meaning: str) -> None:
    found = read(text)
    assert found.jobs[0].document.get("smear") == smear
    assert meaning in found.reported[-1].meaning
    notes = found.jobs[0].known.notes
    assert (notes == ()) == (smear != "PT5M")  # cut to the time between two


@pytest.mark.parametrize(
    ("times", "expression", "smear"),
    [
        ("H 4 * * 1-5", "0 4 * * 1-5", "PT1H"),
        ("H * * * *", "0 * * * *", "PT1H"),
        ("H/15 * * * *", "0-59/15 * * * *", "PT15M"),
        ("H(0-29)/10 * * * *", "0-29/10 * * * *", "PT10M"),
        ("H H * * *", "0 0 * * *", "PT24H"),
        ("H H(2-5) * * *", "0 2 * * *", "PT4H"),
        ("H H/6 * * *", "0 0-23/6 * * *", "PT6H"),
        ("H H H * *", "0 0 1 * *", "PT672H"),
    ],
)
def test_h_of_jenkins_is_a_smear(times: str, expression: str, smear: str) -> None:
    one = job(f"{times} build")
    assert one.document["when"]["cron"] == expression  # type: ignore[index]
    assert one.document["smear"] == smear
    assert "`H` is spread" in one.known.notes[0]


@pytest.mark.parametrize(
    "times", ["0 H * * *", "H/15 H * * *", "H * * H *", "H(9-70) * * * *", "H(9-5) * * * *"]
)
def test_h_that_no_smear_can_express_is_left_out(times: str) -> None:
    assert left_out(f"{times} build").accepted


def test_h_of_jenkins_under_a_zone_that_crons_read_otherwise_is_left_out() -> None:
    assert left_out("TZ=Asia/Tokyo\nH 4 * * * build").accepted == "CRON_TZ=, without TZ="
    assert when("TZ=UTC\nCRON_TZ=Asia/Tokyo\nH 4 * * * build")["timezone"] == "Asia/Tokyo"


def test_the_same_line_twice_is_converted_once_and_the_other_is_named() -> None:
    found = read("0 1 * * * dump\n0 1 * * * dump")
    assert len(found.jobs) == 1
    assert found.skipped[0].where == "tab:2"
    assert "tab:1" in found.skipped[0].reason


def test_a_last_line_without_an_end_is_reported() -> None:
    found = import_crontab("0 1 * * * dump", "tab", BERLIN)
    assert len(found.jobs) == 1
    assert "several crons ignore it" in found.reported[0].meaning


@pytest.mark.parametrize(
    "row",
    [
        "A=x" + " " * 300_000 + "y",
        "0 1 * * * cd" + " " * 4_000 + "x",
        "0 1 * * * " + "password" * 500,
        "0 1 * * * " + "mysql " * 600,
        "0 1 * * * " + "x" * 300_000,
        "," * 3_000 + " 1 * * * x",
        "0 1 * * * " + "cd x " * 800,
        f"CRON_TZ={'x' * 4_000}\n0 1 * * * x",
    ],
)
def test_no_line_hangs(row: str) -> None:
    found = read(row)
    assert len([*found.jobs, *found.skipped]) == 1


def test_every_line_is_in_one_of_the_lists() -> None:
    text = "A=1\n0 1 * * * a\n@reboot b\n#0 1 * * * c\nnonsense"
    found = read(text)
    counted = [*found.jobs, *found.skipped, *found.reported]
    assert sorted(one.where for one in counted) == [f"tab:{number}" for number in range(1, 6)]
