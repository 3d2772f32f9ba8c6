"""What is done about findings, by kind and type: repaired, proposed, escalated or left alone."""

from collections.abc import Mapping
from enum import StrEnum

from dueledger.ledger.finding_types import FindingType


class Treatment(StrEnum):
    """What is done about a finding that has a repair."""

    AUTO = "auto"
    PROPOSE = "propose"
    ESCALATE = "escalate"
    NEVER = "never"


class RepairPolicies:
    """The treatment of findings by tenant, kind and type; `auto` where nothing is declared."""

    def __init__(
        self, declared: Mapping[tuple[str, str], Mapping[FindingType, Treatment]] | None = None
    ) -> None:
        self._declared = declared or {}

    def treatment(self, tenant: str, kind: str, type_: FindingType) -> Treatment:
        """Return what is done about a finding of this type and kind."""
        return self._declared.get((tenant, kind), {}).get(type_, Treatment.AUTO)
