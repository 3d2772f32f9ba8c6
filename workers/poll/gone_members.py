"""Lets killed workers leave the group, so that their partitions do not wait for their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.kafka.group_members import end_members
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store.processes import list_gone_workers

if TYPE_CHECKING:
    from dueledger.ledger.store import Pool
    from dueledger.workers.settings import WorkerSettings

CHECK_SECONDS: Final = 1.0
WORKERS_MAX: Final = 100

log = get_logger("worker")


@final
class GoneMembers:
    """Ends the membership of workers that are gone by their lock in the ledger, once each.

    It is safe at any time: the group decides who reads a partition, and the fence who may work. A
    worker that lives and lost its connection to Postgres joins anew.
    """

    def __init__(self, pool: Pool, settings: WorkerSettings, *, name: str) -> None:
        self._pool = pool
        self._settings = settings
        self._name = name
        self._ended: frozenset[str] = frozenset()

    async def tick(self) -> dict[str, int]:
        """End the memberships of workers that are gone since the last call; return how many."""
        async with self._pool.acquire() as connection:
            gone = frozenset(await list_gone_workers(connection, WORKERS_MAX)) - {self._name}
        members = 0
        if fresh := gone - self._ended:
            members = await end_members(
                self._settings, self._settings.worker_group_id, fresh, client=self._name
            )
        self._ended = gone
        if members:
            log.warning(LogEvent.MEMBER_ENDED, workers=sorted(fresh), members=members)
        return {}
