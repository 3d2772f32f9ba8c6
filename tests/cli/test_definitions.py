"""Definitions from files: previewed without a database, defined once."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import dueledger
from dueledger.ledger.store import Connection
from tests.forks import ForkedProcess, ForkServer

pytestmark = pytest.mark.long

Command = Callable[..., Any]

CHECKOUT = Path(dueledger.__file__).resolve().parents[1]
INSURER = CHECKOUT / "examples/insurer/definitions.yaml"

NIGHTLY = """
definition: nightly
tenant: acme
kind: NightlyDue
business_key: nightly
when: {cron: "30 2 * * *", timezone: America/New_York, gap: skip}
"""


def named_nightly(name: str) -> str:
    """Return the same schedule under another name, with a business key of its own."""
    named = NIGHTLY.replace("definition: nightly", f"definition: {name}")
    return named.replace("business_key: nightly", f"business_key: {name}")


@pytest.fixture
def nightly(tmp_path: Path) -> str:
    (tmp_path / "nightly.yaml").write_text(NIGHTLY, encoding="utf-8")
    return str(tmp_path / "nightly.yaml")


def test_a_preview_shows_what_is_due_and_what_the_gap_skips(
    dueledger: Command, nightly: str
) -> None:
    ran = dueledger("preview", nightly, "--from", "2027-03-13", "--to", "2027-03-16", "--json")
    assert ran.code == 0
    shown = ran.document
    assert shown.pop("witness")["package"].startswith("croniter ")
    assert shown == {
        "occurrences": [
            {
                "due_at": "2027-03-13T07:30:00Z",
                "local": "2027-03-13T02:30:00",
                "utc_offset": "-05:00",
                "nominal": "2027-03-13T02:30:00",
                "decision": "exact",
            },
            {
                "due_at": "2027-03-15T06:30:00Z",
                "local": "2027-03-15T02:30:00",
                "utc_offset": "-04:00",
                "nominal": "2027-03-15T02:30:00",
                "decision": "exact",
            },
        ],
        "skipped": [{"nominal": "2027-03-14T02:30:00", "reason": "gap"}],
    }


def test_an_event_rule_is_previewed_for_one_date(dueledger: Command) -> None:
    ran = dueledger("preview", str(INSURER), "--effective-date", "2027-03-31", "--json")
    assert [one["due_at"] for one in ran.document["occurrences"]] == ["2027-03-01T14:00:00Z"]


@pytest.mark.parametrize("options", [(), ("--from", "2027-03-01"), ("--from", "soon", "--to", "x")])
def test_a_preview_without_its_window_is_a_usage_error(
    dueledger: Command, nightly: str, options: tuple[str, ...]
) -> None:
    assert dueledger("preview", nightly, *options).code == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--effective-date", "nope"), "--effective-date"),
        (("--from", "soon", "--to", "2027-03-01"), "--from"),
        (("--from", "2027-03-02", "--to", "2027-03-01"), "--to"),
        (("--from", "0001-01-01", "--to", "2027-03-01"), "--from"),
        (("--from", "2027-03-01", "--to", "9999-12-31T23:59:59-23:00"), "--to"),
    ],
)
def test_an_option_of_a_preview_that_makes_no_sense_is_refused_by_name(
    dueledger: Command, nightly: str, options: tuple[str, ...], named: str
) -> None:
    ran = dueledger("preview", nightly, *options, "--json")
    assert ran.code == 2
    assert ran.document["error"]["code"] == "USAGE"
    assert named in ran.document["error"]["detail"]
    assert "Traceback" not in ran.err


def test_a_file_that_is_not_utf_8_is_refused_by_name(dueledger: Command, nightly: str) -> None:
    Path(nightly).write_bytes(NIGHTLY.encode("utf-16"))
    ran = dueledger("preview", nightly, "--from", "2027-03-01", "--to", "2027-03-02", "--json")
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"][0]["field"] == nightly
    for scheduler in ("crontab", "kubernetes"):
        imported = dueledger("import", scheduler, nightly, "--json")
        assert imported.code == 2
        assert nightly in imported.document["error"]["detail"]


def test_a_file_without_an_end_is_refused_by_its_length(dueledger: Command) -> None:
    ran = dueledger("preview", "/dev/zero", "--from", "2027-03-01", "--to", "2027-03-02", "--json")
    assert ran.code == 2
    (problem,) = ran.document["error"]["details"]["problems"]
    assert problem["field"] == "/dev/zero"
    assert problem["reason"].startswith("is longer than")


@pytest.mark.parametrize("since", ["1926-01-01", "2926-01-01", "0001-01-01T00:00:00+14:00"])
def test_a_definition_from_outside_the_years_that_can_be_owed_is_refused(
    dueledger_on: Command, since: str
) -> None:
    ran = dueledger_on("define", str(INSURER), "--effective-from", since, "--backfill", "--json")
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"][0]["field"] == "--effective-from"


def test_a_schedule_from_long_ago_must_be_asked_for(dueledger_on: Command, nightly: str) -> None:
    define = ("define", nightly, "--json", "--effective-from", "2017-01-01")
    refused = dueledger_on(*define)
    assert refused.code == 2
    assert "--backfill" in refused.err
    assert dueledger_on("define", str(INSURER), *define[2:]).code == 0
    assert dueledger_on(*define, "--backfill").document["changed"]


def test_defining_the_same_file_again_changes_nothing(dueledger_on: Command, nightly: str) -> None:
    answers = [dueledger_on("define", nightly, "--json").document for _ in range(2)]
    assert [(one["version"], one["changed"]) for one in answers] == [(1, True), (1, False)]
    words = "At 02:30 every day, America/New_York; a time that a clock change skips is skipped"
    assert words in dueledger_on("definitions", "nightly").err
    assert dueledger_on("definitions", "--json").lines[0]["when"] == words


def test_a_kind_is_declared_without_a_schedule(dueledger_on: Command, tmp_path: Path) -> None:
    letters = tmp_path / "letters.yaml"
    text = "kind: LetterDue\ntenant: acme\nretry: {attempt_max: 3}\n"
    letters.write_text(text, encoding="utf-8")
    tried = dueledger_on("define", str(letters), "--dry-run")
    assert tried.code == 0
    assert "It has no schedule: services emit items of LetterDue" in tried.err
    assert dueledger_on("definitions", "--json").lines == []

    assert dueledger_on("define", str(letters), "--effective-from", "2017-01-01").code == 0
    refused = dueledger_on("trigger", "LetterDue", "--tenant", "acme", "--reason", "now")
    assert (refused.code, "declares a kind" in refused.err) == (2, True)
    letters.write_text(text + "ended: true\n", encoding="utf-8")
    assert dueledger_on("define", str(letters), "--json").document["version"] == 2
    listed = dueledger_on("definitions", "LetterDue", "--json").lines
    assert [(one["state"], one["kind"], one["materialised_until"]) for one in listed] == [
        ("ended", "LetterDue", None),
        ("superseded", "LetterDue", None),
    ]
    shown = dueledger_on("preview", str(letters), "--json")
    assert (shown.code, shown.document) == (0, {"occurrences": [], "skipped": []})
    assert "acme/LetterDue has no schedule" in shown.err


def test_redacted_fields_stay_until_a_file_says_otherwise(
    dueledger_on: Command, tmp_path: Path
) -> None:
    file = tmp_path / "letters.yaml"

    def define(text: str, *options: str) -> Any:  # noqa: ANN401 - as the fixture
        file.write_text("kind: LetterDue\ntenant: acme\n" + text, encoding="utf-8")
        return dueledger_on("define", str(file), "--json", *options)

    def fields() -> list[str]:
        return dueledger_on("definitions", "--json").lines[0]["document"]["redacted_fields"]

    assert define("redacted_fields: [/ssn, /iban]\n").code == 0
    for options in (("--dry-run",), ()):
        kept = define("retry: {attempt_max: 3}\n", *options)
        assert "acme/LetterDue: redacted fields stay: /ssn, /iban" in kept.err
        assert kept.document["diff"]["fields"] == ["retry"]
        assert fields() == ["/ssn", "/iban"]
    for options, shown in ((("--dry-run",), ["/ssn", "/iban"]), ((), ["/iban"])):
        fewer = define("redacted_fields: [/iban]\n", *options)
        assert "acme/LetterDue: no longer redacted, of items of the past, too: /ssn" in fewer.err
        assert fields() == shown


def test_files_are_defined_together_though_they_change_what_holds_for_their_kind(
    dueledger_on: Command, tmp_path: Path
) -> None:
    files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
    for attempts in (3, 4):
        for file in files:
            named = named_nightly(file.stem)
            file.write_text(named + f"retry: {{attempt_max: {attempts}}}\n", encoding="utf-8")
        if attempts == 4:
            alone = dueledger_on("define", str(files[1]), "--json")
            assert (alone.code, alone.document["error"]["code"]) == (2, "INVALID_INPUT")
            assert "define both at once" in alone.err
        both = dueledger_on("define", *map(str, files), "--json")
        assert [(one["definition"], one["version"]) for one in both.lines] == [
            ("first", attempts - 2),
            ("second", attempts - 2),
        ]


@pytest.mark.parametrize(
    ("third", "field"),
    [
        (NIGHTLY.replace("nightly", "third").replace("30 2", "61 2"), ": when.cron"),
        (NIGHTLY.replace("definition: nightly", "definition: first"), ": definition"),
        (NIGHTLY + "retry: {attempt_max: 7}\n", ": (nightly).retry"),
        (NIGHTLY + "calendar: {name: moon, roll: skip}\n", ": (nightly).calendar.name"),
        (
            NIGHTLY.replace("nightly", "third")
            + "calendar: {weekend: [sun], last_day: 2020-01-01, roll: skip}\n",
            ": (third).calendar",
        ),
        (
            NIGHTLY.replace("nightly", "first").replace("definition: first", "definition: third"),
            ": (third).business_key",
        ),
        (": [", "line 1"),
    ],
)
def test_a_file_that_is_refused_is_named_and_none_of_the_others_is_in_force(
    dueledger_on: Command, tmp_path: Path, third: str, field: str
) -> None:
    files = [tmp_path / f"{name}.yaml" for name in ("first", "second", "third")]
    for file in files[:2]:
        file.write_text(named_nightly(file.stem), encoding="utf-8")
    files[2].write_text(third, encoding="utf-8")
    ran = dueledger_on("define", *map(str, files), "--json")
    assert ran.code == 2
    (problem,) = ran.document["error"]["details"]["problems"]
    assert problem["field"].startswith(str(files[2]))
    assert field in problem["field"]
    assert dueledger_on("definitions", "--json").lines == []


def test_define_refuses_topics_that_its_settings_give_to_others(
    dueledger_on: Command, tmp_path: Path
) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text(NIGHTLY + "dispatch: {kafka: {topic: globex.nightly}}\n", encoding="utf-8")
    refused = dueledger_on(
        "define", str(path), "--json", DUELEDGER_TOPIC_TENANTS='{"globex.": "globex"}'
    )
    renamed = dueledger_on("define", str(path), "--json", DUELEDGER_EVENT_TOPIC="globex.nightly")
    for ran, reason in ((refused, "the tenant globex"), (renamed, "DUELEDGER_EVENT_TOPIC")):
        assert ran.code == 2
        (problem,) = ran.document["error"]["details"]["problems"]
        assert problem["field"].endswith("dispatch.kafka.topic")
        assert reason in problem["reason"]
    assert dueledger_on("definitions", "--json").lines == []


@pytest.mark.parametrize(
    ("tenants", "named"),
    [
        ("acme", "not JSON"),
        ('{"due.acme.": "acme"}', "before it is defined"),
        ('{"": "acme"}', "DUELEDGER_TOPIC_TENANTS"),
        ('{"acme.": "ac me"}', "DUELEDGER_TOPIC_TENANTS"),
    ],
)
def test_prefixes_of_tenants_that_cannot_be_kept_are_refused(
    dueledger: Command, nightly: str, tenants: str, named: str
) -> None:
    ran = dueledger("define", nightly, DUELEDGER_TOPIC_TENANTS=tenants)
    assert ran.code == 2
    assert "DUELEDGER_TOPIC_TENANTS" in ran.err
    assert named in ran.err
    assert "Traceback" not in ran.err


def test_what_is_wrong_in_several_files_is_said_at_once(dueledger: Command, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.yaml" for name in ("first", "second", "third")]
    for file in files:
        file.write_text(NIGHTLY.replace("30 2", "61 2"), encoding="utf-8")
    files[1].write_bytes(NIGHTLY.encode("utf-16"))
    ran = dueledger("define", *map(str, files), str(files[0]), "--json", DUELEDGER_DSN="none")
    found = [each["field"] for each in ran.document["error"]["details"]["problems"]]
    assert (ran.code, len(found)) == (2, 4)
    assert found[:3] == [f"{files[0]}: when.cron", str(files[1]), f"{files[2]}: when.cron"]


def test_two_files_that_define_one_name_are_both_named(
    dueledger_on: Command, tmp_path: Path
) -> None:
    files = [str(tmp_path / f"{name}.yaml") for name in ("first", "second")]
    for file in files:
        Path(file).write_text(NIGHTLY, encoding="utf-8")
    ran = dueledger_on("define", *files)
    assert ran.code == 2
    assert f"{files[1]}: definition: the same tenant and name as in {files[0]}" in ran.err
    again = dueledger_on("define", files[0], files[0])
    assert "which is given twice" in again.err


def test_a_schedule_that_is_over_is_defined_and_said_to_owe_nothing(
    dueledger_on: Command, nightly: str
) -> None:
    once = NIGHTLY.replace(
        '{cron: "30 2 * * *", timezone: America/New_York, gap: skip}',
        "{at: 2020-01-01T09:00, timezone: UTC}",
    )
    Path(nightly).write_text(once, encoding="utf-8")
    ran = dueledger_on("define", nightly, "--json")
    assert (ran.code, ran.document["changed"]) == (0, True)
    assert "acme/nightly: nothing is due from 20" in ran.err
    assert "nothing is due" not in dueledger_on("define", nightly).err
    past = ("define", nightly, "--effective-from", "2019-12-01", "--backfill")
    assert "nothing is due" not in dueledger_on(*past).err


def test_a_definition_that_is_refused_names_the_field(dueledger_on: Command, nightly: str) -> None:
    text = NIGHTLY.replace("30 2 * * *", "61 2 * * *")
    Path(nightly).write_text(text, encoding="utf-8")
    ran = dueledger_on("define", nightly, "--json")
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"][0]["field"] == "when.cron"


def test_g13_define_shows_what_becomes_of_the_next_occurrences_before_it_applies(
    dueledger_on: Command, nightly: str
) -> None:
    first = dueledger_on("define", nightly, "--effective-from", "2027-03-01", "--json").document
    assert (first["version"], first["diff"]["base_version"]) == (1, None)
    text = NIGHTLY.replace('"30 2 * * *"', '"30 2 * * 1-5"') + "smear: PT5M\n"
    Path(nightly).write_text(text, encoding="utf-8")
    later = ("define", nightly, "--effective-from", "2027-03-08")
    tried = dueledger_on(*later, "--dry-run")
    assert tried.code == 0
    assert "acme/nightly, version 2" in tried.err
    assert "after version 1: smear, when changed" in tried.err
    assert "22 moved, 0 added, 7 removed" in tried.err
    assert "removed" in tried.out
    assert "Sat 2027-03-13 02:30:00 EST" in tried.out
    assert [one["version"] for one in dueledger_on("definitions", "nightly", "--json").lines] == [1]

    diff = dueledger_on(*later, "--json").document["diff"]
    assert diff["counts"] == {"kept": 0, "moved": 22, "added": 0, "removed": 7}
    assert (len(diff["next"]), diff["base_version"]) == (10, 1)
    moved, *_, removed = diff["next"][:6]
    assert (moved["change"], moved["was"]) == ("moved", "2027-03-08T07:30:00Z")
    assert moved["was"] < moved["due_at"] < "2027-03-08T07:35:00Z"
    assert (removed["change"], removed["due_at"]) == ("removed", None)

    sooner = dueledger_on("define", nightly, "--effective-from", "2027-03-02", "--json").document
    assert (sooner["version"], sooner["diff"]["superseded"]) == (3, [2])
    listed = dueledger_on("definitions", "nightly", "--json").lines
    assert [(one["version"], one["state"]) for one in listed] == [
        (3, "pending"),
        (2, "superseded"),
        (1, "pending"),
    ]
    assert [one["version"] for one in dueledger_on("definitions", "--json").lines] == [3, 1]
    again = dueledger_on("define", nightly, "--effective-from", "2027-03-02", "--json").document
    assert (again["changed"], "diff" in again) == (False, False)


async def test_a_definition_that_the_materialiser_cannot_expand_is_listed_as_rejected(
    dueledger_on: Command, nightly: str, database: str
) -> None:
    dueledger_on("define", nightly)
    connection = await asyncpg.connect(database)
    await connection.execute(
        """update ledger.definition set document = document || '{"when":{"cron":"a b"}}'"""
    )
    await connection.close()
    dueledger_on("materialise", "--once")
    (listed,) = dueledger_on("definitions", "--json").lines
    assert listed["state"] == "rejected"
    assert "InvalidDefinition" in listed["failure"]
    shown = dueledger_on("definitions")
    assert "rejected" in shown.out
    assert "InvalidDefinition" in shown.err


async def _read_slowly(forks: ForkServer, database: str, file: str, *options: str) -> ForkedProcess:
    """Begin to define a file that shows more than a pipe holds, and read one byte of it."""
    process = await forks.start(
        *("-m", "dueledger", "define", file, *options),
        env=os.environ | {"DUELEDGER_DSN": database},
        pipe="both",
        ahead_bytes=1_024,
    )
    assert process.piped is not None
    assert await process.piped.readexactly(1)
    return process


async def test_define_holds_nothing_while_somebody_reads_what_it_shows(
    fork_server: ForkServer, connection: Connection, tmp_path: Path, database: str
) -> None:
    many = tmp_path / "many.yaml"
    many.write_text("---".join(named_nightly(f"nightly-{each}") for each in range(200)))
    process = await _read_slowly(fork_server, database, str(many), "--dry-run")
    open_ = await connection.fetchval(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'dueledger-cli'"
        " and xact_start is not null"
    )
    assert len(await process.communicate()) > 100_000
    assert (open_, process.returncode) == (0, 0)


async def test_define_does_what_it_showed_or_nothing(
    fork_server: ForkServer, dueledger_on: Command, tmp_path: Path, database: str
) -> None:
    many, one = tmp_path / "many.yaml", tmp_path / "one.yaml"
    many.write_text("---".join(named_nightly(f"nightly-{each}") for each in range(200)))
    one.write_text(named_nightly("nightly-0").replace("New_York", "Chicago"))
    process = await _read_slowly(fork_server, database, str(many))
    first = await asyncio.to_thread(dueledger_on, "define", str(one))
    assert first.code == 0
    said = await process.communicate()
    assert b"Another user defined one of these in the meantime: nothing was changed." in said
    assert process.returncode == 1
    assert [each["definition"] for each in dueledger_on("definitions", "--json").lines] == [
        "nightly-0"
    ]


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_a_commit_that_is_refused_shows_no_success_and_no_traceback(
    dueledger_on: Command, connection: Connection, tmp_path: Path, form: tuple[str, ...]
) -> None:
    await connection.execute(
        "create function public.refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'the disk is full' using errcode = '53100'; end $$;"
        " create constraint trigger refused after insert on ledger.definition"
        " deferrable initially deferred for each row execute function public.refuse()"
    )
    file = tmp_path / "nightly.yaml"
    file.write_text(NIGHTLY, encoding="utf-8")
    ran = dueledger_on("define", str(file), *form)
    assert ran.code == 1
    assert "error DATABASE_REFUSED: Postgres refused it (the disk is full)" in ran.err
    assert "Traceback" not in ran.err
    shown = ran.document if form else ran.out
    assert list(shown) == (["error"] if form else [])
    assert await connection.fetchval("select count(*) from ledger.definition") == 0
