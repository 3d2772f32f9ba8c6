"""`dueledger health` says under the login of a process whether it lives, as a probe must know."""

from contextlib import AsyncExitStack
from urllib.parse import urlsplit, urlunsplit

from dueledger.ledger.presence import Presence
from dueledger.ledger.store import Connection
from dueledger.ledger.store.processes import ProcessRole
from tests.cli.conftest import Command
from tests.logins import with_login

NAME = "relay:host:1:abcd"
RELAY = ("health", "relay")
UNREACHABLE = "postgresql://postgres@127.0.0.1:1/none"
SILENT = "update ledger.process set seen_at = seen_at - interval '20 seconds'"
KILL = """
    select count(pg_terminate_backend(a.pid, 5000)) from pg_stat_activity a
    where a.datname = current_database() and a.application_name = $1
"""


def without_login(dsn: str) -> dict[str, str]:
    """Return variables as the chart sets them: the login apart from the address."""
    parts = urlsplit(dsn)
    address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return {
        "DUELEDGER_DSN": address,
        "PGUSER": parts.username or "",
        "PGPASSWORD": parts.password or "",
    }


async def test_the_login_of_each_process_may_ask_for_its_health(
    dueledger_on: Command, database: str
) -> None:
    async with AsyncExitStack() as stack:
        for role in ProcessRole:
            presence = Presence(with_login(database, role), f"{role}:host:1:abcd", role)
            await presence.open()
            stack.push_async_callback(presence.close)
            ran = dueledger_on("health", role, **without_login(with_login(database, role)))
            assert (ran.code, ran.out) == (0, "ok\n"), (role, ran.err)


async def test_a_probe_passes_while_its_process_takes_work_and_a_live_one_until_it_hangs(
    dueledger_on: Command, database: str, connection: Connection
) -> None:
    def probe() -> tuple[int, str, int]:
        ready, live = dueledger_on(*RELAY), dueledger_on(*RELAY, "--live")
        assert (live.out == "ok\n") is (live.code == 0)
        return ready.code, ready.out, live.code

    before = probe()
    presence = Presence(database, NAME, ProcessRole.RELAY)
    await presence.open()
    started = probe()
    presence.report_failure(OSError("the outbox is away"))
    await presence.tick()
    failing = probe()
    presence.report_success()
    await presence.tick()
    await connection.execute(SILENT)
    hanging = probe()
    await presence.tick()
    renewed = probe()
    await connection.fetchval(KILL, NAME)
    killed = probe()
    await presence.close()
    await connection.execute("update ledger.process set ended_at = seen_at")
    stopped = probe()
    assert (before[0], before[2]) == (stopped[0], stopped[2]) == (4, 0)
    assert started == renewed == (0, "ok\n", 0)
    assert (failing[0], failing[2]) == (4, 0)
    assert "OSError: the outbox is away" in failing[1]
    assert (hanging[0], hanging[2]) == (4, 4)
    assert (killed[0], killed[2]) == (4, 0)
    assert "gone" in killed[1]


def test_while_postgres_is_away_a_process_is_not_ready_and_is_not_restarted(
    dueledger: Command,
) -> None:
    where = {"DUELEDGER_DSN": UNREACHABLE}
    assert dueledger(*RELAY, **where).code == 3
    live = dueledger(*RELAY, "--live", "--json", **where)
    assert (live.code, live.document["healthy"]) == (0, True)
    assert dueledger("health", "scheduler", **where).code == 2
