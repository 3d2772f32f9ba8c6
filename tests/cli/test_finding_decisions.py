"""What people decide about findings and repairs, each in their own name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.repairs import RepairRecord, list_repairs, record_repairs
from dueledger.reconciler.ledger_record import LedgerRecord
from dueledger.reconciler.pass_result import PassScope
from tests.logins import with_login

Command = Callable[..., Any]

OPEN: Final = [UUID(int=number) for number in (1, 2, 3, 4)]
REPAIR: Final = UUID(int=10)
CHANGE: Final = ("before", "after", "status", "held_because")
UNKNOWN: Final = str(UUID(int=99))


def _finding(identity: UUID) -> findings.FindingRecord:
    return findings.FindingRecord(
        id=identity,
        type="MISSING",
        severity="error",
        tenant="acme",
        kind="LetterDue",
        subject=str(identity),
        item_id=None,
        business_key="P-1",
        effective_date=None,
        due_at=None,
        sentence="A letter is missing.",
        expected="{}",
        actual="{}",
        terms=None,
        resolution="open",
    )


@pytest.fixture
async def proposed(connection: Connection) -> None:
    """Open findings, of the first of which ann proposed the repair."""
    ann = await register_actor(connection, "person:ann", ActorKind.PERSON)
    record = LedgerRecord(ann)
    await record.begin(connection, PassScope())
    await record.record_findings(connection, [_finding(identity) for identity in OPEN])
    repair = RepairRecord(REPAIR, OPEN[0], "materialise", 1, '{"would": "Emit it."}')
    await record_repairs(connection, [repair], actor_no=ann)


@pytest.fixture
def decide(dueledger_on: Command, database: str) -> Command:
    """Run a command under an approver's login, in somebody's name."""

    def run(name: str, *arguments: str) -> Any:  # noqa: ANN401
        dsn = with_login(database, "approver")
        return dueledger_on(*arguments, "--json", DUELEDGER_ACTOR=name, DUELEDGER_DSN=dsn)

    return run


@pytest.mark.usefixtures("proposed")
async def test_g11_a_finding_is_resolved_by_a_named_person_once_and_never_by_who_repairs_it(
    decide: Command, dueledger_on: Command, connection: Connection
) -> None:
    first, second, third, fourth = map(str, OPEN)
    explained = decide("ann", "finding", "explain", second, third, "--reason", "a bank holiday")
    assert (explained.code, [line["result"] for line in explained.lines]) == (0, ["done"] * 2)

    refused = decide("bob", "finding", "accept", second, UNKNOWN, "--reason", "fine")
    assert (refused.code, [line["result"] for line in refused.lines]) == (
        1,
        ["explained", "unknown"],
    )
    assert "is explained already" in refused.lines[0]["reason"]
    own = decide("ann", "finding", "accept", first, "--reason", "leave it")
    assert (own.code, own.lines[0]["result"]) == (1, "own")
    assert "somebody else" in own.lines[0]["reason"]
    accepted = decide("bob", "finding", "accept", first, "--reason", "leave it")
    assert (accepted.code, accepted.lines[0]["result"]) == (0, "done")

    shown = dueledger_on("finding", "show", first, "--json").document
    assert [shown[name] for name in ("resolution", "reason", "resolved_by")] == [
        "accepted",
        "leave it",
        "person:bob",
    ]
    assert [each["proposed_by"] for each in shown["repairs"]] == ["person:ann"]
    assert [row["id"] for row in await findings.list_findings(connection)] == [OPEN[3]]
    assert dueledger_on("finding", "show", UNKNOWN, "--json").code == 2
    assert "A letter is missing." in dueledger_on("finding", "show", fourth).out
    audited = [
        (each["actor"], each["operation"], each["target"])
        for each in dueledger_on("audit", "--tenant", "acme", "--json").lines
    ]
    assert audited[0] == ("person:bob", "acceptFinding", f"findings/{first}")
    assert {each[2] for each in audited[1:]} == {f"findings/{second}", f"findings/{third}"}


@pytest.mark.usefixtures("proposed")
async def test_g11_a_repair_is_approved_by_somebody_else_than_who_proposed_it(
    decide: Command, dueledger_on: Command, connection: Connection
) -> None:
    [waiting] = dueledger_on("repair", "list", "--kind", "LetterDue", "--json").lines
    assert [waiting[name] for name in ("id", "proposed_by", "approved_by")] == [
        str(REPAIR),
        "person:ann",
        None,
    ]
    maker = decide("ann", "repair", "approve", str(REPAIR), "--reason", "mine")
    assert (maker.code, maker.lines[0]["result"]) == (1, "own")
    assert "somebody else" in maker.lines[0]["reason"]

    checker = decide("bob", "repair", "approve", str(REPAIR), "--reason", "checked")
    assert (checker.code, checker.lines[0]["result"]) == (0, "done")
    again = decide("cid", "repair", "approve", str(REPAIR), UNKNOWN, "--reason", "me, too")
    assert (again.code, [line["result"] for line in again.lines]) == (1, ["approved", "unknown"])

    [row] = await list_repairs(connection)
    assert (row["status"], row["approved_by"]) == ("proposed", "person:bob")
    decide("bob", "finding", "accept", str(OPEN[0]), "--reason", "leave it")
    late = decide("cid", "repair", "approve", str(REPAIR), "--reason", "me, too")
    assert (late.code, late.lines[0]["result"]) == (1, "closed")
    assert "No repair waits." in dueledger_on("repair", "list", "--tenant", "acme").err


def test_a_dry_run_prints_what_each_repair_changes_and_only_those_that_are_meant(
    dueledger_on: Command, database: str, tmp_path: Path
) -> None:
    (tmp_path / "owed.csv").write_text(
        "tenant,kind,business_key,cycle,effective_date,due_at\n"
        "acme,LetterDue,P-1,1,2026-01-01,2026-01-01T09:00:00Z\n"
        "acme,LetterDue,P-2,1,2026-01-01,2026-01-01T09:00:00Z\n"
    )
    (tmp_path / "sources.yaml").write_text(
        "sources: [{population: owed, tenant: acme, kinds: [LetterDue], csv: owed.csv}]\n"
        "repairs: [{tenant: acme, kind: LetterDue, findings: {MISSING: propose}}]"
    )
    repair = ("repair", "--sources", str(tmp_path / "sources.yaml"), "--kind", "LetterDue")

    said = dueledger_on(*repair)
    planned = dueledger_on(*repair, "--limit", "1", "--json").document["planned"]
    other = dueledger_on(*repair, "--type", "OVERDUE", "--json").document["planned"]

    assert said.err.count("no item -> Scheduled") == 2
    asked = "the policy of its kind: a person approves it"
    assert said.err.count(f"not yet: {asked}") == 2
    both = f"{asked}; and its source does not say its payload: a person approves that it has none"
    assert [[each[name] for name in CHANGE] for each in planned] == [
        ["no item", "Scheduled", None, both]
    ]
    assert other == []
    capped = dueledger_on(*repair, "--json", DUELEDGER_RECONCILE_REPAIR_MAX="1").document
    assert "one pass may apply 1" in capped["refusal"]
    # A login that may name a person proposes in that name, another one as the process it is.
    reconciler = with_login(database, "reconciler")
    dueledger_on(*repair, "--limit", "1", "--execute", DUELEDGER_DSN=reconciler)
    proposed = dueledger_on(*repair, "--execute", DUELEDGER_ACTOR="ann")
    assert proposed.err.count("proposed materialise: Emit") == 2
    by_process, by_person = dueledger_on("repair", "list", "--json").lines
    assert by_process["proposed_by"].startswith("reconciler:")
    assert by_person["proposed_by"] == "person:ann"
    assert "a person approves it" in by_person["held_because"]


@pytest.mark.usefixtures("proposed")
async def test_findings_are_taken_by_who_may_decide_and_comments_are_audited(
    decide: Command, dueledger_on: Command, connection: Connection, database: str
) -> None:
    first, second, *_ = map(str, OPEN)
    taken = decide("ann", "finding", "take", first, second)
    assert [(each["result"], each["taken_by"]) for each in taken.lines] == [
        ("done", "person:ann")
    ] * 2
    refused = decide("bob", "finding", "take", first, UNKNOWN)
    assert refused.code == 1
    assert [(each["result"], each["taken_by"]) for each in refused.lines] == [
        ("taken", "person:ann"),
        ("unknown", None),
    ]
    assert decide("bob", "finding", "take", first, "--instead-of", "person:ann").code == 0
    [repair] = dueledger_on("repair", "list", "--json").lines
    assert repair["taken_by"] == "person:bob"
    assert dueledger_on("finding", "show", second, "--json").document["taken_by"] == "person:ann"
    assert decide("bob", "finding", "return", first).code == 0
    said = ("finding", "comment", first, "--comment", "INC-1: asked")
    own = {"DUELEDGER_ACTOR": "bob", "DUELEDGER_DSN": with_login(database, "approver")}
    assert dueledger_on(*said, **own).code == 0
    [entry] = dueledger_on("audit", "--target", f"findings/{first}/review", "--json").lines
    assert (entry["actor"], entry["detail"]) == ("person:bob", {"comment": "INC-1: asked"})
    operations = [
        each["operation"]
        for each in dueledger_on("audit", "--target", f"findings/{first}", "--json").lines
    ]
    assert operations == ["returnFinding", "takeFinding", "takeFinding"]
    resolved = decide("bob", "finding", "accept", second, "--reason", "fine")
    assert resolved.code == 0
    assert await connection.fetchval("select count(taken_by) from ledger.finding") == 0
