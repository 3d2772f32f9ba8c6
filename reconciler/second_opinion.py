"""The second opinion on schedules: the witness is asked again, some definitions in each pass."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Final, final

from dueledger.ledger.store import Connection
from dueledger.ledger.store.witnessed import VersionKey, list_witnessed, record_witnessed
from dueledger.ledger.witness import Agreement, Witness, WitnessedTimes, is_witnessed
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.find.findings import Finding, disagrees

CPU_SHARE: Final = 0.05
"""How much of the CPU time of passes the witness may take."""

AGAIN_AFTER: Final = timedelta(days=3)
"""A version is asked about again then, so that each is within seven days."""

_START_CPU_SECONDS: Final = 0.3
"""Credit at which a child process is started: about half of it is its start."""
_CREDIT_MAX: Final = 1.0
_ASKED_MAX: Final = 1_000
_AGAIN_SECONDS: Final = AGAIN_AFTER.total_seconds()


@final
class SecondOpinion:
    """Asks the witness within its share of the CPU time of the passes of one process.

    What it may take is gathered over passes, until starting a child process is worth it; what it
    took beyond is deducted. The versions asked about longest ago come first, by what is recorded.
    """

    def __init__(
        self,
        credit_seconds: float = 0.0,
        *,
        credit_max: float = _CREDIT_MAX,
        start_cpu_seconds: float = _START_CPU_SECONDS,
    ) -> None:
        self._credit = credit_seconds
        self._credit_max = credit_max
        self._start_cpu_seconds = start_cpu_seconds

    async def find(
        self,
        connection: Connection,
        versions: Sequence[DefinitionSpan],
        as_of: datetime,
        pass_cpu_seconds: float,
    ) -> list[Finding]:
        """Ask about some versions, and return a finding for each that is known to differ."""
        self._credit = min(self._credit + CPU_SHARE * pass_cpu_seconds, self._credit_max)
        current = [
            version
            for version in versions
            if is_witnessed(version.definition.when)
            and not version.definition.ended
            and (version.superseded_at is None or version.superseded_at > as_of)
        ]
        known = {each.definition_no: each for each in await list_witnessed(connection)}
        ages = {number: each.age_seconds for number, each in known.items()}
        due = sorted(
            (each for each in current if ages.get(each.definition_no, inf) >= _AGAIN_SECONDS),
            key=lambda each: -ages.get(each.definition_no, inf),
        )
        found = {number: each.witnessed for number, each in known.items()}
        if due and self._credit >= self._start_cpu_seconds:
            asked = await asyncio.to_thread(self._ask, due[:_ASKED_MAX], as_of)
            await record_witnessed(connection, [(_key(version), times) for version, times in asked])
            found |= {version.definition_no: times for version, times in asked}
        return [
            disagrees(*version.key, version.name, version.number, times)
            for version in current
            if (times := found.get(version.definition_no)) is not None
            and times.agreement is Agreement.DISAGREES
        ]

    def _ask(
        self, due: Sequence[DefinitionSpan], as_of: datetime
    ) -> list[tuple[DefinitionSpan, WitnessedTimes]]:
        """Ask until the credit is used up, about one version at least."""
        asked: list[tuple[DefinitionSpan, WitnessedTimes]] = []
        with Witness() as witness:
            for version in due:
                when = version.definition.when
                if is_witnessed(when):
                    asked.append((version, witness.ask(when, max(as_of, version.effective_from))))
                if witness.cpu_seconds >= self._credit:
                    break
            self._credit -= witness.cpu_seconds
        return asked


def _key(version: DefinitionSpan) -> VersionKey:
    return version.definition.tenant, version.name, version.number
