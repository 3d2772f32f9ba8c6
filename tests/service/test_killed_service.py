"""A service that dies between a claim and its answer: nobody has the items, and they come back."""

import signal
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp
import pytest
from pydantic import SecretStr

from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.store import Connection
from dueledger.service import ServiceSettings, open_service
from tests.forks import ForkServer
from tests.logins import with_login
from tests.service.commands import address_of, key_command, start

pytestmark = pytest.mark.long

LEFT = "select count(*) from pg_stat_activity where application_name like 'api:%'"
EMIT = "select id from ledger.emit('acme', 'Pulled', 'P-1', '2027-03-01', now() - interval '1 min')"


async def test_g5_what_a_killed_service_had_claimed_is_pulled_again_after_its_lease(
    fork_server: ForkServer, database: str, connection: Connection
) -> None:
    await connection.execute(EMIT)
    dsn = with_login(database, "service_alone")
    [key] = await key_command(
        fork_server, database, "create", "puller", "--scope", "work", "--tenant", "acme"
    )
    wanted = {"kinds": ["Pulled"], "wait_seconds": 60, "lease_seconds": 1}
    given = {"Authorization": f"Bearer {key['key']}"}

    killed = await start(
        fork_server, dsn, "serve", "--port", "0", **{CRASH_VARIABLE: "pull.claimed"}
    )
    url, _ = await address_of(killed)
    async with aiohttp.ClientSession(headers=given) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{url}/v1/claims", json=wanted)
        await killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        assert await connection.fetchval("select count(*) from ledger.run") == 1

        serving = await start(fork_server, dsn, "serve", "--port", "0")
        url, _ = await address_of(serving)
        try:
            async with session.post(f"{url}/v1/claims", json=wanted) as reply:
                [item] = (await reply.json())["items"]
        finally:
            serving.terminate()
            await serving.communicate()
    assert (item["business_key"], item["attempt"]) == ("P-1", 1)
    assert await connection.fetchval("select count(*) from ledger.run") == 2


class Sent(NamedTuple):
    """A request that changes something, and how often the ledger has what it changes."""

    path: str
    body: dict[str, Any]
    changed: str


ITEM = {
    "tenant": "acme",
    "kind": "Pulled",
    "effective_date": "2027-03-01",
    "due_at": "2026-01-01T09:00:00Z",
}
SENT = {
    "emission": Sent(
        "/v1/items",
        {"items": [ITEM | {"business_key": f"B-{number}"} for number in range(2_000)]},
        "select count(*) / 2000.0 from ledger.due_item where business_key like 'B-%'",
    ),
    "operation": Sent(
        "/v1/tenants/acme/operations",
        {"verb": "cancel", "reason": "it was sold"},
        "select count(*) from ledger.operation",
    ),
    "rotation": Sent(
        "/v1/keys/{prefix}/rotate",
        {"overlap_hours": 1},
        "select count(*) - 1 from ledger.api_key",
    ),
}
AT = {"request.answered": 0, "request.committed": 1}
"""Where the service is killed, and how often its ledger then has what was asked for."""


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("emission", "request.answered"),
        ("operation", "request.committed"),
        ("rotation", "request.committed"),
        pytest.param("emission", "request.committed", marks=pytest.mark.full),
        pytest.param("operation", "request.answered", marks=pytest.mark.full),
        pytest.param("rotation", "request.answered", marks=pytest.mark.full),
    ],
)
async def test_g7_a_request_of_a_killed_service_is_done_once_however_often_it_is_sent(
    fork_server: ForkServer, database: str, connection: Connection, name: str, at: str
) -> None:
    await connection.execute(EMIT)
    dsn = with_login(database, "service")
    scopes = [each for scope in ("emit", "operate", "admin") for each in ("--scope", scope)]
    [key] = await key_command(fork_server, database, "create", "maker", *scopes, "--tenant", "acme")
    sent = SENT[name]
    path = sent.path.format(prefix=key["prefix"])
    given = {"Authorization": f"Bearer {key['key']}", "Idempotency-Key": uuid4().hex}

    killed = await start(fork_server, dsn, "serve", "--port", "0", **{CRASH_VARIABLE: at})
    url, _ = await address_of(killed)
    async with aiohttp.ClientSession(headers=given) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(url + path, json=sent.body)
        await killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        while await connection.fetchval(LEFT):  # the server has not heard of it yet
            pass
        assert await connection.fetchval(sent.changed) == AT[at]

        settings = ServiceSettings(dsn=SecretStr(dsn), service_port=0)
        async with open_service(settings) as service:
            answered: dict[str, Any] = {}
            for _ in range(2):
                async with session.post(service.url + path, json=sent.body) as reply:
                    assert reply.status < 300, await reply.text()
                    answered = await reply.json()
                assert await connection.fetchval(sent.changed) == 1
            if name == "rotation":
                assert answered["key"] is None, "a secret is shown once"
                again = given | {"Idempotency-Key": uuid4().hex}
                async with session.post(service.url + path, json=sent.body, headers=again) as reply:
                    assert (await reply.json())["key"], "the old key has its overlap for that"
