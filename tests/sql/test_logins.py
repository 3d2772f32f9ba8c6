"""Who may name whom in the journal, and which tenants a login may emit for."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.statements import statement, statement_paths
from tests.logins import with_login

Login = Callable[[str], Awaitable[Connection]]

EMIT = "select created from ledger.emit($1, 'Renewal', 'key', '2027-03-01', '2027-03-01T00:00Z')"
REGISTER = "select ledger.register_actor($1, $2)"
PROCESSES = (
    *("allocator", "direct_worker", "intake", "materialiser"),
    *("outcome_intake", "reconciler", "worker"),
)


@pytest.fixture
async def log_in(database: str) -> AsyncGenerator[Login]:
    """Connect under one of the logins."""
    async with AsyncExitStack() as stack:

        async def open_connection(name: str) -> Connection:
            connection = await connect(with_login(database, name), application_name="test")
            stack.push_async_callback(connection.close)
            return connection

        yield open_connection


@pytest.mark.parametrize("login", PROCESSES)
async def test_no_process_names_a_person_or_a_service(log_in: Login, login: str) -> None:
    process = await log_in(login)
    assert await process.fetchval(REGISTER, f"{login}:here", "worker")
    for name, kind in (
        ("person:cfo", "person"),
        ("person:cfo", "worker"),
        ("Person:cfo", "worker"),
        ("cfo", "person"),
        ("service:billing", "service"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=f"may not write as '{name}'"):
            await process.fetchval(REGISTER, name, kind)
    assert not await process.fetchval(
        "select has_table_privilege('ledger.actor', 'insert, update, delete')"
    )


@pytest.mark.parametrize("login", ["approver", "operator"])
async def test_an_operator_and_an_approver_are_named_as_persons(log_in: Login, login: str) -> None:
    person = await log_in(login)
    number = await person.fetchval(REGISTER, "person:cfo", "person")
    assert number == await person.fetchval(REGISTER, "person:cfo", "person")


async def test_after_set_role_the_chosen_role_decides_who_is_named(connection: Connection) -> None:
    assert await connection.fetchval(REGISTER, "person:cfo", "person")
    await connection.execute("set role ledger_worker")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="ledger_worker may not write as"):
        await connection.fetchval(REGISTER, "person:cfo", "person")
    await connection.execute("set role ledger_operator")
    assert await connection.fetchval(REGISTER, "person:cfo", "person")


@pytest.mark.parametrize("role", ["ledger_worker", "ledger_operator"])
async def test_no_role_changes_or_deletes_journal_rows_events_items_or_findings(
    connection: Connection, role: str
) -> None:
    await connection.execute(f"set role {role}")
    for command in (
        "update ledger.transition set event = 5",
        "delete from ledger.transition",
        "update ledger.due_item set payload = '{}'",
        "delete from ledger.due_item",
        "update ledger.event set matched = true",
        "delete from ledger.event",
        "update ledger.finding set sentence = ''",
        "delete from ledger.finding",
        "select setval('ledger.fence', 1)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(command)


async def test_a_worker_deletes_no_pending_row(log_in: Login) -> None:
    worker = await log_in("worker")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await worker.execute("delete from ledger.pending")


async def test_an_emitter_emits_for_the_tenants_to_which_its_login_is_bound(
    log_in: Login, connection: Connection
) -> None:
    emitter = await log_in("emitter")
    assert await emitter.fetchval(EMIT, "acme")
    await _bind(connection, "test_emitter", "umbra")
    await _bind(connection, "test_other", "acme")
    assert await emitter.fetchval(EMIT, "umbra")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not emit for tenant 'acme'"):
        await emitter.fetchval(EMIT, "acme")
    assert (
        await connection.fetchval(
            "select string_agg(distinct a.name, ',') from ledger.due_item i"
            " join ledger.actor a on a.actor_no = i.actor_no"
        )
        == "service:test_emitter"
    )


async def test_a_binding_holds_after_set_role(log_in: Login, connection: Connection) -> None:
    emitter = await log_in("emitter")
    await _bind(connection, "test_emitter", "umbra")
    await emitter.execute("set role ledger_emitter")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not emit for tenant 'acme'"):
        await emitter.fetchval(EMIT, "acme")


async def _bind(connection: Connection, login: str, tenant: str) -> None:
    await connection.execute(
        "insert into ledger.actor (name, kind, tenants) values ($1, 'service', array[$2])"
        " on conflict (name) do update set tenants = excluded.tenants",
        f"service:{login}",
        tenant,
    )


async def test_nobody_who_can_only_connect_holds_up_a_lock_of_the_ledger(
    connection: Connection, log_in: Login
) -> None:
    code = "select proname, prosrc from pg_proc where pronamespace = 'ledger'::regnamespace"
    texts = [row["prosrc"] for row in await connection.fetch(code)]
    texts += [path.read_text() for path in statement_paths()]
    tried = "pg_try_advisory_lock"  # by which a process shows that it lives: nobody waits for one
    assert not [text for text in texts if "advisory" in text.replace(tried, "")]
    assert [text for text in texts if tried in text] == [statement("register_process")]
    stranger = await log_in("emitter")
    for command in (
        "select from ledger.lock_row for update",
        "select ledger.lock_name('definition', 'acme')",
        "select ledger.lock_rows('business_key', array['1'])",
        "select * from ledger.try_lock_rows('reap_runs', array[''])",
        "lock table ledger_migration.applied in access share mode",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with stranger.transaction():
                await stranger.execute(command)


async def test_each_lock_of_a_statement_is_held_until_the_end_of_its_transaction(
    connection: Connection, database: str
) -> None:
    other = await connect(database, application_name="other")
    await other.execute("set lock_timeout = '20ms'")
    waits = (
        ("lock_definition", ("acme", "renewal")),
        ("lock_calendar", ("acme", "us")),
        ("lock_tz_changes", ()),
        ("lock_business_keys", ([3, 1, 2],)),
    )
    async with connection.transaction():
        for name, arguments in waits:
            await connection.fetch(statement(name), *arguments)
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.fetch(statement(name), *arguments)
        await other.fetch(statement("lock_definition"), "acme", "another")
    for name, arguments in waits:
        await other.fetch(statement(name), *arguments)
    await other.close()
