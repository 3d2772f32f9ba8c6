"""Domain events become what is owed: Kafka, inbox, rules, ledger."""

from dueledger.ledger.intake.event_intake import Intake
from dueledger.ledger.intake.process import open_intake, run_intake
from dueledger.ledger.intake.settings import IntakeSettings

__all__ = ["Intake", "IntakeSettings", "open_intake", "run_intake"]
