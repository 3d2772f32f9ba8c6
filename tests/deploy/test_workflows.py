"""The workflows of GitHub call what exists, with actions named by digest. They do not run here."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import dueledger
from tests.deploy.vendored_schemas import problems_of

ROOT: Final = Path(dueledger.__file__).resolve().parents[1]
GITHUB: Final = ROOT / ".github"
WORKFLOWS: Final = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS: Final = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE: Final = re.compile(r"\bmake ([^\n#;&|]+)")
PINNED: Final = re.compile(r"uses: (?:\./\S+|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$")


def read(path: Path) -> Any:  # noqa: ANN401 - as parsed
    return yaml.safe_load(path.read_text("utf-8"))


def steps_of(workflow: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    for job in workflow["jobs"].values():
        for step in job.get("steps", ()):
            yield job, step


def test_there_is_a_workflow_for_tests_one_for_slow_ones_and_one_for_a_release() -> None:
    assert [path.stem for path in WORKFLOWS] == ["release", "tests", "weekly"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_fits_its_schema_and_names_actions_by_digest(path: Path) -> None:
    workflow = read(path)
    assert problems_of(workflow | {"on": workflow.pop(True)}, "github-workflows") == []
    used = [line.strip(" -") for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.match(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_target_that_a_workflow_makes_exists(path: Path) -> None:
    called = set[str]()
    for job, step in steps_of(read(path)):
        words = " ".join(MAKE.findall(step.get("run", "")))
        for name, values in job.get("strategy", {}).get("matrix", {}).items():
            words = words.replace(f"${{{{ matrix.{name} }}}}", " ".join(values))
        called |= {word for word in words.split() if "=" not in word}
    assert called
    assert called <= TARGETS


def test_no_workflow_has_more_rights_than_it_needs_and_only_a_release_has_an_identity() -> None:
    for path in WORKFLOWS:
        workflow = read(path)
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            given = job.get("permissions", {})
            assert ("id-token" in given) is (path.stem == "release" and name != "tests")
            assert not {"packages", "pull-requests"} & given.keys()
            assert "timeout-minutes" in job or "uses" in job
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    assert "secrets." not in text
    assert "password" not in text.replace("there is no password", "")


def test_the_tests_run_on_each_python_that_the_package_says_it_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    said = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    tests = read(GITHUB / "workflows" / "tests.yml")
    assert tests["jobs"]["test"]["strategy"]["matrix"]["python"] == said
    assert read(GITHUB / "workflows" / "release.yml")["jobs"]["build"]["needs"] == "tests"


def test_the_console_is_tested_in_a_browser_and_its_pictures_are_kept() -> None:
    steps = read(GITHUB / "workflows" / "tests.yml")["jobs"]["browser"]["steps"]
    runs = [step["run"] for step in steps if "run" in step]
    assert [run for run in runs if run.startswith("make test-browser")]
    kept = [step for step in steps if step.get("with", {}).get("path") == ".tools/screenshots/"]
    assert [step["if"] for step in kept] == ["always()"]


def test_forms_of_issues_fit_their_schemas() -> None:
    forms = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {path.stem for path in forms} == {"bug", "config", "idea"}
    for path in forms:
        schema = "github-issue-config" if path.stem == "config" else "github-issue-forms"
        assert problems_of(read(path), schema) == []
