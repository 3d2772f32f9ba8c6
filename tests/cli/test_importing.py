"""Definitions from other schedulers' files: on stdout or in a folder, with what is left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dueledger
from dueledger.ledger.definitions.parsing import load_definitions

Command = Callable[..., Any]

CHECKOUT = Path(dueledger.__file__).resolve().parents[1]
PERIODICS = CHECKOUT / "examples/kubernetes/periodics.json"

CRONTAB = """\
MAILTO=ops@example.com
# Sends what is owed today
30 6 * * * /opt/bin/remind --all
@reboot /opt/bin/start
"""


@pytest.fixture
def crontab(tmp_path: Path) -> str:
    (tmp_path / "tab").write_text(CRONTAB, encoding="utf-8")
    return str(tmp_path / "tab")


def test_only_definitions_are_on_stdout_and_what_is_left_out_is_reported(
    dueledger: Command, crontab: str
) -> None:
    ran = dueledger("import", "crontab", crontab, "--timezone", "Europe/Berlin")
    assert ran.code == 4
    [definition] = load_definitions(ran.out, source="stdout")
    assert definition.definition.startswith("remind-")
    assert definition.source == "crontab:tab"
    assert "# Sends what is owed today" in ran.out
    assert "left out tab:4 @reboot: @reboot is not a time" in ran.err
    assert "1 converted, 1 left out" in ran.err


def test_an_import_as_json_is_one_document(dueledger: Command, crontab: str) -> None:
    ran = dueledger("import", "crontab", crontab, "--timezone", "UTC", "--json")
    assert ran.code == 4
    document = ran.document
    [name] = [one["definition"] for one in document["definitions"]]
    assert [(one["where"], one["text"]) for one in document["left_out"]] == [("tab:4", "@reboot")]
    assert [one["text"] for one in document["reported"]] == ["MAILTO"]
    [row] = document["inventory"]
    assert row == {
        "where": "tab:3",
        "definition": name,
        "owner": "ops@example.com",
        "criticality": "unknown",
        "frequency": "1 a day",
        "overlap": "allow",
        "duplicates": "unknown",
        "decide": ["retries", "missed", "duplicates"],
        "notes": [],
    }
    assert set(document["questions"]) == {"retries", "missed", "duplicates"}


def test_files_in_a_folder_are_never_overwritten_once_somebody_changed_one(
    dueledger: Command, crontab: str, tmp_path: Path
) -> None:
    def run() -> Any:  # noqa: ANN401 - what the command printed
        arguments = ("--timezone", "UTC", "--out", str(tmp_path / "definitions"), "--json")
        return dueledger("import", "crontab", crontab, *arguments)

    [file] = run().document["files"]
    assert run().code == 4  # the same again
    written = Path(file)
    assert written.parent == tmp_path / "definitions"
    written.write_text(written.read_text("utf-8") + "lane: user\n", encoding="utf-8")
    refused = run()
    assert refused.code == 2
    assert refused.document["error"]["details"]["problems"][0]["field"] == str(written)
    assert written.read_text("utf-8").endswith("lane: user\n")


def test_files_that_an_import_makes_no_longer_are_listed(
    dueledger: Command, crontab: str, tmp_path: Path
) -> None:
    def run(*more: str) -> Any:  # noqa: ANN401 - what the command printed
        arguments = ("--timezone", "UTC", "--out", str(tmp_path / "all"), "--json", *more)
        return dueledger("import", "crontab", crontab, *arguments).document

    [earlier] = run()["files"]
    (tmp_path / "all/mine.yaml").write_text("definition: mine", encoding="utf-8")
    Path(crontab).write_text("30 7 * * * /opt/bin/remind --all\n", encoding="utf-8")
    assert run("--source", "another")["obsolete"] == []
    for each in (tmp_path / "all").glob("remind-*"):
        if str(each) != earlier:
            each.unlink()
    assert run()["obsolete"] == [earlier]


def test_a_grown_crontab_runs_no_job_twice(
    dueledger_on: Command, crontab: str, tmp_path: Path
) -> None:
    def define(text: str, *more: str) -> Any:  # noqa: ANN401 - what the command printed
        Path(crontab).write_text(text, encoding="utf-8")
        written = dueledger_on("import", "crontab", crontab, "--timezone", "UTC")
        (tmp_path / "all.yaml").write_text(written.out, encoding="utf-8")
        return dueledger_on("define", str(tmp_path / "all.yaml"), *more)

    def in_force() -> dict[str, str]:
        rows = dueledger_on("definitions", "--json").lines
        return {row["document"]["payload"]["command"]: row["state"] for row in rows}

    first = "30 6 * * * dump a\n"
    assert define(first).code == 0
    grown = define(first + "0 8 * * * dump b\n", "--json")
    assert [one["changed"] for one in grown.lines] == [False, True], "the first keeps its name"
    shrunk = ("0 8 * * * dump b\n", "--prune", "crontab:tab")
    shown = define(*shrunk, "--dry-run")
    assert "version 2, from" in shown.err
    assert "ends, after version 1" in shown.err
    assert "removed" in shown.out
    assert in_force() == {"dump a": "in force", "dump b": "in force"}
    assert define(*shrunk).code == 0
    assert in_force() == {"dump a": "ended", "dump b": "in force"}
    again = define(*shrunk, "--json")
    assert [one["changed"] for one in again.lines] == [False], "what has ended is not ended again"
    assert define(first, "--prune", "crontab:tab").code == 0
    assert in_force() == {"dump a": "in force", "dump b": "ended"}


def test_what_ends_does_not_decide_about_its_kind(
    dueledger_on: Command, crontab: str, tmp_path: Path
) -> None:
    def define(text: str, more: str, *options: str) -> Any:  # noqa: ANN401 - what it printed
        Path(crontab).write_text(text, encoding="utf-8")
        written = dueledger_on("import", "crontab", crontab, "--timezone", "UTC").out
        (tmp_path / "all.yaml").write_text(written + more, encoding="utf-8")
        return dueledger_on("define", str(tmp_path / "all.yaml"), *options)

    assert define("30 6 * * * dump a\n", "").code == 0
    retry = "retry: {attempt_max: 3}\n"
    assert define("30 7 * * * dump a\n", retry).code != 0, "two of a kind, which differ"
    assert define("30 7 * * * dump a\n", retry, "--prune", "crontab:tab").code == 0
    assert define("30 7 * * * dump a\n", retry).code == 0


def test_a_source_that_no_file_names_ends_nothing(
    dueledger_on: Command, crontab: str, tmp_path: Path
) -> None:
    written = dueledger_on("import", "crontab", crontab, "--timezone", "UTC")
    (tmp_path / "all.yaml").write_text(written.out, encoding="utf-8")
    ran = dueledger_on("define", str(tmp_path / "all.yaml"), "--prune", "crontab:tub", "--json")
    assert ran.code == 2
    [problem] = ran.document["error"]["details"]["problems"]
    assert (problem["field"], problem["accepted"]) == ("--prune", "crontab:tab")


def test_a_zone_that_there_is_not_is_refused_with_the_nearest(
    dueledger: Command, crontab: str
) -> None:
    ran = dueledger("import", "crontab", crontab, "--timezone", "Europe/Berln", "--json")
    assert ran.code == 2
    assert "Europe/Berlin" in ran.document["error"]["details"]["problems"][0]["accepted"]


def test_all_jobs_of_the_kubernetes_project_are_converted(dueledger: Command) -> None:
    ran = dueledger("import", "kubernetes", str(PERIODICS), "--json")
    assert ran.code == 0
    assert len(ran.document["definitions"]) == len(ran.document["inventory"]) == 1335
    assert ran.document["left_out"] == []


@pytest.mark.parametrize(
    ("scheduler", "folder", "converted"),
    [
        ("systemd", "files/systemd", 7),
        ("quartz", "files/quartz", 14),
        ("eventbridge", "files/eventbridge", 8),
        ("quartz", "published", 37),
        ("eventbridge", "published", 2),
    ],
)
def test_folders_of_other_schedulers_are_converted_and_read_back(
    dueledger: Command, tmp_path: Path, scheduler: str, folder: str, converted: int
) -> None:
    files = CHECKOUT / "tests/importers" / folder
    arguments = () if scheduler == "eventbridge" else ("--timezone", "Europe/Berlin")
    out = ("--out", str(tmp_path / "out"), "--source", "old", "--json")
    ran = dueledger("import", scheduler, str(files), *arguments, *out)
    assert ran.code == 4
    assert len(ran.document["definitions"]) == len(ran.document["inventory"]) == converted
    assert ran.document["left_out"]
    for path in ran.document["files"]:
        [definition] = load_definitions(Path(path).read_text("utf-8"), source=path)
        assert definition.source == "old"


@pytest.mark.parametrize("count", [20, pytest.param(1335, marks=pytest.mark.full)])
def test_imported_definitions_can_be_defined(
    dueledger_on: Command, tmp_path: Path, count: int
) -> None:
    some = json.loads(PERIODICS.read_text("utf-8"))[:count]
    (tmp_path / "jobs.json").write_text(json.dumps(some), encoding="utf-8")
    ran = dueledger_on("import", "kubernetes", str(tmp_path / "jobs.json"))
    assert ran.code == 0
    (tmp_path / "jobs.yaml").write_text(ran.out, encoding="utf-8")
    defined = dueledger_on("define", str(tmp_path / "jobs.yaml"), "--json")
    assert defined.code == 0
    assert sum(answer["changed"] for answer in defined.lines) == count
    written = dueledger_on(
        "import",
        "kubernetes",
        str(tmp_path / "jobs.json"),
        "--out",
        str(tmp_path / "jobs"),
        "--json",
    ).document["files"]
    again = dueledger_on("define", *written, "--json")
    assert (again.code, len(again.lines)) == (0, count)
    assert not any(answer["changed"] for answer in again.lines)
