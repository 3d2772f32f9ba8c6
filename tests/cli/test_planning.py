"""The command `plan`: from files, or from what the database has in force."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.logins import with_login

Command = Callable[..., Any]

DEFINITIONS = """
definition: hourly
tenant: acme
kind: HourlyDue
business_key: hourly
when: {cron: "5 * * * *", timezone: UTC}
labels: {service: billing}
---
definition: nightly
tenant: acme
kind: NightlyDue
business_key: nightly
when: {cron: "30 2 * * *", timezone: UTC}
"""
NOW = "2026-01-01"
WINDOW = ("--from", "2027-03-01", "--to", "2027-03-02")


@pytest.fixture
def database(database: str) -> str:
    """Run the commands under an operator's login."""
    return with_login(database, "operator")


@pytest.fixture
def definitions(tmp_path: Path) -> str:
    (tmp_path / "definitions.yaml").write_text(DEFINITIONS, encoding="utf-8")
    return str(tmp_path / "definitions.yaml")


def test_a_plan_of_files_is_one_document(dueledger: Command, definitions: str) -> None:
    ran = dueledger("plan", definitions, *WINDOW, "--quiet-for", "PT59M", "--json")
    assert ran.code == 0
    document = ran.document
    assert document["from"], document["to"] == ("2027-03-01T00:00:00Z", "2027-03-02T00:00:00Z")
    assert (document["definitions"], document["due"]) == (2, 25)
    assert len(document["quarters"]) == 96
    assert document["quarters"][10] == {
        "from": "2027-03-01T02:30:00Z",
        "due": 1,
        "waiting": 0,
        "busiest_minute": 1,
        "smeared_due": 1,
        "smeared_busiest_minute": 1,
    }
    assert document["quiet"][0] == {
        "from": "2027-03-01T00:06:00Z",
        "to": "2027-03-01T01:05:00Z",
        "period": "PT59M",
        "due": 0,
    }
    assert len(document["quiet"]) == 22
    assert document["quietest"] is None
    assert document["peaks"][0]["most_of"] == [
        {"tenant": "acme", "definition": "hourly", "kind": "HourlyDue", "due": 1}
    ]
    billing = dueledger("plan", definitions, *WINDOW, "--service", "billing", "--json").document
    assert (billing["definitions"], billing["due"]) == (1, 24)


def test_a_plan_of_one_tenant_counts_no_other(
    dueledger: Command, dueledger_on: Command, definitions: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(DEFINITIONS.replace("tenant: acme", "tenant: zeta"), encoding="utf-8")
    zeta = (*WINDOW, "--tenant", "zeta", "--json")
    both = dueledger("plan", definitions, str(other), *WINDOW, "--json").document
    assert (both["definitions"], both["due"]) == (4, 50)
    of_files = dueledger("plan", definitions, str(other), *zeta).document
    assert (of_files["definitions"], of_files["due"]) == (2, 25)
    assert dueledger_on("define", definitions, str(other)).code == 0
    (tmp_path / "more.yaml").write_text(
        DEFINITIONS.partition("---")[0].replace("hourly", "acme-only"), encoding="utf-8"
    )
    since = ("--effective-from", "2027-02-01")
    assert dueledger_on("define", str(tmp_path / "more.yaml"), *since).code == 0
    in_force = dueledger_on("plan", *zeta).document
    assert (in_force["definitions"], in_force["due"]) == (2, 25)


def test_a_person_sees_a_chart_the_peaks_and_the_quiet(
    dueledger: Command, definitions: str
) -> None:
    ran = dueledger("plan", definitions, *WINDOW, "--quiet-for", "PT2H")
    assert "█" in ran.out
    assert "2027-03-01 02:30Z" in ran.out
    assert "No quiet window of PT2H" in ran.err


def test_a_plan_of_files_needs_its_start(dueledger: Command, definitions: str) -> None:
    refused = dueledger("plan", definitions, "--json")
    assert refused.code == 2
    assert "--from" in refused.document["error"]["detail"]


def test_without_files_it_is_what_the_database_has_in_force(
    dueledger_on: Command, definitions: str, tmp_path: Path
) -> None:
    assert dueledger_on("define", definitions).code == 0
    changed = DEFINITIONS.replace("5 * * * *", "5,6 * * * *")
    (tmp_path / "changed.yaml").write_text(changed, encoding="utf-8")
    since = ("--effective-from", "2027-03-01T12:00:00Z", "--json")
    assert dueledger_on("define", str(tmp_path / "changed.yaml"), *since).code == 0
    document = dueledger_on("plan", *WINDOW, "--kind", "HourlyDue", "--json").document
    assert document["due"] == 12 + 24
    assert dueledger_on("plan", "--json").document["due"] >= 24


def test_what_waits_in_the_database_is_in_the_chart_and_the_document(
    dueledger_on: Command, definitions: str
) -> None:
    assert dueledger_on("define", definitions).code == 0
    owed = ("--kind", "ReminderDue", "--effective-date", "2027-03-31")
    at = ("--key", "INV-1", "--due-at", "2027-03-01T09:07Z")
    for tenant in ("acme", "umbra"):
        assert dueledger_on("emit", "--tenant", tenant, *owed, *at).code == 0
    assert dueledger_on("emit", "--tenant", "acme", *owed, "--key", "2", "--due-at", NOW).code == 0
    document = dueledger_on("plan", *WINDOW, "--kind", "ReminderDue", "--json").document
    assert (document["definitions"], document["due"], document["waiting"]) == (0, 2, 2)
    assert document["overdue"] == 1
    assert [one["to"] for one in document["quiet"]] == [
        "2027-03-01T09:07:00Z",
        "2027-03-02T00:00:00Z",
    ]
    assert document["peaks"][0]["most_of"] == [
        {"tenant": tenant, "definition": None, "kind": "ReminderDue", "due": 1}
        for tenant in ("acme", "umbra")
    ]
    of_one = dueledger_on("plan", *WINDOW, "--tenant", "umbra", "--json").document
    assert (of_one["due"], of_one["waiting"]) == (1, 1)
    shown = dueledger_on("plan", *WINDOW)
    assert "umbra/ReminderDue (emitted) 1" in " ".join(shown.out.split())
    assert "2 are in the ledger already" in shown.err
    assert "1 were due before and are pending" in shown.err
