"""A rest of floods of a known length, and the pauses between the claims that were made with it."""

from typing import Final

import pytest

from dueledger.ledger.flows import flood_pacer
from dueledger.ledger.store import Connection

REST_SECONDS: Final = 0.05
_LEAST_PAUSE: Final = """
select extract(epoch from min(p.pause))::double precision
from (
  select c.claimed_at - lag(c.claimed_at) over (order by c.claimed_at) as pause
  from ledger.claim c
  where c.lag_flow_no is null
  group by c.claimed_at
  having sum(c.size) >= 500
) p
"""


def rest_always(
    monkeypatch: pytest.MonkeyPatch, seconds: float = REST_SECONDS
) -> list[tuple[float, float]]:
    """Let floods rest for so long; return what each rest is asked for: share, busy seconds."""
    asked: list[tuple[float, float]] = []

    def rest(share: float, busy_seconds: float) -> float:
        asked.append((share, busy_seconds))
        return seconds

    monkeypatch.setattr(flood_pacer, "rest_seconds", rest)
    return asked


async def least_pause(connection: Connection) -> float:
    """Return the least time between claims of 500 items or more, as floods have them."""
    seconds: float | None = await connection.fetchval(_LEAST_PAUSE)
    assert seconds is not None, "there were no two such claims"
    return seconds
