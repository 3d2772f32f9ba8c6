"""The buffer of finished sends that are not written to the ledger yet."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, final

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store import Pool
from dueledger.ledger.store.claims import mark_published, release_claims
from dueledger.ledger.store.few_claims import find_unanswered_claims

BATCH_WAIT_SECONDS: Final = 0.1
"""Marks of this long are written together: one commit for several small claims."""
URGENT_WAIT_SECONDS: Final = 0.02
"""Releases wait so long, and marks that start the run of a claim that is settled by topic."""


@final
class DeliveryBuffer:
    """Acknowledged claims to mark, and claims to release that were not sent.

    A lost connection loses none of them. Writing one twice is harmless: a marked claim is not
    marked again, and a closed claim is not released.
    """

    def __init__(
        self, pool: Pool, allocator_no: int, on_written: Callable[[], None] = lambda: None
    ) -> None:
        """`on_written` is called when a background write has ended."""
        self._pool = pool
        self._on_written = on_written
        self._allocator_no = allocator_no
        self._log = get_logger("allocator")
        self._offsets: dict[ClaimId, int] = {}
        self._items: dict[ClaimId, int] = {}
        self._unsent: set[ClaimId] = set()
        self._unanswered: set[str] = set()
        self._is_urgent, self._is_awaited = asyncio.Event(), asyncio.Event()
        self._gathers = True
        self._writing: asyncio.Task[None] | None = None

    def add_acknowledged(
        self, claim_id: ClaimId, base_offset: int, items: int, *, starts_run: bool = False
    ) -> None:
        """Add a claim of `items` items that Kafka acknowledged. Its mark may start its run."""
        self._offsets[claim_id] = base_offset
        self._items[claim_id] = items
        if starts_run:
            self._is_urgent.set()

    def gather_none(self) -> None:
        """Write from now on without a wait for more, as a process does that makes one pass."""
        self._gathers = False

    def add_unsent(self, claim_ids: Iterable[ClaimId]) -> None:
        """Add claims that were certainly not sent."""
        self._unsent.update(claim_ids)
        if self._unsent:
            self._is_urgent.set()

    def add_unanswered(self, secret: str) -> None:
        """Add the secret of a small claim that may have been made: its answer was lost.

        Claims that it made were certainly not sent.
        """
        self._unanswered.add(secret)
        self._is_urgent.set()

    def write_in_background(self, counts: Counter[str]) -> None:
        """Write the buffer in the background, after a short wait for more."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_batched(counts))
            self._writing.add_done_callback(lambda _: self._on_written())

    async def wait_for_background(self) -> None:
        """Wait for the background write, which waits for no more. Raises its error."""
        if self._writing is not None:
            self._is_awaited.set()
            self._is_urgent.set()
            await self._writing

    @property
    def writing(self) -> set[asyncio.Task[None]]:
        """The background write, while there is one."""
        return set() if self._writing is None or self._writing.done() else {self._writing}

    async def write(self, counts: Counter[str]) -> None:
        """Write the buffer. Raises on a lost connection, and keeps what was not written."""
        if self._unanswered:
            await self._find_unanswered()
        if self._offsets:
            await self._write_marks(counts)
        if self._unsent:
            await self._write_releases(counts)

    async def _write_batched(self, counts: Counter[str]) -> None:
        if self._gathers:
            await wait_for_event(self._is_awaited, URGENT_WAIT_SECONDS)
            await wait_for_event(self._is_urgent, BATCH_WAIT_SECONDS - URGENT_WAIT_SECONDS)
        self._is_urgent.clear()
        self._is_awaited.clear()
        try:
            while self._offsets or self._unsent or self._unanswered:
                await self.write(counts)
        except Unavailable as error:
            # The next pass writes them first. If this process dies, the claims' deadlines decide.
            self._log.warning(LogEvent.CLAIM_MARK_POSTPONED, error=type(error).__name__)

    async def _write_marks(self, counts: Counter[str]) -> None:
        offsets, self._offsets = self._offsets, {}
        try:
            async with self._pool.acquire() as connection:
                in_force = await mark_published(connection, [*offsets], [*offsets.values()])
        except BaseException:
            self._offsets = offsets | self._offsets
            raise
        crash_point("allocator.marked")
        items = {claim_id.fence: self._items.pop(claim_id) for claim_id in offsets}
        counts["published"] += sum(items[fence] for fence in in_force)
        late = sorted(items.keys() - in_force)
        if late:
            # Their records are in the topic under a closed fence: a start of them is refused.
            self._log.warning(LogEvent.CLAIM_EXPIRED, fences=late)

    async def _find_unanswered(self) -> None:
        """Find out which claims were made by statements whose answer was lost."""
        secrets = sorted(self._unanswered)
        async with self._pool.acquire() as connection:
            self._unsent.update(await find_unanswered_claims(connection, secrets))
        self._unanswered.difference_update(secrets)

    async def _write_releases(self, counts: Counter[str]) -> None:
        unsent, self._unsent = self._unsent, set()
        try:
            async with self._pool.acquire() as connection:
                counts["released"] += await release_claims(
                    connection, sorted(unsent), self._allocator_no
                )
        except BaseException:
            self._unsent |= unsent
            raise
