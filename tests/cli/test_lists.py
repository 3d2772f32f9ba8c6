"""Lists: late items first, counts before findings, and where a list or a count stopped."""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.flows import snooze_items
from dueledger.ledger.store.item_lists import ItemListFilter, list_open_items
from dueledger.workers.http.dispatcher import UNUSABLE_SECONDS
from tests.logins import with_login

from .conftest import Command

EMIT: Final = """
select count(*)
from (
  select array_agg('INV-' || $2::text || n order by n) as keys,
    array_agg('{"service":"billing"}'::text) as labels, array_agg('2026-01-01'::text) as days
  from generate_series(1, $1::integer) n) x
cross join array_fill('acme'::text, array[$1::integer]) tenants
cross join array_fill('ReminderDue'::text, array[$1::integer]) kinds
cross join array_fill($2::text, array[$1::integer]) lanes
cross join ledger.emit_arrays(
  tenants, kinds, keys, days::date[], days::timestamptz[], lanes => lanes, labels => labels)
"""
LOOKED_UP: Final = (
    "select sum(idx_tup_fetch)::integer from pg_stat_xact_user_tables"
    " where schemaname = 'ledger' and relname like 'due_item%'"
)


@pytest.fixture
def dueledger_on(dueledger_on: Command, database: str) -> Command:
    """Run the commands under an auditor's login."""
    return partial(dueledger_on, DUELEDGER_DSN=with_login(database, "auditor"))


def emit(connection: Connection, count: int, lane: str = "") -> Any:  # noqa: ANN401
    return connection.fetchval(EMIT, count, lane)


async def test_counts_that_stopped_are_marked_in_tables_and_in_json(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 10_001)
    listed = dueledger_on("flow", "list", "--json").lines[0]
    assert (listed["due"], listed["due_capped"], listed["later_capped"]) == (10_000, True, False)
    assert "10,000+" in dueledger_on("flow", "list").out
    shown = dueledger_on("flow", "show", "acme", "ReminderDue")
    assert "10,000+" in shown.out
    assert "capped" not in shown.out


async def test_a_count_that_is_just_at_the_limit_is_exact(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 10_000)
    listed = dueledger_on("flow", "list", "--json").lines[0]
    assert (listed["due"], listed["due_capped"]) == (10_000, False)


async def test_a_list_that_is_cut_says_so(dueledger_on: Command, connection: Connection) -> None:
    await emit(connection, 3)
    for form in ((), ("--late",), ("--json",)):
        cut = dueledger_on("items", "--limit", "2", *form)
        assert "More than 2 were found; only the first 2 are shown" in cut.err
        assert cut.out.count("INV-") == 2
    assert dueledger_on("items", "--limit", "3").err == ""


async def test_late_items_are_those_past_their_sla_the_first_due_first(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 2)
    await connection.execute(
        "select ledger.emit('acme', 'ReminderDue', 'NOW', '2026-01-01', now()),"
        " ledger.emit('acme', 'ReminderDue', 'FIRST', '2026-02-01', '2025-06-01'),"
        " ledger.emit('acme', 'ReminderDue', 'LATER', '2027-01-01', '2199-01-01')"
    )
    late = dueledger_on("items", "--late", "--json").lines
    assert [row["business_key"] for row in late] == ["FIRST", "INV-1", "INV-2"]
    before = dueledger_on("items", "--due-before", "2026-01-01", "--json").lines
    assert [row["business_key"] for row in before] == ["FIRST"]
    assert len(dueledger_on("items", "--due-before", "2199-01-01T00:00:01Z", "--json").lines) == 5
    assert dueledger_on("items", "--late", "--key", "NOW", "--json").lines == []
    refused = dueledger_on("items", "--late", "--state", "Completed", "--json")
    assert (refused.code, "no open item has it" in refused.out) == (2, True)


async def test_items_are_listed_by_their_attempts_and_by_worker(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 3)
    await connection.execute(
        "update ledger.pending p set state = 4, attempt = 2, available_at = now()"
        " from ledger.due_item i where i.item_no = p.item_no and i.business_key = 'INV-3'"
    )
    tried = dueledger_on("items", "--attempt-min", "2", "--json").lines
    assert [row["business_key"] for row in tried] == ["INV-3"]
    assert dueledger_on("items", "--worker", "worker:gone", "--json").lines == []
    of = ("--tenant", "acme", "--definition", "reminders", "--definition-version", "1")
    assert dueledger_on("items", *of, "--json").lines == []
    refused = dueledger_on("items", "--definition", "reminders", "--json")
    assert (refused.code, "a definition its tenant" in refused.out) == (2, True)


@pytest.mark.parametrize("serial", [None, 1])
async def test_a_list_says_so_where_late_items_in_their_backoff_were_not_all_read(
    connection: Connection, serial: int | None
) -> None:
    await emit(connection, 5)
    await connection.execute(
        "update ledger.pending set state = 4, attempt = 1,"
        " available_at = now() + interval '1 hour', serial = $1::bigint,"
        " serial_due_at = case when $1::bigint is not null then now() end,"
        " overlap = case when $1::bigint is not null then 1 end",
        serial,
    )
    for wanted in (ItemListFilter(due_before=datetime(2199, 1, 1, tzinfo=UTC)), ItemListFilter()):
        for read_max in (3, 6):
            found = await list_open_items(
                connection, wanted, past_sla=wanted.due_before is None, read_max=read_max
            )
            assert (len(found.items), found.is_cut) == (min(read_max, 5), read_max == 3)


async def test_what_a_person_snoozed_is_listed_as_late_however_many_items_come_before_then(
    connection: Connection,
) -> None:
    await emit(connection, 1)
    snoozed = await connection.fetchval("select id from ledger.due_item")
    clerk = await register_actor(connection, "person:clerk", ActorKind.PERSON)
    until = datetime(2199, 6, 1, tzinfo=UTC)
    terms: dict[str, Any] = {"reason": "INC-7", "actor_no": clerk, "until": until}
    await snooze_items(connection, [snoozed], **terms)
    await connection.execute(
        "select ledger.emit('acme', 'ReminderDue', 'LATER-' || n, '2027-01-01',"
        " timestamptz '2199-01-01' + n * interval '1 minute') from generate_series(1, 5) n"
    )
    for read_max in (2, 9):  # fewer than come before it, and all: it is listed once
        for wanted in (
            ItemListFilter(),
            ItemListFilter(due_before=datetime(2027, 1, 1, tzinfo=UTC)),
        ):
            found = await list_open_items(connection, wanted, past_sla=True, read_max=read_max)
            assert ([each["id"] for each in found.items], found.is_cut) == ([snoozed], False)


async def test_only_a_page_is_looked_up_of_items_that_are_due_later_and_all_that_were_snoozed(
    connection: Connection,
) -> None:
    await emit(connection, 2)
    await connection.execute(
        "update ledger.pending set starts = 1, attempt = 1, available_at = '2199-06-01'"
        " where item_no = (select max(item_no) from ledger.pending)"
    )
    await connection.execute(
        "select ledger.emit('acme', 'ReminderDue', 'LATER-' || n, '2027-01-01',"
        " timestamptz '2199-01-01' + n * interval '1 minute') from generate_series(1, 30) n"
    )
    assert UNUSABLE_SECONDS < 300  # the longest wait of an item that was never started
    for past_sla in (False, True):
        async with connection.transaction():
            before = await connection.fetchval(LOOKED_UP)
            found = await list_open_items(connection, ItemListFilter(), past_sla=past_sla, limit=5)
            looked_up = await connection.fetchval(LOOKED_UP) - before
        names = [item["business_key"] for item in found.items]
        later = [] if past_sla else ["LATER-1", "LATER-2", "LATER-3"]
        assert (names, looked_up) == (["INV-1", "INV-2", *later], 2 if past_sla else 7)
    filters = (
        ItemListFilter(business_key="LATER-30"),
        ItemListFilter(due_from=datetime(2199, 1, 1, 0, 29, 30, tzinfo=UTC)),
    )
    for wanted in filters:
        found = await list_open_items(connection, wanted, limit=5)
        assert [item["business_key"] for item in found.items] == ["LATER-30"]


async def test_what_a_person_snoozed_is_late_as_before(connection: Connection) -> None:
    await emit(connection, 2)
    await connection.execute(
        "select ledger.emit('acme', 'ReminderDue', 'LATER', '2027-01-01', '2199-01-01')"
    )
    ids = [row["id"] for row in await connection.fetch("select id from ledger.due_item")]
    person_no = await register_actor(connection, "person:jane", ActorKind.PERSON)
    until = datetime(2199, 6, 1, tzinfo=UTC)
    await snooze_items(connection, ids, reason="x", actor_no=person_no, until=until)
    due_before = ItemListFilter(due_before=datetime(2198, 1, 1, tzinfo=UTC))
    for wanted, past_sla, more in (
        (ItemListFilter(), True, []),
        (due_before, False, []),
        (ItemListFilter(), False, ["LATER"]),
    ):
        found = await list_open_items(connection, wanted, past_sla=past_sla)
        assert [item["business_key"] for item in found.items] == ["INV-1", "INV-2", *more]


async def test_parked_and_claimed_items_are_late_too(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 2)
    await connection.execute(
        """
        with parked as (
          delete from ledger.pending where item_no = (select min(item_no) from ledger.pending)
          returning *
        )
        insert into ledger.review
          (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
        select item_no, effective_date, flow_no, now(), 1, 1, 'x',
          (select min(actor_no) from ledger.actor)
        from parked
        """
    )
    states = {row["state"] for row in dueledger_on("items", "--late", "--json").lines}
    assert states == {"ManualReview", "Scheduled"}
    parked = dueledger_on("items", "--late", "--state", "ManualReview", "--json").lines
    assert len(parked) == 1


async def test_items_are_listed_by_label(dueledger_on: Command, connection: Connection) -> None:
    await emit(connection, 1)
    await connection.execute("select ledger.emit('acme', 'K', 'BARE', '2026-01-01', '2026-01-01')")
    for form in ((), ("--late",)):
        listed = dueledger_on("items", "--label", "service=billing", *form, "--json").lines
        assert [row["business_key"] for row in listed] == ["INV-1"]
        assert dueledger_on("items", "--label", "service=x", *form, "--json").lines == []
    assert dueledger_on("items", "--label", "service").code == 2


async def test_late_items_that_may_be_missing_are_announced(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 10_001)
    cut = dueledger_on("items", "--late", "--key", "INV-1", "--json")
    assert "others may be late, too" in cut.err


FINDINGS: Final = """
with pass as (
  insert into ledger.reconciliation (started_at, as_of, actor_no, scope)
  values (now(), now(), (select min(actor_no) from ledger.actor), '{}') returning *
)
insert into ledger.finding
  (id, type, severity, tenant, kind, subject, sentence, first_seen_at, last_seen_at,
  reconciliation_no, resolution)
select gen_random_uuid(), type, severity, 'acme', 'K', 'x', 'x', now(), now(), reconciliation_no,
  'open'
from pass, (values ('MISSING', 'error'), ('MISSING', 'error'), ('LATE', 'information'),
  ('TAMPERED', 'critical')) f (type, severity)
"""


async def test_findings_begin_with_counts_by_type_and_severity(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 1)
    await connection.execute(FINDINGS)
    lines = dueledger_on("findings").out.splitlines()
    assert [line.split() for line in lines[:5]] == [
        ["findings", "severity", "type"],
        ["1", "critical", "TAMPERED"],
        ["2", "error", "MISSING"],
        ["1", "information", "LATE"],
        [],
    ]
    assert lines[5].split()[0] == "id"
    assert len(lines) == 10
    counted = dueledger_on("findings", "--summary", "--json").lines
    ages = [*counted[1]][-6:]
    assert counted[1] == {
        "type": "MISSING",
        "severity": "error",
        "findings": 2,
        "findings_capped": False,
        **dict.fromkeys(ages, 0),
        "under_an_hour": 2,
    }
    assert len(dueledger_on("findings", "--json").lines) == 4
    only = dueledger_on("findings", "--summary", "--type", "LATE").out
    assert "LATE" in only
    assert "MISSING" not in only
