"""What somebody must look after each second: what was lost, circuits, keys, partitions.

An allocator does it beside publishing; where there may be none, workers that claim for themselves.
"""

import random
from collections import Counter
from time import monotonic
from typing import Final, final

from ledger.log import LogEvent, get_logger
from ledger.store import Connection, KeptConnection, Pool
from ledger.store.claims import apply_withdrawals, reap_claims, reap_runs
from ledger.store.flows import heal_pauses
from ledger.store.limits import (
    flag_streaks,
    judge_circuits,
    prune_credits,
    prune_outcomes,
    release_keys,
)
from ledger.store.partitions import make_partitions

PARTITIONS_SECONDS: Final = 3600.0
PRUNE_SECONDS: Final = 600.0
STREAKS_MAX: Final = 500
KEYS_MAX: Final = 1000
KEY_STRIDES_MAX: Final = 20
"""Strides of keys in one pass while each wakes something: 17 microseconds a key."""
KEY_LOOKS_MAX: Final = 4
"""Strides that wake nothing: 6 microseconds a key, and a million may wait for keys in use."""


@final
class Upkeep:
    """Takes back what was lost, honours what was asked, and judges how flows fare.

    Any number may do it beside each other: each statement leaves out what another one holds.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        actor_no: int,
        seconds: float,
        role: str,
        limit: int = 500,
        quiet_doublings_max: int = 0,
    ) -> None:
        """Look about every `seconds`; `limit` bounds a pass in claims and in runs.

        After one that found nothing the next is twice as far, up to `quiet_doublings_max` times.
        """
        # Its statements take 25 ms to be planned, on each connection, and 2 ms to run.
        self._connection = KeptConnection(pool)
        self._actor_no = actor_no
        self._seconds = seconds
        self._limit = limit
        self._quiet_doublings_max = quiet_doublings_max
        self._log = get_logger(role)
        self._quiet = 0
        self._partitions_at = self._prune_at = float("-inf")
        self._keys_after: int | None = None
        self._has_more = False

    async def tick(self) -> Counter[str]:
        """Do one bounded pass.

        Counts runs: reaped_runs; items: reaped_claims, withdrawn, woken; and what changed:
        circuits, streaks, pauses.
        """
        counts: Counter[str] = Counter()
        async with self._connection.lent() as connection:
            await self._make_partitions(connection)
            self._has_more = await self._reap(connection, counts)
            await self._wake(connection, counts)
            await self._judge_circuits(connection, counts)
            await self._flag_streaks(connection, counts)
            counts["pauses"] += await heal_pauses(connection)
        quiet = not any(counts.values()) and self._keys_after is None
        self._quiet = min(self._quiet + 1, self._quiet_doublings_max) if quiet else 0
        return counts

    def pause_seconds(self) -> float:
        """Say how long until the next pass.

        None after a full one, and never the same, so that ten processes do not look together.
        """
        if self._has_more:
            return 0.0
        return self._seconds * 2**self._quiet * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, no secret

    async def _make_partitions(self, connection: Connection) -> None:
        now = monotonic()
        if now >= self._partitions_at:
            await make_partitions(connection)
            self._partitions_at = now + PARTITIONS_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
        if now >= self._prune_at:
            await prune_credits(connection)
            await prune_outcomes(connection)
            self._prune_at = now + PRUNE_SECONDS

    async def _reap(self, connection: Connection, counts: Counter[str]) -> bool:
        """Take back what is past its deadline; tell whether there may be more."""
        runs = await reap_runs(connection, self._limit, self._actor_no)
        claims = await reap_claims(connection, self._limit, self._actor_no)
        withdrawals = await apply_withdrawals(connection, self._limit)
        counts["reaped_runs"] += runs.runs
        counts["reaped_claims"] += claims.released + claims.parked
        counts["withdrawn"] += withdrawals.applied
        if runs.runs:
            self._log.warning(
                LogEvent.RUN_REAPED,
                runs=runs.runs,
                retried=runs.retried,
                released=runs.released,
                parked=runs.parked,
            )
        if claims.claims:
            self._log.warning(
                LogEvent.CLAIM_REAPED,
                claims=claims.claims,
                released=claims.released,
                parked=claims.parked,
            )
        return self._limit in (runs.runs, claims.claims)

    async def _wake(self, connection: Connection, counts: Counter[str]) -> None:
        looks = 0
        for _ in range(KEY_STRIDES_MAX):
            woken = await release_keys(connection, self._keys_after, KEYS_MAX)
            self._keys_after = woken.reached
            counts["woken"] += woken.woken
            looks += not woken.woken
            if woken.reached is None or looks == KEY_LOOKS_MAX:
                break

    async def _judge_circuits(self, connection: Connection, counts: Counter[str]) -> None:
        for change in await judge_circuits(connection):
            counts["circuits"] += 1
            self._log.warning(
                LogEvent.CIRCUIT_CHANGED,
                flow_no=change.flow_no,
                before=change.before,
                after=change.after,
                completed=change.completed,
                failed=change.failed,
            )

    async def _flag_streaks(self, connection: Connection, counts: Counter[str]) -> None:
        for streak in await flag_streaks(connection, STREAKS_MAX):
            counts["streaks"] += 1
            self._log.warning(
                LogEvent.STREAK_FLAGGED,
                tenant=streak.tenant,
                kind=streak.kind,
                business_key=streak.business_key,
                failures=streak.failures,
            )
