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
    assert definition.definition == "remind"
    assert "# Sends what is owed today" in ran.out
    assert "left out tab:4 @reboot: @reboot is not a time" in ran.err
    assert "1 converted, 1 left out" in ran.err


def test_an_import_as_json_is_one_document(dueledger: Command, crontab: str) -> None:
    ran = dueledger("import", "crontab", crontab, "--timezone", "UTC", "--json")
    assert ran.code == 4
    document = ran.document
    assert [one["definition"] for one in document["definitions"]] == ["remind"]
    assert [(one["where"], one["text"]) for one in document["left_out"]] == [("tab:4", "@reboot")]
    assert [one["text"] for one in document["reported"]] == ["MAILTO"]
    [row] = document["inventory"]
    assert row == {
        "where": "tab:3",
        "definition": "remind",
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

    assert run().document["files"] == [str(tmp_path / "definitions/remind.yaml")]
    assert run().code == 4  # the same again
    written = tmp_path / "definitions/remind.yaml"
    written.write_text(written.read_text("utf-8") + "lane: user\n", encoding="utf-8")
    refused = run()
    assert refused.code == 2
    assert refused.document["error"]["details"]["problems"][0]["field"] == str(written)
    assert written.read_text("utf-8").endswith("lane: user\n")


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
