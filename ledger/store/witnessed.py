"""What the witness said about the versions of definitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.findings import FindingRecord
from dueledger.ledger.store.statements import statement
from dueledger.ledger.witness import Agreement, WitnessedTimes

VersionKey = tuple[str, str, int]
"""Tenant, name and version."""


@dataclass(frozen=True, slots=True)
class WitnessedVersion:
    """What the witness said about a version; it was asked last so long ago.

    Times are kept where they differ.
    """

    definition_no: int
    witnessed: WitnessedTimes
    age_seconds: float


async def record_witnessed(
    connection: Connection, witnessed: Sequence[tuple[VersionKey, WitnessedTimes]]
) -> None:
    """Record what the witness said, in place of what it said before. Repeating it is harmless.

    Having no answer leaves a disagreement as it was: only agreement ends it.
    """
    await connection.fetch(
        statement("record_witnessed"),
        [tenant for (tenant, _, _), _ in witnessed],
        [name for (_, name, _), _ in witnessed],
        [version for (_, _, version), _ in witnessed],
        [times.agreement.value for _, times in witnessed],
        [times.package for _, times in witnessed],
        [times.reason for _, times in witnessed],
        [_differing(times) for _, times in witnessed],
    )


async def list_witnessed(connection: Connection) -> list[WitnessedVersion]:
    """List what the witness said about each version, and how long ago it was asked last."""
    return [
        WitnessedVersion(
            row["definition_no"],
            WitnessedTimes(
                Agreement(row["agreement"]),
                row["package"],
                _read(row["times"], "ours"),
                _read(row["times"], "theirs"),
            ),
            row["age_seconds"],
        )
        for row in await connection.fetch(statement("list_witnessed"))
    ]


async def accept_disagreements(
    connection: Connection, findings: Sequence[FindingRecord], *, reason: str, actor_no: int
) -> None:
    """Record findings of a disagreement as accepted by a person. Repeating it is harmless."""
    await connection.fetch(
        statement("accept_disagreements"),
        [finding.id for finding in findings],
        [finding.tenant for finding in findings],
        [finding.kind for finding in findings],
        [finding.subject for finding in findings],
        [finding.sentence for finding in findings],
        [finding.expected for finding in findings],
        [finding.actual for finding in findings],
        reason,
        actor_no,
    )


def _differing(times: WitnessedTimes) -> str | None:
    if times.agreement is not Agreement.DISAGREES:
        return None
    return orjson.dumps({"ours": times.ours, "theirs": times.theirs}).decode()


def _read(times: dict[str, list[str]] | None, side: str) -> tuple[datetime, ...]:
    return () if times is None else tuple(map(datetime.fromisoformat, times[side]))
