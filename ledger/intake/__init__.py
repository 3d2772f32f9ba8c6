"""Domain events become what is owed: Kafka, inbox, rules, ledger."""

from ledger.intake.run import open_intake, run_intake
from ledger.intake.service import Intake
from ledger.intake.settings import IntakeSettings

__all__ = ["Intake", "IntakeSettings", "open_intake", "run_intake"]
