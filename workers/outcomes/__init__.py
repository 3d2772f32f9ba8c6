"""The intake of outcomes that consumers in other languages report by Kafka."""

from dueledger.workers.outcomes.process import open_outcome_intake, run_outcome_intake
from dueledger.workers.outcomes.settings import OutcomeIntakeSettings

__all__ = ["OutcomeIntakeSettings", "open_outcome_intake", "run_outcome_intake"]
