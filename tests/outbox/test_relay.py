"""Rows of a service's outbox become items: once each, however often they are carried."""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from pydantic import SecretStr

from dueledger.ledger.errors import InvalidSetting, NotPermitted
from dueledger.ledger.outbox import Relay, RelaySettings, open_relay, run_relay
from dueledger.ledger.runtime.service import CRASH_VARIABLE, Stop
from dueledger.ledger.store import Connection
from dueledger.ledger.store.outbox import OUTBOX_SQL, outbox_schema
from dueledger.stack import Endpoints
from tests.databases import named_database
from tests.document_blocks import blocks_of
from tests.forks import ForkServer
from tests.logins import with_login

NEVER_SECONDS = 1e6
SLEEPERS = "select count(*) > 0 from due_outbox.relay"
KILL = """
    select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
    where datname = current_database() and application_name like 'relay:%'
"""
DUE = datetime(2026, 3, 1, 9, tzinfo=UTC)
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True)
class Service:
    """A service with a database of its own, and the ledger beside it."""

    connection: Connection
    settings: RelaySettings
    kind: str

    async def write(
        self, key: str, connection: "Connection | None" = None, **columns: object
    ) -> int:
        """Write a row into the outbox, in the caller's transaction."""
        row: dict[str, object] = {
            "tenant": "acme",
            "kind": self.kind,
            "business_key": key,
            "effective_date": date(2027, 3, 1),
            "due_at": DUE,
        } | columns
        numbers = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        return await (connection or self.connection).fetchval(
            f"insert into due_outbox.item ({', '.join(row)}) values ({numbers})"  # noqa: S608
            " returning outbox_no",
            *row.values(),
        )

    async def left(self) -> dict[str, str | None]:
        """Return the keys in the outbox, and why each was refused."""
        rows = await self.connection.fetch("select business_key, refusal from due_outbox.item")
        return {row["business_key"]: row["refusal"] for row in rows}


@pytest.fixture
async def outbox_dsn(stack: Endpoints) -> AsyncGenerator[str]:
    """A database of the service's own, without a ledger."""
    name = f"service_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name} template template0")
    dsn = named_database(stack.dsn, name)
    connection = await asyncpg.connect(dsn)
    await connection.execute(outbox_schema())
    await connection.close()
    yield dsn
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


@pytest.fixture
async def service(database: str, outbox_dsn: str, kind: str) -> AsyncGenerator[Service]:
    connection = await asyncpg.connect(outbox_dsn)
    settings = RelaySettings(
        dsn=SecretStr(with_login(database, "relay")), outbox_dsn=SecretStr(outbox_dsn)
    )
    yield Service(connection, settings, kind)
    await connection.close()


@pytest.fixture
async def relay(service: Service) -> AsyncGenerator[Relay]:
    async with open_relay(service.settings) as relay:
        yield relay


async def items(connection: Connection) -> list[dict[str, Any]]:
    rows = await connection.fetch("select * from ledger.due_item order by business_key")
    return [dict(row) for row in rows]


async def test_a_committed_row_becomes_the_item_that_it_describes(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await service.write(
        "INV-1",
        payload='{"amount":"12.30"}',
        cycle="2027",
        lane="eu",
        partition_key="customer-7",
        labels='{"region":"eu"}',
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )

    assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 0}

    (item,) = await items(connection)
    assert (item["business_key"], item["cycle"], item["due_at"]) == ("INV-1", "2027", DUE)
    assert (item["payload"], item["labels"]) == ({"amount": "12.30"}, {"region": "eu"})
    assert item["partition_key"] == "customer-7"
    assert str(item["traceparent"]).startswith("00-0af7651916cd43dd")
    assert await connection.fetchval("select lane from ledger.flow") == "eu"
    assert (
        await connection.fetchval(
            "select name from ledger.actor where actor_no = $1", item["actor_no"]
        )
        == "service:test_relay"
    )
    assert await service.left() == {}
    assert await relay.tick() == {}


async def test_the_rows_that_wait_are_counted_in_the_row_of_the_relay(
    service: Service, connection: Connection, eventually: Eventually
) -> None:
    async def counted() -> int | None:
        await connection.execute(
            "update ledger.process set seen_at = seen_at - interval '6 seconds'"
        )
        return await connection.fetchval("select outbox_items from ledger.process")

    for number in range(3):
        await service.write(f"INV-{number}")
    settings = service.settings.model_copy(update={"relay_batch_items_max": 1})
    async with open_relay(settings) as relay:
        assert await counted() is None
        await relay.tick()
        assert await eventually(counted) == 3
        while await relay.tick():
            pass

        async def is_empty() -> bool:
            return await counted() == 0

        assert await eventually(is_empty)


async def test_a_row_that_commits_after_a_later_number_was_carried_is_carried_too(
    service: Service, relay: Relay, connection: Connection, outbox_dsn: str
) -> None:
    slow = await asyncpg.connect(outbox_dsn)
    try:
        transaction = slow.transaction()
        await transaction.start()
        first = await service.write("slow", slow)
        assert await service.write("fast") > first
        assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 0}
        await transaction.commit()
        assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 0}
    finally:
        await slow.close()
    assert [item["business_key"] for item in await items(connection)] == ["fast", "slow"]


async def test_a_row_that_was_rolled_back_is_never_carried(
    service: Service, relay: Relay, connection: Connection
) -> None:
    transaction = service.connection.transaction()
    await transaction.start()
    await service.write("never")
    assert await relay.tick() == {}
    await transaction.rollback()
    assert await relay.tick() == {}
    assert await items(connection) == []


async def test_what_is_refused_is_marked_with_its_reason_and_stops_nothing(
    service: Service, relay: Relay, connection: Connection
) -> None:
    for number in range(40):
        await service.write(f"key-{number:02}")
    await service.write("", kind=service.kind)
    await service.write("bad kind", kind="two words")
    await service.write("bad date", effective_date=date(2500, 1, 1))
    await service.write("too large", payload=f'"{"x" * 262_144}"')
    await service.write("last")

    assert await relay.tick() == {"emitted": 41, "known": 0, "refused": 4}

    assert len(await items(connection)) == 41
    left = await service.left()
    assert left == {
        "": "business_key: it must have 1 to 512 characters",
        "bad kind": "kind: 1 to 100 of A–Z, a–z, 0–9, '.', '_', '-'",
        "bad date": "effective_date is missing or lies outside 1970–2199",
        "too large": "payload: it is larger than 256 KiB (262,144 bytes)",
    }
    assert await relay.tick() == {}  # a refused row waits for a person


async def test_a_refused_row_that_was_corrected_is_carried(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await service.write("INV-1", kind="two words")
    assert (await relay.tick())["refused"] == 1
    await service.connection.execute(
        "update due_outbox.item set kind = $1, refused_at = null, refusal = null", service.kind
    )
    assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 0}
    assert len(await items(connection)) == 1


async def test_g10_a_relay_that_dies_between_both_commits_emits_nothing_twice(
    service: Service, relay: Relay, connection: Connection, fork_server: ForkServer
) -> None:
    for number in range(3):
        await service.write(f"key-{number}")
    died = await fork_server.start(
        *("-m", "dueledger", "relay", "--once"),
        env=os.environ
        | {
            "DUELEDGER_DSN": service.settings.dsn.get_secret_value(),
            "DUELEDGER_OUTBOX_DSN": service.settings.outbox_dsn.get_secret_value(),
            CRASH_VARIABLE: "relay.emitted",
        },
    )
    assert await died.wait() == -signal.SIGKILL
    before = await items(connection)
    assert len(before) == len(await service.left()) == 3

    assert await relay.tick() == {"emitted": 0, "known": 3, "refused": 0}

    assert await items(connection) == before
    assert await service.left() == {}


async def test_of_rows_with_one_key_the_ledger_keeps_the_first_written(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await service.write("INV-1", payload='{"version":1}')
    await service.write("INV-1", payload='{"version":2}')

    assert await relay.tick() == {"emitted": 1, "known": 1, "refused": 0}

    (item,) = await items(connection)
    assert item["payload"] == {"version": 1}


async def test_two_relays_at_once_make_one_item_of_each_row(
    service: Service, relay: Relay, connection: Connection
) -> None:
    for number in range(100):
        await service.write(f"key-{number:02}")
    async with open_relay(service.settings) as other:
        both = await asyncio.gather(relay.tick(), other.tick())

    assert sum(each.get("emitted", 0) for each in both) == 100
    assert len(await items(connection)) == 100
    assert await service.left() == {}


async def test_a_pass_carries_no_more_than_its_batch(service: Service) -> None:
    for number in range(5):
        await service.write(f"key-{number}")
    settings = service.settings.model_copy(update={"relay_batch_items_max": 2})
    async with open_relay(settings) as relay:
        assert (await relay.tick())["emitted"] == 2
        assert sorted(await service.left()) == ["key-2", "key-3", "key-4"]


async def test_a_pass_carries_no_more_payload_than_it_can_hold(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await service.connection.execute(
        "insert into due_outbox.item (tenant, kind, business_key, effective_date, due_at, payload)"
        " select 'acme', $1, 'key-' || n, date '2027-03-01', now(), to_json(repeat('x', 200000))"
        " from generate_series(1, 90) n",
        service.kind,
    )
    counts = [await relay.tick(), await relay.tick()]

    assert [each["emitted"] for each in counts] == [84, 6]  # 16 MiB of them
    assert len(await items(connection)) == 90


async def test_a_tenant_that_the_login_may_not_emit_for_is_refused_by_row(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await connection.execute(
        "insert into ledger.actor (name, kind, tenants)"
        " values ('service:test_relay', 'service', '{acme}')"
    )
    await service.write("theirs", tenant="umbra")
    await service.write("ours")

    assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 1}

    assert await service.left() == {"theirs": "test_relay may not emit for tenant 'umbra'"}


async def test_a_login_that_is_no_relay_is_refused_and_marks_no_row(
    service: Service, database: str
) -> None:
    await service.write("INV-1")
    settings = service.settings.model_copy(
        update={"dsn": SecretStr(with_login(database, "auditor"))}
    )
    with pytest.raises(NotPermitted, match="lacks ledger_relay"):
        async with open_relay(settings):
            pass
    assert await service.left() == {"INV-1": None}


async def test_a_role_that_is_lost_meanwhile_marks_no_row(
    service: Service, relay: Relay, connection: Connection
) -> None:
    await service.write("INV-1")
    await connection.execute("revoke execute on function ledger.emit_arrays from ledger_relay")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await relay.tick()
    assert await service.left() == {"INV-1": None}


@pytest.mark.usefixtures("endless_sleep")
async def test_g9_a_row_written_while_the_relay_sleeps_is_carried(
    service: Service, connection: Connection, eventually: Eventually
) -> None:
    settings = service.settings.model_copy(update={"relay_idle_seconds": NEVER_SECONDS})
    stop = Stop()
    running = asyncio.create_task(run_relay(settings, stop))
    for number in range(3):
        await eventually(lambda: service.connection.fetchval(SLEEPERS))
        await service.write(f"INV-{number}")
        await eventually(lambda wanted=number + 1: _has_items(connection, wanted))
    stop.request()
    await running
    assert await service.connection.fetchval(SLEEPERS) is False


@pytest.mark.usefixtures("endless_sleep")
async def test_a_relay_that_lost_its_listening_connection_listens_again(
    service: Service, connection: Connection, eventually: Eventually
) -> None:
    settings = service.settings.model_copy(update={"relay_idle_seconds": NEVER_SECONDS})
    stop = Stop()
    running = asyncio.create_task(run_relay(settings, stop))
    await eventually(lambda: service.connection.fetchval(SLEEPERS))
    await service.connection.execute("delete from due_outbox.relay")  # so that it is seen anew
    await service.connection.execute(KILL)
    await eventually(lambda: service.connection.fetchval(SLEEPERS))
    await service.write("INV-1")
    await eventually(lambda: _has_items(connection, 1))
    stop.request()
    await running


async def _has_items(connection: Connection, wanted: int) -> bool:
    return await connection.fetchval("select count(*) from ledger.due_item") == wanted


def test_a_file_names_the_services_database(tmp_path: Path) -> None:
    given = {"dsn": "postgresql:///ledger", "outbox_dsn_file": tmp_path / "dsn"}
    with pytest.raises(InvalidSetting) as refused:
        RelaySettings.model_validate(given)
    (tmp_path / "dsn").write_text("postgresql:///letters\n")
    settings = RelaySettings.model_validate(given)
    assert settings.outbox_dsn.get_secret_value() == "postgresql:///letters"
    assert [each.field for each in refused.value.problems] == ["DUELEDGER_OUTBOX_DSN_FILE"]


async def test_the_batch_is_found_by_its_index_beside_many_refused_rows(service: Service) -> None:
    await service.connection.execute(
        "insert into due_outbox.item (tenant, kind, business_key, effective_date, due_at,"
        " refused_at, refusal) select 'acme', 'K', n::text, date '2027-03-01', now(), now(), 'x'"
        " from generate_series(1, 5000) n"
    )
    await service.connection.execute("analyze due_outbox.item")
    sql = OUTBOX_SQL.joinpath("list_outbox_items.sql").read_text().replace("$1::integer", "500")
    plan = await service.connection.fetch(f"explain {sql}")
    assert "item_waiting_idx" in "\n".join(row[0] for row in plan)


async def test_the_documented_grants_are_enough_for_the_service_and_for_the_relay(
    service: Service, outbox_dsn: str
) -> None:
    name = "test_the_documented_grants_are_enough_for_the_service_and_for_the_relay"
    grants, insert = (block.text for block in blocks_of("docs/outbox.md", run_by=name))
    tag = secrets.token_hex(4)
    logins = {"letters_relay": f"relay_{tag}", "letters": f"letters_{tag}"}
    for documented, login in logins.items():
        await service.connection.execute(f"create role {login} login password '{login}'")
        grants = re.sub(rf"\b{documented}\b", login, grants)
    await service.connection.execute(grants)

    def as_login(login: str) -> str:
        place = urlsplit(outbox_dsn).netloc.rpartition("@")[2]
        parts = urlsplit(outbox_dsn)._replace(netloc=f"{login}:{login}@{place}")
        return urlunsplit(parts)

    try:
        writer = await asyncpg.connect(as_login(logins["letters"]))
        await writer.execute(insert)
        await writer.execute(insert.replace("'acme'", "'a b'"))
        await writer.close()
        outbox = SecretStr(as_login(logins["letters_relay"]))
        async with open_relay(service.settings.model_copy(update={"outbox_dsn": outbox})) as relay:
            assert await relay.tick() == {"emitted": 1, "known": 0, "refused": 1}
            while not await service.connection.fetchval(SLEEPERS):
                await relay.wait_for_rows()
    finally:
        names = ", ".join(logins.values())
        await service.connection.execute(f"drop owned by {names}; drop role {names}")
