"""A service that dies between a claim and its answer: nobody has the items, and they come back."""

import signal

import aiohttp
import pytest

from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.store import Connection
from tests.logins import with_login
from tests.service.commands import address_of, key_command, start

EMIT = "select id from ledger.emit('acme', 'Pulled', 'P-1', '2027-03-01', now() - interval '1 min')"


async def test_g5_what_a_killed_service_had_claimed_is_pulled_again_after_its_lease(
    database: str, connection: Connection
) -> None:
    await connection.execute(EMIT)
    dsn = with_login(database, "service_alone")
    [key] = await key_command(database, "create", "puller", "--scope", "work", "--tenant", "acme")
    wanted = {"kinds": ["Pulled"], "wait_seconds": 60, "lease_seconds": 1}
    given = {"Authorization": f"Bearer {key['key']}"}

    killed = await start(dsn, "serve", "--port", "0", **{CRASH_VARIABLE: "pull.claimed"})
    url, _ = await address_of(killed)
    async with aiohttp.ClientSession(headers=given) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/v1/claims", json=wanted)
        await killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        assert await connection.fetchval("select count(*) from ledger.run") == 1

        serving = await start(dsn, "serve", "--port", "0")
        url, _ = await address_of(serving)
        try:
            async with session.post(f"{url}/v1/claims", json=wanted) as reply:
                [item] = (await reply.json())["items"]
        finally:
            serving.terminate()
            await serving.communicate()
    assert (item["business_key"], item["attempt"]) == ("P-1", 1)
    assert await connection.fetchval("select count(*) from ledger.run") == 2
