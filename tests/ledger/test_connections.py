"""Connections that one user keeps."""

import pytest

from dueledger.ledger.store import Pool, ReconnectingConnection


class Trouble(Exception):
    """The error of a block."""


async def backend_of(kept: ReconnectingConnection) -> int:
    async with kept.acquire() as connection:
        return int(await connection.fetchval("select pg_backend_pid()"))


async def test_a_kept_connection_is_the_same_until_something_goes_wrong(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    assert await backend_of(kept) == first
    idle = pool.get_idle_size()
    with pytest.raises(Trouble):
        async with kept.acquire():
            raise Trouble
    assert pool.get_idle_size() == idle + 1


async def test_a_kept_connection_that_was_cut_off_is_followed_by_another(pool: Pool) -> None:
    kept = ReconnectingConnection(pool)
    first = await backend_of(kept)
    async with pool.acquire() as other:
        assert await other.fetchval("select pg_terminate_backend($1, 5000)", first)
        # The server notifies the cut connection before it responds to another one.
        await other.fetchval("select 1")
    assert await backend_of(kept) != first
