"""The closed list of finding types: what each means, its owner, its severity, its repair."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WHOLE_LEDGER: Final = "*"
"""In place of a tenant or kind: of none, or of all."""


class FindingType(StrEnum):
    """What can differ between what was owed and what happened."""

    MISSING = "MISSING"
    UNEXPECTED = "UNEXPECTED"
    DUPLICATE = "DUPLICATE"
    WRONG_DATE = "WRONG_DATE"
    WRONG_TERMS = "WRONG_TERMS"
    WITHDRAWN = "WITHDRAWN"
    UNEXCUSED = "UNEXCUSED"
    PREMATURE = "PREMATURE"
    OVERDUE = "OVERDUE"
    STUCK = "STUCK"
    HELD_KEY = "HELD_KEY"
    PUBLISHED_NO_OUTCOME = "PUBLISHED_NO_OUTCOME"
    OUTCOME_REJECTED = "OUTCOME_REJECTED"
    OUTCOME_CONFLICT = "OUTCOME_CONFLICT"
    EFFECT_MISSING = "EFFECT_MISSING"
    EFFECT_UNRECORDED = "EFFECT_UNRECORDED"
    EFFECT_REPEATED = "EFFECT_REPEATED"
    LATE = "LATE"
    LATE_ARRIVING = "LATE_ARRIVING"
    EVENT_UNMATCHED = "EVENT_UNMATCHED"
    UNBALANCED = "UNBALANCED"
    ORPHAN_RECORD = "ORPHAN_RECORD"
    RECORD_MISSING = "RECORD_MISSING"
    TAMPERED = "TAMPERED"
    SOURCE_FAILED = "SOURCE_FAILED"
    DEFINITION_FAILED = "DEFINITION_FAILED"
    DISAGREES = "DISAGREES"


EXPECTATION_TYPES: Final = frozenset(
    {
        FindingType.MISSING,
        FindingType.UNEXPECTED,
        FindingType.DUPLICATE,
        FindingType.WRONG_DATE,
        FindingType.WRONG_TERMS,
        FindingType.UNEXCUSED,
        FindingType.WITHDRAWN,
    }
)
"""What is expected decides about findings of these types."""


class Severity(StrEnum):
    """How bad a finding is. Information is recorded as explained and never counts as open."""

    INFORMATION = "information"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Resolution(StrEnum):
    """Whether a finding is open, and if not, why."""

    OPEN = "open"
    EXPLAINED = "explained"
    REPAIRED = "repaired"
    ACCEPTED = "accepted"
    CARRIED_FORWARD = "carried_forward"
    FALSE_POSITIVE = "false_positive"


class RepairAction(StrEnum):
    """What a repair does."""

    MATERIALISE = "materialise"
    REDRIVE = "redrive"
    RELEASE = "release"
    CANCEL = "cancel"
    COMPLETE = "complete"
    ESCALATE = "escalate"


class RepairStatus(StrEnum):
    """The status of a repair. Executed and refused are final."""

    PROPOSED = "proposed"
    EXECUTED = "executed"
    REFUSED = "refused"


class Owner(StrEnum):
    """Who has to act on a finding."""

    DOMAIN = "domain"
    OPERATOR = "operator"
    PLATFORM = "platform"


@dataclass(frozen=True, slots=True)
class FindingRule:
    """What one type of finding means. ``default_repair`` is None where a person must decide."""

    owner: Owner
    severity: Severity
    default_repair: RepairAction | None
    meaning: str

    @property
    def needs_person(self) -> bool:
        """Return whether a person decides about such a finding: no repair is applied to it."""
        repairs = self.default_repair not in {None, RepairAction.ESCALATE}
        return not repairs and not self.is_information

    @property
    def is_information(self) -> bool:
        """Return whether such a finding is counted and never open."""
        return self.severity is Severity.INFORMATION


_DOMAIN = Owner.DOMAIN
_OPERATOR = Owner.OPERATOR
_PLATFORM = Owner.PLATFORM
_INFORMATION = Severity.INFORMATION
_WARNING = Severity.WARNING
_ERROR = Severity.ERROR
_CRITICAL = Severity.CRITICAL

FINDING_RULES: Final[dict[FindingType, FindingRule]] = {
    FindingType.MISSING: FindingRule(
        _DOMAIN, _ERROR, RepairAction.MATERIALISE, "Expected, and the ledger has no such item"
    ),
    FindingType.UNEXPECTED: FindingRule(
        _DOMAIN, _WARNING, None, "An item that no definition, event or population expects"
    ),
    FindingType.DUPLICATE: FindingRule(
        _DOMAIN, _ERROR, None, "Two items for one business occurrence under different keys"
    ),
    FindingType.WRONG_DATE: FindingRule(_DOMAIN, _ERROR, None, "Same key, other due time"),
    FindingType.WRONG_TERMS: FindingRule(
        _DOMAIN, _ERROR, None, "Same key, other payload or definition version"
    ),
    FindingType.WITHDRAWN: FindingRule(
        _DOMAIN,
        _ERROR,
        RepairAction.CANCEL,
        "The domain ended the subject, and the item is still open",
    ),
    FindingType.UNEXCUSED: FindingRule(
        _DOMAIN,
        _ERROR,
        None,
        "Cancelled, skipped or written off by no event, rule or person",
    ),
    FindingType.PREMATURE: FindingRule(
        _OPERATOR, _ERROR, None, "Completed before it was due, or before it was emitted"
    ),
    FindingType.OVERDUE: FindingRule(
        _OPERATOR, _ERROR, RepairAction.REDRIVE, "Due, past its grace and not ended"
    ),
    FindingType.STUCK: FindingRule(
        _PLATFORM,
        _ERROR,
        RepairAction.RELEASE,
        "A lease or deadline lapsed and nothing acted",
    ),
    FindingType.HELD_KEY: FindingRule(
        _PLATFORM,
        _ERROR,
        RepairAction.RELEASE,
        "A key is held for no item that may have it, or not for one that is handed out",
    ),
    FindingType.PUBLISHED_NO_OUTCOME: FindingRule(
        _OPERATOR,
        _ERROR,
        RepairAction.RELEASE,
        "Published, nothing answered until its deadline, and nothing released it",
    ),
    FindingType.OUTCOME_REJECTED: FindingRule(
        _PLATFORM,
        _INFORMATION,
        None,
        "Writes that were refused, as a zombie's outcome by its fence",
    ),
    FindingType.OUTCOME_CONFLICT: FindingRule(
        _DOMAIN, _ERROR, None, "Journal and runs disagree about how an item ended"
    ),
    FindingType.EFFECT_MISSING: FindingRule(
        _DOMAIN, _CRITICAL, RepairAction.ESCALATE, "Completed here, without evidence outside"
    ),
    FindingType.EFFECT_UNRECORDED: FindingRule(
        _DOMAIN, _ERROR, RepairAction.COMPLETE, "Evidence outside, of no completed item here"
    ),
    FindingType.EFFECT_REPEATED: FindingRule(
        _DOMAIN, _CRITICAL, None, "More effects outside than items that were completed"
    ),
    FindingType.LATE: FindingRule(_OPERATOR, _INFORMATION, None, "Completed after its SLA"),
    FindingType.LATE_ARRIVING: FindingRule(
        _DOMAIN, _INFORMATION, None, "Its event was received after its due time was complete"
    ),
    FindingType.EVENT_UNMATCHED: FindingRule(
        _DOMAIN, _WARNING, None, "Domain events of a type that no rule read and nobody ignores"
    ),
    FindingType.UNBALANCED: FindingRule(
        _PLATFORM, _CRITICAL, None, "An item has no state or two, or a state has no item"
    ),
    FindingType.ORPHAN_RECORD: FindingRule(
        _PLATFORM, _ERROR, None, "A record in Kafka without a row in the ledger"
    ),
    FindingType.RECORD_MISSING: FindingRule(
        _PLATFORM, _ERROR, None, "Published, and Kafka does not have the records at their offsets"
    ),
    FindingType.TAMPERED: FindingRule(
        _PLATFORM, _CRITICAL, None, "What everything else rests on is not what was recorded"
    ),
    FindingType.SOURCE_FAILED: FindingRule(
        _OPERATOR, _ERROR, None, "A source could not be read, so nothing was concluded from it"
    ),
    FindingType.DEFINITION_FAILED: FindingRule(
        _DOMAIN, _ERROR, None, "A definition could not be expanded"
    ),
    FindingType.DISAGREES: FindingRule(
        _PLATFORM, _ERROR, None, "Another library expands a schedule to other times"
    ),
}
