"""Keys by commands, used by HTTP in a process of its own, whose log has no secret."""

import aiohttp

from tests.forks import ForkServer
from tests.logins import with_login
from tests.service.commands import address_of, key_command, start
from tests.service.test_requests import NO_ITEM


async def test_keys_that_commands_make_rotate_and_revoke_are_those_that_http_takes(
    fork_server: ForkServer, database: str
) -> None:
    serving = await start(fork_server, with_login(database, "service"), "serve", "--port", "0")
    url, log = await address_of(serving)
    try:
        async with aiohttp.ClientSession() as session:

            async def status_of(key: str) -> int:
                given = {"Authorization": f"Bearer {key}"}
                async with session.get(url + NO_ITEM, headers=given) as reply:
                    return reply.status

            scope = ("--scope", "read", "--tenant", "acme")
            [first] = await key_command(fork_server, database, "create", "billing", *scope)
            assert await status_of(first["key"]) == 404
            [second] = await key_command(
                fork_server, database, "rotate", first["prefix"], "--overlap-hours", "0"
            )
            statuses = [await status_of(each["key"]) for each in (first, second)]
            assert statuses == [401, 404]
            rows = await key_command(fork_server, database, "list", "--name", "billing")
            assert [(row["prefix"], row["is_valid"], row["created_by"]) for row in rows] == [
                (second["prefix"], True, "person:jane"),
                (first["prefix"], False, "person:jane"),
            ]
            assert all(row["last_used_at"] for row in rows)
            await key_command(fork_server, database, "revoke", second["prefix"])
            assert await status_of(second["key"]) == 401
    finally:
        serving.terminate()
        rest = await serving.communicate()
    log += rest.decode()
    assert "process.stopped" in log
    for made in (first, second):
        assert made["key"].removeprefix(f"due_{made['prefix']}_") not in log
