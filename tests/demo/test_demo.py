"""The main job through the real command line: a small simulated day, killed in, reconciled."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from dueledger.console.navigation import NAVIGATION
from dueledger.demo.result import DemoResult
from dueledger.reconciler.report.model import ReconciliationReport, StatementVerdict
from tests.demo.served_demo import serve_demo

pytestmark = pytest.mark.long

ROW = 'scope="row"'
SHOWN = {
    "/": "Complete before",
    "/reviews": "Nothing waits for a person.",
    "/audit": "Nobody has changed anything yet.",
}
"""What the pages show of a day that is over, in which no person changed a thing."""
STABLE_NAMES = {
    "expected",
    "completed",
    "skipped",
    "cancelled",
    "superseded",
    "written_off",
    "open",
    "fault_kinds",
    "findings_found",
    "findings_open",
    "repairs",
    "stale_writes",
    "verdict",
    "items_per_second",
    "report",
}


def open_console(link: str) -> dict[str, str]:
    """Sign in by a link as a browser does, and return each page of the navigation by its path."""
    address, _, key = link.partition("#")
    console = address.removesuffix("/sign-in")
    with httpx.Client(headers={"Accept": "text/html"}, follow_redirects=True, timeout=60) as client:
        client.post(address, data={"key": key})
        return {entry.path: client.get(console + entry.path).text for entry in NAVIGATION}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder in which a small demo ran, and how it ended; its last line is of the console."""
    folder = tmp_path_factory.mktemp("demo")
    with serve_demo(folder) as served:
        (folder / "console.json").write_text(json.dumps(open_console(served.link)))
    assert served.ended
    return folder, served.ended


def test_the_demo_leaves_the_console_open_on_its_ledger(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    pages = json.loads((demo[0] / "console.json").read_text())
    assert "PolicyRenewalDue" in pages["/"]
    assert {path for path, text in pages.items() if SHOWN.get(path, ROW) not in text} == set()


def test_g11_a_simulated_day_with_a_killed_worker_finds_exactly_the_injected_faults(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, ended = demo
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert set(document) >= STABLE_NAMES
    assert document["failures"] == []
    assert document["findings_found"] == 29
    assert document["fault_kinds"] == 14
    assert document["repairs"] == 6
    assert document["findings_open"] == 0
    assert document["verdict"] == StatementVerdict.COMPLETE_WITH_EXPLAINED
    assert "was killed with SIGKILL" in ended.stderr


def test_g4_the_writes_of_a_worker_that_was_frozen_for_longer_than_its_lease_are_refused(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, ended = demo
    assert "was frozen with SIGSTOP" in ended.stderr
    assert json.loads(ended.stdout)["stale_writes"] > 0


def test_g4_a_demo_in_which_no_write_was_refused_or_that_is_not_complete_fails(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, ended = demo
    [path] = [path for path in json.loads(ended.stdout)["report"] if path.endswith(".json")]
    report = ReconciliationReport.model_validate_json((folder / path).read_bytes())
    quiet = report.model_copy(update={"rejected_writes": []})
    unknown = report.statement.model_copy(
        update={"verdict": StatementVerdict.NOT_COMPLETE, "sentence": "Not complete: unknown."}
    )
    for after, failures in (
        (report, []),
        (quiet, ["a worker was frozen, and none of its writes was refused afterwards"]),
        (report.model_copy(update={"statement": unknown}), ["Not complete: unknown."]),
    ):
        result = DemoResult(
            frozenset(), report.model_copy(update={"findings": []}), after, 0, 0, []
        )
        assert result.failures == failures


def test_the_demo_accounts_for_every_item_it_expected(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    document = json.loads(demo[1].stdout)
    ended = ("completed", "skipped", "cancelled", "superseded", "written_off", "open")
    assert document["expected"] == sum(document[name] for name in ended)
    assert all(document[name] > 0 for name in ("completed", "cancelled", "superseded"))


def test_the_demo_leaves_its_report_and_nothing_else_running(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, ended = demo
    for path in json.loads(ended.stdout)["report"]:
        assert (folder / path).stat().st_size > 0
    stopped = (folder / ".dueledger/demo/processes.log").read_text(encoding="utf-8")
    for name in ("allocator", "intake", "materialiser", "worker-1"):
        assert any(
            line.startswith(name) and "process.stopped" in line for line in stopped.splitlines()
        )
