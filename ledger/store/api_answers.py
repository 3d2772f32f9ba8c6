"""Answers to requests with an Idempotency-Key, which a repetition gets again."""

from typing import NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class BegunAnswer(NamedTuple):
    """The answer to a request; without a `status` it is to be given in this transaction."""

    request_digest: bytes
    status: int | None
    body: str | None
    location: str | None


async def begin_answer(
    connection: Connection, actor_no: int, idempotency_key: str, request_digest: bytes
) -> BegunAnswer:
    """Begin the answer to a request of an actor, or return the one that its key has.

    Waits while another transaction makes it.
    """
    row = await connection.fetchrow(
        statement("begin_answer"), actor_no, idempotency_key, request_digest
    )
    assert row is not None  # noqa: S101 - it inserts or finds one
    return BegunAnswer(**row)


async def record_answer(
    connection: Connection,
    actor_no: int,
    idempotency_key: str,
    status: int,
    body: str,
    *,
    location: str | None = None,
) -> None:
    """Record the answer that was begun in this transaction."""
    await connection.execute(
        statement("record_answer"), actor_no, idempotency_key, status, body, location
    )


async def forget_answers(connection: Connection, keep_hours: int, limit: int) -> int:
    """Forget the oldest answers that were given that long ago; return how many."""
    return await connection.fetchval(statement("forget_answers"), keep_hours, limit)
