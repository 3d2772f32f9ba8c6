"""The stored pace of floods, which every process that claims floods reads and steps."""

from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.rules.flood_pace import LagCount
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class LateFlow:
    """A flow with a lag target, and the longest lag of its claims, in relation to it."""

    flow_no: int
    lag_seconds: float
    lag_target_seconds: float


@dataclass(frozen=True, slots=True)
class StoredPace:
    """The share of the time as it is stored, and the claims that count for the next step.

    `stepped_at` is the fence of the next step, and `age_seconds` how long ago that was: None and
    infinity before the first.
    """

    share: float
    stepped_at: datetime | None
    age_seconds: float
    count: LagCount
    latest: LateFlow | None


async def read_flood_pace(
    connection: Connection, *, window_seconds: float, target_seconds: float, claims_max: int
) -> StoredPace:
    """Read the pace, and count the claims of flows with a lag target of the window.

    It has those that were started within it, or are not started. `target_seconds` is the greatest
    target: claims are read that were made so long before it.
    """
    row = await connection.fetchrow(
        statement("read_flood_pace"), window_seconds, target_seconds, claims_max
    )
    assert row is not None  # noqa: S101 - the table has one row
    share, stepped_at, age_seconds, claims, late, near, *latest = row
    return StoredPace(
        share,
        stepped_at,
        age_seconds,
        LagCount(claims, late, near),
        None if latest[0] is None else LateFlow(*latest),
    )


async def step_flood_pace(
    connection: Connection,
    stepped_at: datetime | None,
    share: float,
    *,
    late: LateFlow | None,
    starts_again: bool = False,
) -> bool:
    """Store the next share; False if another process has stepped it since it was read.

    `late` is the flow that was late, if one was. From then on only claims of items that were
    available later count, and also if it `starts_again`.
    """
    named = (late.flow_no, late.lag_seconds, late.lag_target_seconds) if late else (None,) * 3
    stepped = await connection.fetchval(
        statement("step_flood_pace"), stepped_at, share, starts_again, *named
    )
    return stepped is not None
