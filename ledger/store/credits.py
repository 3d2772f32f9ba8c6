"""Credits of workers: how many items of a topic they want waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class TopicCredit:
    """The credit of a topic: live workers, items they grant, and items already outstanding.

    The first of the grants ends in `seconds`, if it is not renewed; None: there is none.
    Suspects have no part in the credit: they wait for processes of their own.
    """

    topic: str
    workers: int
    granted: int
    seconds: float | None
    outstanding: int
    suspects: int


async def read_credits(connection: Connection, topics: Sequence[str]) -> list[TopicCredit]:
    """Read the credits and the outstanding items of topics, in input order."""
    return [TopicCredit(**row) for row in await connection.fetch(statement("read_credits"), topics)]


async def grant_credits(
    connection: Connection,
    worker_no: int,
    topics: Sequence[str],
    items: Sequence[int],
    seconds: float,
) -> None:
    """Grant a worker's credits for `seconds`; end its grants for other topics."""
    await connection.execute(statement("grant_credits"), worker_no, topics, items, seconds)


async def prune_credits(connection: Connection) -> None:
    """Delete grants that ended long ago."""
    await connection.execute(statement("prune_credits"))
