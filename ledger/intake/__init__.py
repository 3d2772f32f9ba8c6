"""Domain events to items: Kafka, inbox, rules, ledger."""

from dueledger.ledger.intake.process import open_intake, run_intake
from dueledger.ledger.intake.settings import EventIntakeSettings

__all__ = ["EventIntakeSettings", "open_intake", "run_intake"]
