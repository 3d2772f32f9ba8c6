"""Credit accounts: how many items may be claimed for a topic."""

from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic
from typing import Final, final

from dueledger.ledger.flows.shares import FlowLoad
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection
from dueledger.ledger.store.credits import TopicCredit, read_credits

READ_SECONDS_MIN: Final = 0.005
READ_SECONDS_MAX: Final = 0.25
READ_TIME_DIVISOR: Final = 20
"""Reading credit may use a twentieth of the time."""
LIGHT_RESERVE_DIVISOR: Final = 10
"""A tenth of a topic's credit is reserved for light flows."""
HEAVY_CREDIT_DIVISOR: Final = 8
"""Heavy flows wait until an eighth of the credit is free; otherwise their claims were too small."""
MISSING_SECONDS: Final = 60.0


@dataclass(slots=True)
class _CreditAccount:
    granted: int
    outstanding: int
    ends_at: float
    """When the first of the grants ends: from then on it has to be read again."""
    spent: int = 0  # since it was read
    reserved: int = 0  # by claims that are being made

    @property
    def free(self) -> int:
        return self.granted - self.outstanding - self.spent - self.reserved


@final
class CreditAccounts:
    """Credit by topic until a grant ends: as last read, less what this allocator claimed since.

    Two allocators that read the same credit may both spend it, once; the next read shows that.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _CreditAccount] = {}
        self._warned_at: dict[str, float] = {}
        self._log = get_logger("allocator")
        self._reading = False
        self._read_at = float("-inf")
        self._pause = READ_SECONDS_MIN

    def available(self, topic: str, load: FlowLoad) -> int:
        """Return how many items may be claimed for flows of this load; 0 if no worker grants.

        0 also once a grant has ended since credit was read: its worker may be gone.
        """
        account = self._accounts.get(topic)
        if account is None or monotonic() >= account.ends_at:
            return 0
        if load is FlowLoad.LIGHT:
            return account.free
        free = account.free - account.granted // LIGHT_RESERVE_DIVISOR
        return free if free >= account.granted // HEAVY_CREDIT_DIVISOR else 0

    def reserve(self, topic: str, items: int) -> None:
        """Reserve credit for a claim that is being made."""
        self._accounts[topic].reserved += items

    def spend(self, topic: str, reserved: int, claimed: int) -> None:
        """Replace a reservation by the number of items claimed."""
        account = self._accounts[topic]
        account.reserved -= reserved
        account.spent += claimed

    def needs_read(self, topics: Collection[str], *, now: float) -> bool:
        """Return whether credit is to be read now, for these topics."""
        return not self._reading and now >= self.next_read_at(topics)

    def next_read_at(self, topics: Collection[str]) -> float:
        """Return when to read next: at once for a new topic, soon if little credit is left.

        No later than a grant ends.
        """
        if any(topic not in self._accounts for topic in topics):
            return float("-inf")
        accounts = [self._accounts[topic] for topic in topics]
        low = any(4 * account.free < account.granted for account in accounts)
        ends_at = min(account.ends_at for account in accounts)
        return min(self._read_at + (self._pause if low else READ_SECONDS_MAX), ends_at)

    def expire(self) -> None:
        """Read again before the next claim, even if credit was read a moment ago."""
        self._read_at = float("-inf")

    async def read(self, connection: Connection, topics: Collection[str]) -> None:
        """Read the credit of these topics."""
        self._reading = True
        try:
            began = monotonic()
            for account in self._accounts.values():
                account.spent, account.outstanding = 0, account.outstanding + account.spent
            found = await read_credits(connection, sorted(topics))
        finally:
            self._reading = False
        self._read_at = monotonic()
        pause = max(READ_SECONDS_MIN, READ_TIME_DIVISOR * (self._read_at - began))
        self._pause = min(READ_SECONDS_MAX, pause)
        for credit in found:
            self._update_account(credit, began)

    def _update_account(self, credit: TopicCredit, asked_at: float) -> None:
        ends_at = float("inf") if credit.seconds is None else asked_at + credit.seconds
        account = self._accounts.get(credit.topic)
        if account is None:
            self._accounts[credit.topic] = _CreditAccount(
                credit.granted, credit.outstanding, ends_at
            )
        else:
            # Items claimed during the read may be counted twice until the next read.
            account.granted, account.outstanding = credit.granted, credit.outstanding
            account.ends_at = ends_at
        if credit.workers:
            self._warned_at.pop(credit.topic, None)
        elif self._read_at >= self._warned_at.get(credit.topic, float("-inf")) + MISSING_SECONDS:
            self._warned_at[credit.topic] = self._read_at
            self._log.warning(LogEvent.CREDIT_NOT_GRANTED, topic=credit.topic)
