"""Numbers name their cell, and fences and run numbers never go back."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import pytest
from pydantic import SecretStr

from dueledger import Handlers
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.doctor import Health, run_checks
from dueledger.ledger.errors import Conflict
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.cells import assign_cell, lift_sequences
from dueledger.ledger.store.claims import next_fences
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.migrations import migrate
from dueledger.ledger.store.statements import statement
from dueledger.workers.connections import open_connections
from dueledger.workers.outcomes import OutcomeIntakeSettings, open_outcome_intake
from dueledger.workers.process import DIRECT_WORKER_ROLES, WORKER_ROLES
from dueledger.workers.settings import WorkerSettings
from tests.logins import with_login

PER_SECOND = 8192
LIFTED = ("fence", "run_run_no_seq")

OUTSIDE = """
select s.seqrelid::regclass::text as name
from pg_sequence s
join pg_class c on c.oid = s.seqrelid and c.relnamespace = 'ledger'::regnamespace
  and c.relname <> 'sleep_until'
cross join ledger.cell
left join (values ('bigint'::regtype, 2^43::bigint), ('integer', 2^21::bigint)) w (type, width)
  on w.type = s.seqtypid
where (s.seqmin, s.seqstart, s.seqmax, s.seqcycle) is distinct from (
  greatest(cell_no * width, 1), greatest(cell_no * width, 1), (cell_no + 1) * width - 1, false)
"""

CLOCK = "select floor(extract(epoch from clock_timestamp() - '2026-01-01 00:00Z') * 8192)::bigint"


async def test_each_sequence_is_in_the_stripe_of_the_cell(connection: Connection) -> None:
    """A migration that adds a sequence of another type, or one that cycles, fails here."""
    assert not await connection.fetch(OUTSIDE)


@pytest.mark.parametrize("cell_no", [1, 1022])
async def test_another_cell_gives_other_numbers(connection: Connection, cell_no: int) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("delete from ledger.cell")
    await assign_cell(connection, cell_no)
    assert not await connection.fetch(OUTSIDE)
    assert await next_fences(connection, 2) == [cell_no << 43, (cell_no << 43) + 1]
    flow_no = "select nextval(pg_get_serial_sequence('ledger.flow', 'flow_no'))"
    assert await connection.fetchval(flow_no) == cell_no << 21
    highest = await connection.fetchval(
        "select max(seqmax) from pg_sequence where seqrelid::regclass::text like 'ledger.%'"
    )
    assert highest < 2**53
    await assign_cell(connection, None)
    assert await next_fences(connection, 1) == [(cell_no << 43) + 2]
    await transaction.rollback()


async def test_a_sequence_added_later_is_put_into_the_stripe_by_the_next_migrate(
    connection: Connection,
) -> None:
    await connection.execute("create sequence ledger.added_later")
    assert await connection.fetch(OUTSIDE)
    await migrate(connection)
    assert not await connection.fetch(OUTSIDE)
    await connection.execute("drop sequence ledger.added_later")


async def test_the_cell_of_a_ledger_is_given_once(connection: Connection) -> None:
    await migrate(connection, cell_no=0)
    with pytest.raises(Conflict, match="this ledger is cell 0 and cannot become cell 3"):
        await migrate(connection, cell_no=3)
    assert await connection.fetchval("select cell_no from ledger.cell") == 0
    assert not await connection.fetch(OUTSIDE)


async def test_no_role_may_set_a_sequence(connection: Connection) -> None:
    rows = await connection.fetch(
        "select r.rolname, c.oid::regclass::text from pg_roles r, pg_class c"
        " where r.rolname like 'ledger\\_%' and c.relnamespace = 'ledger'::regnamespace"
        " and c.relkind = 'S' and has_sequence_privilege(r.oid, c.oid, 'update')"
    )
    assert not rows


async def test_g4_a_copy_behind_gives_only_fences_and_runs_above_those_of_the_lost_future(
    connection: Connection, database: str
) -> None:
    await lift_sequences(connection)
    given = [await _next_number(connection, name) for name in LIFTED]
    for name in LIFTED:  # as a copy from long ago has them
        await connection.execute("select setval($1::text, 51)", f"ledger.{name}")
    async with open_pool(
        database, application_name="test", size_max=3, before_use=lift_sequences
    ) as pool:
        held = [await pool.connections.acquire() for _ in range(3)]
        for name, highest in zip(LIFTED, given, strict=True):
            numbers = await asyncio.gather(*(_next_number(each, name) for each in held))
            assert len({*numbers}) == 3
            assert min(numbers) > highest
            assert max(numbers) <= await connection.fetchval(CLOCK) + 3
        for each in held:
            await pool.connections.release(each)


Opening: TypeAlias = Callable[[SecretStr, str], AbstractAsyncContextManager[object]]
OPENINGS: Final[dict[str, Opening]] = {
    "allocator": lambda dsn, kafka: open_allocator(
        AllocatorSettings(dsn=dsn, bootstrap_servers=kafka), stop=Stop()
    ),
    "worker": lambda dsn, kafka: open_connections(
        WorkerSettings(dsn=dsn, bootstrap_servers=kafka), Handlers(), WORKER_ROLES
    ),
    "direct_worker": lambda dsn, kafka: open_connections(
        WorkerSettings(dsn=dsn, bootstrap_servers=kafka), Handlers(), DIRECT_WORKER_ROLES
    ),
    "outcome_intake": lambda dsn, kafka: open_outcome_intake(
        OutcomeIntakeSettings(dsn=dsn, bootstrap_servers=kafka)
    ),
}
"""What opens the process of each login that takes fences or run numbers."""


@pytest.mark.parametrize("login", OPENINGS)
async def test_g4_a_process_that_opens_on_a_copy_behind_takes_numbers_above_the_clock(
    connection: Connection, database: str, bootstrap_servers: str, login: str
) -> None:
    for name in LIFTED:  # as a copy from long ago has them
        await connection.execute("select setval($1::text, 51)", f"ledger.{name}")
    clock = await connection.fetchval(CLOCK)
    async with OPENINGS[login](SecretStr(with_login(database, login)), bootstrap_servers):
        assert min([await _next_number(connection, name) for name in LIFTED]) >= clock


async def test_a_sequence_less_than_a_second_behind_the_clock_is_not_lifted(
    connection: Connection,
) -> None:
    ahead = await connection.fetchval(CLOCK) + 1_000_000 * PER_SECOND
    for name in LIFTED:
        await connection.execute("select setval($1::text, $2)", f"ledger.{name}", ahead)
    await lift_sequences(connection)
    assert [await _next_number(connection, name) for name in LIFTED] == [ahead + 1] * 2


async def test_lifting_waits_for_who_takes_numbers_and_gives_none_twice(
    connection: Connection, database: str
) -> None:
    """Where others take numbers in open transactions, it tries again and does not hold them up."""
    other = await connect(database, application_name="other")
    transaction = other.transaction()
    await transaction.start()
    first = await _next_number(other, "fence")
    lifting = asyncio.create_task(lift_sequences(connection))
    numbers = [await _next_number(other, "fence") for _ in range(50)]
    assert numbers == list(range(first + 1, first + 51))
    assert not lifting.done()
    await transaction.commit()
    await lifting
    assert await _next_number(other, "fence") > 1_000_000
    await other.close()


async def test_lifting_goes_on_without_where_a_transaction_that_took_a_number_stays_open(
    connection: Connection, database: str
) -> None:
    other = await connect(database, application_name="other")
    transaction = other.transaction()
    await transaction.start()
    first = await _next_number(other, "fence")
    await lift_sequences(connection)
    assert await _next_number(connection, "fence") == first + 1
    assert await _next_number(connection, "run_run_no_seq") > 1_000_000
    await transaction.rollback()
    await other.close()


async def _next_number(connection: Connection, name: str) -> int:
    return await connection.fetchval("select nextval($1::text)", f"ledger.{name}")


async def test_an_actor_a_kind_or_a_pause_that_is_known_takes_no_number(
    connection: Connection,
) -> None:
    actor_no = await register_actor(connection, "known", ActorKind.WORKER)
    for _ in range(3):
        assert await register_actor(connection, "known", ActorKind.WORKER) == actor_no
        await connection.execute(statement("add_kind"), "acme", "PolicyRenewalDue")
        for kind in (None, "PolicyRenewalDue"):
            scope = FlowScope("acme", kind)
            await pause_flows(connection, scope, reason="a test", actor_no=actor_no)
    given = [
        await connection.fetchval(
            "select pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass)",
            f"ledger.{table}",
            f"{table}_no",
        )
        for table in ("actor", "kind", "pause")
    ]
    assert given == [actor_no, 1, 2]
    assert await register_actor(connection, "unknown", ActorKind.WORKER) == actor_no + 1


async def test_the_doctor_warns_of_a_sequence_near_its_end_or_ahead_of_the_clock(
    connection: Connection, database: str
) -> None:
    async def examine() -> tuple[Health, str]:
        settings = Settings(dsn=SecretStr(database), bootstrap_servers="127.0.0.1:1")
        async for check in run_checks(settings):
            if check.name == "sequences":
                return check.health, check.text
        raise AssertionError

    await lift_sequences(connection)
    assert (await examine())[0] is Health.OK
    ahead = await connection.fetchval(CLOCK) + 3600 * PER_SECOND
    await connection.execute("select setval('ledger.fence', $1)", ahead)
    health, text = await examine()
    assert health is Health.WARN
    assert re.match(r"ahead of the clock: fence by 3,[56]\d\d s", text)
    await connection.execute(
        "select setval('ledger.actor_actor_no_seq', (1::bigint << 43) / 5 * 4 + 9)"
    )
    health, text = await examine()
    assert health is Health.WARN
    assert text == "the numbers of this cell run out: actor_actor_no_seq 80% are given"
