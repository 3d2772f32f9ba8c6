"""The second opinion on schedules: the witness is asked again, some definitions in each pass."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Final, NamedTuple, final

from dueledger.ledger.store import Connection
from dueledger.ledger.witness import Agreement, Witness, WitnessedTimes, is_witnessed
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.find.findings import Finding, disagrees
from dueledger.reconciler.pass_record import PassRecord

CPU_SHARE: Final = 0.05
"""How much of the CPU time of passes the witness may take."""

AGAIN_AFTER: Final = timedelta(days=3)
"""A version is asked about again then, so that each is within seven days."""

_START_CPU_SECONDS: Final = 0.3
"""Credit at which a child process is started: about half of it is its start."""
_CREDIT_MAX: Final = 1.0
_ASKED_MAX: Final = 1_000
_AGAIN_SECONDS: Final = AGAIN_AFTER.total_seconds()


class Opinions(NamedTuple):
    """The findings of a pass, and the CPU time that it leaves to the witness."""

    findings: list[Finding]
    credit_seconds: float


@final
class SecondOpinion:
    """Asks the witness within its share of the CPU time of passes, of whatever process.

    For few short passes the ledger adds a tenth of a second a day. What it may take is gathered
    over passes, until starting a child process is worth it; what it took beyond is deducted. The
    ledger keeps it from one pass to the next, so passes that a process of their own makes ask as
    often. The versions asked about longest ago come first.
    `started_seconds` is the CPU time that this process took before its first pass.
    """

    def __init__(
        self,
        started_seconds: float = 0.0,
        *,
        credit_max: float = _CREDIT_MAX,
        start_cpu_seconds: float = _START_CPU_SECONDS,
    ) -> None:
        self._uncounted = started_seconds
        self._credit_max = credit_max
        self._start_cpu_seconds = start_cpu_seconds

    async def find(
        self,
        connection: Connection,
        versions: Sequence[DefinitionSpan],
        as_of: datetime,
        *,
        record: PassRecord,
        credit_seconds: float,
        pass_cpu_seconds: float,
    ) -> Opinions:
        """Ask about some versions, and return a finding for each that is known to differ.

        `record` keeps what the witness said; `credit_seconds` is what earlier passes have left.
        """
        counted, self._uncounted = self._uncounted + pass_cpu_seconds, 0.0
        credit = min(credit_seconds + CPU_SHARE * counted, self._credit_max)
        current = [
            version
            for version in versions
            if is_witnessed(version.definition.when)
            and not version.definition.ended
            and (version.superseded_at is None or version.superseded_at > as_of)
        ]
        known = await record.list_witnessed(connection)
        ages = {each.definition_no: each.age_seconds for each in known}
        due = sorted(
            (each for each in current if ages.get(each.definition_no, inf) >= _AGAIN_SECONDS),
            key=lambda each: -ages.get(each.definition_no, inf),
        )
        if due and credit >= self._start_cpu_seconds:
            asked, cpu_seconds = await asyncio.to_thread(_ask, due[:_ASKED_MAX], as_of, credit)
            credit -= cpu_seconds
            await record.record_witnessed(connection, asked)
            known = await record.list_witnessed(connection)
        found = {each.definition_no: each.witnessed for each in known}
        differing = [
            disagrees(*version.key, version.name, version.number, times)
            for version in current
            if (times := found.get(version.definition_no)) is not None
            and times.agreement is Agreement.DISAGREES
        ]
        return Opinions(differing, credit)


def _ask(
    due: Sequence[DefinitionSpan], as_of: datetime, credit_seconds: float
) -> tuple[list[tuple[DefinitionSpan, WitnessedTimes]], float]:
    """Ask until the credit is used up, about one version at least; return the CPU time as well."""
    asked: list[tuple[DefinitionSpan, WitnessedTimes]] = []
    with Witness() as witness:
        for version in due:
            when = version.definition.when
            if is_witnessed(when):
                asked.append((version, witness.ask(when, max(as_of, version.effective_from))))
            if witness.cpu_seconds >= credit_seconds:
                break
        return asked, witness.cpu_seconds
