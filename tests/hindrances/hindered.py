"""An item that is hindered, and what frees it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.states import State

from .conftest import Installation

SECOND: Final = datetime(2026, 1, 2, tzinfo=UTC)
LATER: Final = datetime(2199, 1, 1, tzinfo=UTC)
LATE_RETRIES: Final = {"backoff_base_seconds": 1e6, "backoff_cap_seconds": 1e6}
HANDED_OUT: Final = (State.CLAIMED, State.RUNNING, State.COMPLETED)


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Hindered:
    """An item that is hindered. `mend` does what its remedy asks for beside commands.

    `leads_to` are the states to which the remedy leads; none: it only explains. `ended` is called
    after that, so that the item completes all the same. The sentence has the words of `says`.
    """

    item: UUID
    mend: Callable[[], Awaitable[object]] = _nothing
    leads_to: tuple[State, ...] = (State.COMPLETED,)
    ended: Callable[[], Awaitable[object]] = _nothing
    says: tuple[str, ...] = ()


Arrange = Callable[[Installation], Awaitable[Hindered]]
Cases = tuple[tuple[Hindrance, Arrange], ...]
