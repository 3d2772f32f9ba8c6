"""What commands do where the witness disagrees: here a croniter that is an hour off."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dueledger.ledger.store import Connection

Command = Callable[..., Any]

NIGHTLY = """
{definition: nightly, tenant: acme, kind: NightlyDue, business_key: n,
  when: {cron: "30 2 * * *", timezone: America/New_York}}
"""
AN_HOUR_OFF = """
from datetime import timedelta

class CroniterBadDateError(ValueError):
    pass

class croniter:
    def __init__(self, text, start, **options):
        self.at = start.replace(hour=3, minute=30, second=0)

    def get_next(self, kind):
        self.at += timedelta(days=1)
        return self.at
"""


@pytest.fixture
def nightly(tmp_path: Path) -> str:
    (tmp_path / "nightly.yaml").write_text(NIGHTLY, encoding="utf-8")
    return "nightly.yaml"


@pytest.fixture
def other(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "croniter.py").write_text(AN_HOUR_OFF, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path / "other")}


def test_a_preview_that_the_witness_contradicts_is_refused_with_both_lists(
    dueledger: Command, nightly: str, other: dict[str, str]
) -> None:
    window = ("preview", nightly, "--from", "2027-03-01", "--count", "2", "--json")
    refused = dueledger(*window, **other)
    assert refused.code == 2
    error = refused.document["error"]
    assert error["code"] == "WITNESS_DISAGREES"
    [found] = error["details"]["disagreements"]
    assert (found["definition"], found["parts_after"]) == ("acme/nightly", 0)
    assert found["ours"][0] == "2027-03-01T02:30:00"
    assert found["theirs"][0] == "2027-03-01T03:30:00"
    assert len(found["ours"]) == len(found["theirs"]) == 50

    shown = dueledger(*window, "--accept-disagreement", "croniter is an hour off", **other)
    assert shown.code == 0
    assert len(shown.document["occurrences"]) == 2
    assert shown.document["witness"]["agreement"] == "disagrees"


async def test_a_definition_that_the_witness_contradicts_is_defined_for_a_reason_alone(
    dueledger_on: Command, nightly: str, other: dict[str, str], connection: Connection
) -> None:
    for beside in ((), ("--dry-run",)):
        refused = dueledger_on("define", nightly, *beside, **other)
        assert refused.code == 2
        assert "disagrees from time 1 on" in refused.err
        assert "--accept-disagreement REASON" in refused.err
    assert await connection.fetchval("select count(*) from ledger.definition") == 0
    assert dueledger_on("define", nightly, "--accept-disagreement", " ").code == 2

    reason = ("--accept-disagreement", "croniter is an hour off")
    assert dueledger_on("define", nightly, *reason, DUELEDGER_ACTOR="ada", **other).code == 0
    [row] = await connection.fetch(
        "select f.type, f.resolution, f.reason, a.name from ledger.finding f"
        " join ledger.actor a on a.actor_no = f.resolved_by"
    )
    assert tuple(row) == ("DISAGREES", "accepted", "croniter is an hour off", "person:ada")
    again = dueledger_on("define", nightly, **other)
    assert again.code == 0, "nothing changes, so nothing is asked"
