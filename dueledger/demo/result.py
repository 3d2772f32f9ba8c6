"""The result of a demo: the document that it prints, and whether it passed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueledger.ledger.finding_types import FindingType, Severity
from dueledger.reconciler.report.model import FindingDetail, ReconciliationReport, StatementVerdict

FINDING_OF_FAULT: Final = {
    "event_lost": FindingType.MISSING,
    "premium_not_booked": FindingType.EFFECT_MISSING,
}
"""The finding type that each fault of the domain must cause."""

_SHOWN: Final = 5

FindingKey = tuple[FindingType, str]
"""The type and the business key of a finding."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The report before and after the repairs, and the injected faults."""

    injected: frozenset[FindingKey]
    before: ReconciliationReport
    after: ReconciliationReport
    repairs: int
    items_per_second: float
    reports: Sequence[Path]

    @property
    def failures(self) -> list[str]:
        """Return everything that is wrong; empty if the demo passed."""
        found = found_keys(self.before.findings)
        failures = [
            f"{row.kind} does not balance: {row.difference} items have no state"
            for row in (*self.after.accounting, *self.after.identity)
            if row.difference
        ]
        failures += [
            f"{row.kind}: {row.missing} are missing" for row in self.after.accounting if row.missing
        ]
        if unfound := self.injected - found:
            failures.append(f"injected and not found: {_some(unfound)}")
        if unknown := found - self.injected:
            failures.append(f"found and not injected: {_some(unknown)}")
        if not self.after.stale_writes:
            failures.append("a worker was frozen, and none of its writes was refused afterwards")
        if self.after.statement.verdict is StatementVerdict.NOT_COMPLETE:
            failures.append(self.after.statement.sentence)
        return failures

    def document(self) -> dict[str, object]:
        """Return the document of ``--json``; its names are stable."""
        totals = self.after.totals
        return {
            "expected": totals.expected,
            "completed": totals.completed,
            "skipped": totals.skipped,
            "cancelled": totals.cancelled,
            "superseded": totals.superseded,
            "written_off": totals.written_off,
            "open": totals.open,
            "fault_kinds": len({type_ for type_, _ in self.injected}),
            "findings_found": self.before.findings_found,
            "findings_open": self.after.findings_open,
            "repairs": self.repairs,
            "stale_writes": self.after.stale_writes,
            "verdict": self.after.statement.verdict,
            "items_per_second": round(self.items_per_second, 1),
            "report": [str(path) for path in self.reports],
            "failures": self.failures,
        }


def injected_findings(
    faults: Mapping[str, Sequence[str]], defects: Mapping[str, Sequence[str]]
) -> frozenset[FindingKey]:
    """Return the findings that the domain's faults and the defects must cause."""
    found = {(FINDING_OF_FAULT[fault], key) for fault, keys in faults.items() for key in keys}
    return frozenset(
        found | {(FindingType(type_), key) for type_, keys in defects.items() for key in keys}
    )


def found_keys(findings: Sequence[FindingDetail]) -> frozenset[FindingKey]:
    """Return the findings that are not only informative."""
    return frozenset(
        (finding.type, finding.business_key or finding.subject)
        for finding in findings
        if finding.severity is not Severity.INFORMATION
    )


def _some(findings: frozenset[FindingKey]) -> str:
    shown = ", ".join(f"{kind} {key}" for kind, key in sorted(findings)[:_SHOWN])
    return shown if len(findings) <= _SHOWN else f"{shown} and {len(findings) - _SHOWN} more"
