"""docs/findings.md has every type of finding, with what to do; `make schema` writes it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dueledger.ledger.finding_types import FINDING_RULES, FindingType, Owner, RepairAction, Severity

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "findings.md"
INTRODUCTION: Final = """\
# Findings

A finding is a difference that [the reconciler](reconciling.md) found. `dueledger findings` lists
the open ones. `dueledger finding show FINDING` has both sides of the evidence. A finding closes
itself when it no longer holds. `make schema` makes this page of the types in the code.

"""
SEVERITIES: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "an effect is wrong, or the ledger itself is",
    Severity.ERROR: "an item, its record or a source is wrong",
    Severity.WARNING: "something should be declared",
    Severity.INFORMATION: "it is counted, and never open",
}
OWNERS: Final[Mapping[Owner, str]] = {
    Owner.DOMAIN: "the team whose kind it is",
    Owner.OPERATOR: "the team that runs workers, schedules and sources",
    Owner.PLATFORM: "the team that runs the ledger, Postgres and Kafka",
}
REPAIRS: Final[Mapping[RepairAction, str]] = {
    RepairAction.MATERIALISE: "emits the item",
    RepairAction.REDRIVE: "makes the item available again",
    RepairAction.RELEASE: "releases the items of a claim or run, or a key",
    RepairAction.CANCEL: "ends the item",
    RepairAction.COMPLETE: "completes the item with the evidence",
    RepairAction.ESCALATE: "sends it to the topic `due-repairs`",
}
_COMPARE: Final = "Compare both sides. Correct the one that is wrong, or explain the finding."
_UPKEEP: Final = "Check that an allocator, a direct worker or a service with upkeep runs."
_REPORT: Final = "Ask who changed rows by hand. Otherwise report it, with the evidence."
DO: Final[Mapping[FindingType, str]] = {
    FindingType.MISSING: "Ask why it was not emitted: a lost event, an emitter that failed.",
    FindingType.UNEXPECTED: "Find what made it: `dueledger show ITEM`. Cancel it, or declare it.",
    FindingType.DUPLICATE: "Cancel the item that is not owed. If both were done, undo one effect.",
    FindingType.WRONG_DATE: _COMPARE,
    FindingType.WRONG_TERMS: _COMPARE,
    FindingType.WITHDRAWN: "Nothing more than the repair.",
    FindingType.UNEXCUSED: "Ask the actor that the journal names. Explain it if it was right.",
    FindingType.PREMATURE: "Check the clock of the Postgres server, and who wrote the row.",
    FindingType.OVERDUE: "`dueledger why ITEM` names what hinders it.",
    FindingType.STUCK: _UPKEEP,
    FindingType.HELD_KEY: _UPKEEP,
    FindingType.PUBLISHED_NO_OUTCOME: "Check that a consumer reads the topic and reports outcomes.",
    FindingType.OUTCOME_REJECTED: "`dueledger rejected` lists them, with reasons.",
    FindingType.OUTCOME_CONFLICT: _REPORT,
    FindingType.EFFECT_MISSING: "Check in the domain whether it happened.",
    FindingType.EFFECT_UNRECORDED: "If no item is named, ask who works outside of the ledger.",
    FindingType.EFFECT_REPEATED: "Undo one effect. Let the handler deduplicate by the item's id.",
    FindingType.LATE: "If there are many: more workers, or another `sla`.",
    FindingType.LATE_ARRIVING: "Ask the source why its events come late.",
    FindingType.EVENT_UNMATCHED: "Define a rule for the type, or "
    "[ignore it](reconciling.md#events-that-nobody-read).",
    FindingType.UNBALANCED: _REPORT,
    FindingType.ORPHAN_RECORD: "Check who may write to the topic, and if two ledgers share it.",
    FindingType.RECORD_MISSING: "Check Kafka's retention and replicas.",
    FindingType.TAMPERED: "Ask who can log in as the owner of the schema.",
    FindingType.SOURCE_FAILED: "Repair the source.",
    FindingType.DEFINITION_FAILED: "Correct it, or import the calendar that it needs.",
    FindingType.DISAGREES: "Compare both lists of times. "
    "[Accept it](schedules.md#the-second-opinion), or write the schedule differently.",
}


def document() -> str:
    """Return the page."""
    lines = [INTRODUCTION + "| type | means | severity | who acts | repair | do |"]
    lines.append("|---|---|---|---|---|---|")
    for name, rule in FINDING_RULES.items():
        repair = rule.default_repair.value if rule.default_repair else "–"
        lines.append(
            f"| {name} | {rule.meaning} | {rule.severity} | {rule.owner} | {repair} | {DO[name]} |"
        )
    for title, words in (("severity", SEVERITIES), ("who acts", OWNERS), ("repair", REPAIRS)):
        lines += ["", f"| {title} | |", "|---|---|"]
        lines += [f"| {key} | {text} |" for key, text in words.items()]
    lines += ["", "A person explains or accepts a finding whose type has no repair.", ""]
    return "\n".join(lines)


def test_docs_show_every_type_of_finding() -> None:
    text = document()
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        DOCUMENT.write_text(text, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == text, "run `make schema`"
