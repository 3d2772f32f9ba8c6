"""How many items may be claimed for a topic: what its workers want waiting, less what waits."""

from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic
from typing import Final, final

from dueledger.allocator.choose.shares import FlowLoad
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection
from dueledger.ledger.store.flow_limits import TopicCredit, read_credits

READ_SECONDS_MIN: Final = 0.005
READ_SECONDS_MAX: Final = 0.25
READ_TIME_DIVISOR: Final = 20
"""Reading may use a twentieth of the time."""
LIGHT_RESERVE_DIVISOR: Final = 10
"""A tenth of a topic's credit is kept for flows that have little: no flood takes it from them."""
HEAVY_CREDIT_DIVISOR: Final = 8
"""Heavy flows wait until an eighth of the credit is free, or their claims would be crumbs."""
MISSING_SECONDS: Final = 60.0


@dataclass(slots=True)
class _CreditAccount:
    granted: int
    outstanding: int
    spent: int = 0  # since it was read
    reserved: int = 0  # by claims that are being made

    @property
    def free(self) -> int:
        return self.granted - self.outstanding - self.spent - self.reserved


@final
class CreditAccounts:
    """Accounts of topics, read now and then, with what this allocator has claimed since.

    Two allocators that read the same credit may each claim it, once; the next reading shows it.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _CreditAccount] = {}
        self._warned_at: dict[str, float] = {}
        self._log = get_logger("allocator")
        self._reading = False
        self._read_at = float("-inf")
        self._pause = READ_SECONDS_MIN

    def available(self, topic: str, load: FlowLoad) -> int:
        """Say how many items may be claimed for flows of this load; 0 where nobody grants any."""
        account = self._accounts.get(topic)
        if account is None:
            return 0
        if load is FlowLoad.LIGHT:
            return account.free
        free = account.free - account.granted // LIGHT_RESERVE_DIVISOR
        return free if free >= account.granted // HEAVY_CREDIT_DIVISOR else 0

    def reserve(self, topic: str, items: int) -> None:
        """Hold credit back for a claim that is being made of a topic that has room."""
        self._accounts[topic].reserved += items

    def spend(self, topic: str, reserved: int, claimed: int) -> None:
        """Turn what was held back into what was claimed."""
        account = self._accounts[topic]
        account.reserved -= reserved
        account.spent += claimed

    def needs_read(self, topics: Collection[str], *, now: float) -> bool:
        """Tell whether it is time to read: a topic is new, or little is left of its credit."""
        return not self._reading and now >= self.next_read_at(topics)

    def next_read_at(self, topics: Collection[str]) -> float:
        """Say when to read next: at once for a new topic, soon where little is left."""
        if any(topic not in self._accounts for topic in topics):
            return float("-inf")
        low = any(
            4 * account.free < account.granted
            for account in map(self._accounts.__getitem__, topics)
        )
        return self._read_at + (self._pause if low else READ_SECONDS_MAX)

    def expire(self) -> None:
        """Read again before the next claim, however recent the last reading is."""
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
            self._update_account(credit)

    def _update_account(self, credit: TopicCredit) -> None:
        account = self._accounts.get(credit.topic)
        if account is None:
            self._accounts[credit.topic] = _CreditAccount(credit.granted, credit.outstanding)
        else:
            # What was claimed while it was read may be counted twice, once.
            account.granted, account.outstanding = credit.granted, credit.outstanding
        if credit.workers:
            self._warned_at.pop(credit.topic, None)
        elif self._read_at >= self._warned_at.get(credit.topic, float("-inf")) + MISSING_SECONDS:
            self._warned_at[credit.topic] = self._read_at
            self._log.warning(LogEvent.CREDIT_NOT_GRANTED, topic=credit.topic)
