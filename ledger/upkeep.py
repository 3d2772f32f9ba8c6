"""Upkeep: reaping, withdrawals, circuits, keys, partitions, once a second.

Allocators do it beside publishing; without an allocator, workers in direct mode do it.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, final

from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.settings import Retention
from dueledger.ledger.store import (
    STATEMENT_REFUSED,
    Connection,
    Pool,
    ReconnectingConnection,
    is_lost,
)
from dueledger.ledger.store.api_answers import forget_answers
from dueledger.ledger.store.audit import prune_audit
from dueledger.ledger.store.claims import apply_withdrawals, reap_claims, reap_runs
from dueledger.ledger.store.console_sessions import forget_sessions
from dueledger.ledger.store.credits import prune_credits
from dueledger.ledger.store.events import forget_event_keys
from dueledger.ledger.store.flow_limits import flag_streaks, prune_outcomes, update_circuits
from dueledger.ledger.store.flows import end_pauses, reapply_pauses
from dueledger.ledger.store.held_keys import free_ended_keys, release_keys
from dueledger.ledger.store.operations import advance_operation, find_open_operation
from dueledger.ledger.store.partitions import make_partitions, split_default_partition
from dueledger.ledger.store.processes import (
    end_deadlines,
    end_leases,
    prune_processes,
    watch_locks,
)
from dueledger.ledger.store.reports import prune_reconciliations, prune_reports
from dueledger.ledger.store.reviews import prune_rejected_writes

UpkeepStep = Callable[[Connection, Counter[str]], Awaitable[None]]
Delete = Callable[[Connection, int, int], Awaitable[int]]

PARTITIONS_SECONDS: Final = 3600.0
SPLIT_DOUBLINGS_MAX: Final = 6
"""While a transaction holds the default partition, the time between tries grows to a minute."""
PRUNE_SECONDS: Final = 600.0
DELETED_MAX: Final = 5000
"""Of each table in one pass."""
ANSWER_HOURS: Final = 24
"""How long a request with an Idempotency-Key may be repeated, and gets its first answer."""
PROCESSES_MAX: Final = 1000
SESSIONS_MAX: Final = 1000
DEAD_SHOWN: Final = 10
STREAKS_MAX: Final = 500
KEYS_MAX: Final = 1000
HELD_KEYS_MAX: Final = 500
"""Held keys whose items are looked up in one pass: no item should end and keep its key."""
KEY_BATCHES_MAX: Final = 20
"""Batches of keys in one pass while each wakes items: 17 microseconds a key."""
EMPTY_KEY_BATCHES_MAX: Final = 4
"""Batches that wake nothing: 6 microseconds a key, and a million may wait for keys in use."""
PAUSES_MAX: Final = 500
"""Pauses ended in one pass by their own end."""
OPERATION_SLICES_MAX: Final = 5
"""Slices of operations in one pass: each moves 1,000 items at most."""


@final
class Upkeep:
    """Reaps claims and runs, applies withdrawals, releases keys and updates circuits.

    Any number of processes may do it at once: each statement skips rows that another one locked.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        actor_no: int,
        seconds: float,
        role: str,
        retention: Retention | None = None,
        limit: int = 500,
        quiet_doublings_max: int = 0,
    ) -> None:
        """Run about every `seconds`; `limit` bounds a pass in claims and in runs.

        After a pass without work the pause doubles, up to `quiet_doublings_max` times.
        """
        # Planning its statements takes 25 ms on each connection, running them 2 ms.
        self._connection = ReconnectingConnection(pool)
        self._actor_no = actor_no
        self._seconds = seconds
        retention = retention or Retention()
        self._limit = limit
        self._quiet_doublings_max = quiet_doublings_max
        self._log = get_logger(role)
        self._quiet_passes = 0
        self._partitions_at = self._split_at = self._prune_at = float("-inf")
        self._split_failures = 0
        self._keys_after: int | None = None
        self._held_after: int | None = None
        self._operation_after = 0
        self._has_more = False
        self._failures: Counter[str] = Counter()
        self._steps: dict[str, UpkeepStep] = {
            "make_partitions": self._make_partitions,
            "split_default": self._split_default,
            "release_dead": self._release_dead,
            "reap_runs": self._reap_runs,
            "reap_claims": self._reap_claims,
            "apply_withdrawals": self._apply_withdrawals,
            "free_ended_keys": self._free_ended_keys,
            "release_keys": self._release_keys,
            "update_circuits": self._update_circuits,
            "flag_streaks": self._flag_streaks,
            "reapply_pauses": self._reapply_pauses,
            "advance_operations": self._advance_operations,
            "prune": self._prune,
            "forget_event_keys": self._deleting(
                "event_keys", forget_event_keys, retention.event_key_days
            ),
            "forget_answers": self._deleting("answers", forget_answers, ANSWER_HOURS),
            "prune_audit": self._deleting("audit", prune_audit, retention.audit_days),
            "prune_rejected_writes": self._deleting(
                "rejected", prune_rejected_writes, retention.rejected_days
            ),
            "prune_reports": self._deleting("reports", prune_reports, retention.report_days),
            "prune_reconciliations": self._deleting(
                "reconciliations", prune_reconciliations, retention.reconciliation_days
            ),
        }

    async def tick(self) -> Counter[str]:
        """Run one bounded pass. A step that Postgres refuses does not stop the other steps.

        Counts runs: reaped_runs; items: reaped_claims, withdrawn, unblocked; keys: freed; what was
        deleted: event_keys, answers, audit, rejected, reports with their rows, reconciliations with
        what they read; and what changed: circuits, streaks, flows paused or resumed (pauses).
        Raises if the connection is lost.
        """
        counts: Counter[str] = Counter()
        self._has_more = False
        async with self._connection.acquire() as connection:
            for name, step in self._steps.items():
                try:
                    await step(connection, counts)
                except (STATEMENT_REFUSED, UnseenPartition) as error:
                    if is_lost(connection):
                        raise
                    self._log_failure(name, error)
                else:
                    self._failures.pop(name, None)
        quiet = not any(counts.values()) and self._keys_after is None
        self._quiet_passes = min(self._quiet_passes + 1, self._quiet_doublings_max) if quiet else 0
        return counts

    async def pause_seconds(self) -> float:
        """Return the time until the next pass.

        It is 0 after a full pass, and random otherwise, so that processes do not run together.
        """
        if self._has_more:
            return 0.0
        return self._seconds * 2**self._quiet_passes * random.uniform(0.75, 1.25)  # noqa: S311 - jitter, no secret

    def _log_failure(self, step: str, error: Exception) -> None:
        """Log a step that failed: the first time, the second, the fourth, and so on."""
        self._failures[step] += 1
        failures = self._failures[step]
        if failures & (failures - 1) == 0:
            self._log.error(
                LogEvent.UPKEEP_STEP_FAILED,
                step=step,
                error=type(error).__name__,
                message=str(error),
                failures=failures,
            )

    async def _make_partitions(self, connection: Connection, _: Counter[str]) -> None:
        now = monotonic()
        if now >= self._partitions_at:
            await make_partitions(connection)
            self._partitions_at = now + PARTITIONS_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret

    async def _split_default(self, connection: Connection, counts: Counter[str]) -> None:
        """Make partitions for items that were emitted into the default one."""
        now = monotonic()
        if now < self._split_at:
            return
        made, refused = await split_default_partition(connection)
        counts["months_split"] += made
        self._split_failures = min(self._split_failures + 1, SPLIT_DOUBLINGS_MAX) if refused else 0
        if refused:
            pause = self._seconds * 2**self._split_failures
            self._split_at = now + pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret

    async def _prune(self, connection: Connection, _: Counter[str]) -> None:
        now = monotonic()
        if now >= self._prune_at:
            await prune_credits(connection)
            await prune_outcomes(connection)
            await prune_processes(connection, PROCESSES_MAX)
            await forget_sessions(connection, SESSIONS_MAX)
            self._prune_at = now + PRUNE_SECONDS

    def _deleting(self, name: str, delete: Delete, keep: int) -> UpkeepStep:
        """Return a step that deletes what is older than `keep` days or hours, a batch a pass."""
        next_at = float("-inf")

        async def step(connection: Connection, counts: Counter[str]) -> None:
            nonlocal next_at
            if (now := monotonic()) < next_at:
                return
            deleted = await delete(connection, keep, DELETED_MAX)
            counts[name] += deleted
            if deleted < DELETED_MAX:
                next_at = now + PRUNE_SECONDS

        return step

    async def _release_dead(self, connection: Connection, _: Counter[str]) -> None:
        """Let the next steps reap the runs and claims of processes that were killed."""
        if dead := await watch_locks(connection):
            runs = await end_leases(connection, dead, self._limit)
            claims = await end_deadlines(connection, dead, self._limit)
            if runs or claims:
                self._log.warning(
                    LogEvent.PROCESS_LOST, processes=dead[:DEAD_SHOWN], runs=runs, claims=claims
                )

    async def _reap_runs(self, connection: Connection, counts: Counter[str]) -> None:
        runs = await reap_runs(connection, self._limit, self._actor_no)
        counts["reaped_runs"] += runs.runs
        self._has_more |= runs.runs == self._limit
        if runs.runs:
            self._log.warning(
                LogEvent.RUN_REAPED,
                runs=runs.runs,
                retried=runs.retried,
                released=runs.released,
                parked=runs.parked,
            )

    async def _reap_claims(self, connection: Connection, counts: Counter[str]) -> None:
        claims = await reap_claims(connection, self._limit, self._actor_no)
        counts["reaped_claims"] += claims.released + claims.parked
        self._has_more |= claims.claims == self._limit
        if claims.claims:
            self._log.warning(
                LogEvent.CLAIM_REAPED,
                claims=claims.claims,
                released=claims.released,
                parked=claims.parked,
            )

    async def _apply_withdrawals(self, connection: Connection, counts: Counter[str]) -> None:
        counts["withdrawn"] += await apply_withdrawals(connection, self._limit)

    async def _reapply_pauses(self, connection: Connection, counts: Counter[str]) -> None:
        """End the pauses whose end has come, then pause exactly what those in force cover."""
        for pause in await end_pauses(connection, PAUSES_MAX):
            scope = {name: pause[name] for name in ("tenant", "kind", "lane")}
            self._log.info(LogEvent.PAUSE_ENDED, **scope, until=pause["paused_until"].isoformat())
        counts["pauses"] += await reapply_pauses(connection)

    async def _advance_operations(self, connection: Connection, counts: Counter[str]) -> None:
        """Move items of operations, a slice of each in turn: one that fails delays no other."""
        for _ in range(OPERATION_SLICES_MAX):
            found = await find_open_operation(connection, self._operation_after)
            if found is None:
                return
            self._operation_after = found
            progress = await advance_operation(connection, found)
            if progress is None:
                continue
            counts["operation_slices"] += 1
            self._has_more = True
            if progress.is_ended:
                self._log.info(
                    LogEvent.OPERATION_FINISHED,
                    operation_no=progress.operation_no,
                    verb=progress.verb,
                    matched=progress.matched,
                    done=progress.done,
                    requested=progress.requested,
                )

    async def _free_ended_keys(self, connection: Connection, counts: Counter[str]) -> None:
        """Free keys of ended and missing items; the next step wakes items that wait for them."""
        freed, self._held_after = await free_ended_keys(connection, self._held_after, HELD_KEYS_MAX)
        if freed:
            counts["freed"] += freed
            self._log.error(LogEvent.KEY_FREED, keys=freed)

    async def _release_keys(self, connection: Connection, counts: Counter[str]) -> None:
        empty = 0
        for _ in range(KEY_BATCHES_MAX):
            released = await release_keys(connection, self._keys_after, KEYS_MAX)
            self._keys_after = released.reached
            counts["unblocked"] += released.unblocked
            empty += not released.unblocked
            if released.reached is None or empty == EMPTY_KEY_BATCHES_MAX:
                break

    async def _update_circuits(self, connection: Connection, counts: Counter[str]) -> None:
        for change in await update_circuits(connection):
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
                LogEvent.FAILURE_STREAK_FLAGGED,
                tenant=streak.tenant,
                kind=streak.kind,
                business_key=streak.business_key,
                failures=streak.failures,
            )
