"""The witness: what croniter and dateutil say about a schedule, held against our own expansion.

It compares nominal local times, before zones, calendars and smear.
"""

from dueledger.ledger.witness.witness import Agreement, Witness, WitnessedTimes, is_witnessed

__all__ = ["Agreement", "Witness", "WitnessedTimes", "is_witnessed"]
