"""Every door of emission gives the same answers and writes the same rows.

One item has a path of its own, sql/schema/functions/emit.sql.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import set_clock

NOW: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
KINDS: Final = ("Known", "Ordered", "New")
LANES: Final = ("", "north", "new")
DATES: Final = (date(2027, 3, 1), date(2027, 3, 31), date(2045, 5, 5), date(2110, 1, 1))
WRONG: Final[dict[str, tuple[Any, ...]]] = {
    "tenant": (None, "a b", "umbra"),
    "kind": (None, "", "a b"),
    "business_key": (None, "", "k" * 513, "a\x1fb"),
    "effective_date": (None, date(1969, 12, 31), date(2200, 1, 1)),
    "due_at": (None, datetime(1969, 12, 31, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)),
    "payload": ('"' + "x" * 262_143 + '"',),
    "cycle": ("c" * 201, "a\x1fb"),
    "lane": ("l" * 101,),
    "partition_key": ("", "k" * 513),
    "labels": (json.dumps({"a": "x" * 8_192}),),
}

ONE: Final = """
select id, created from ledger.emit(
  $1, $2, $3, $4, $5, $6::text::json, $7, $8, $9, $10::text::jsonb, $11)
"""
ARRAYS: Final = """
select id, created from ledger.emit_arrays(
  $1::text[], $2::text[], $3::text[], $4::date[], $5::timestamptz[], $6::text[], $7::text[],
  $8::text[], $9::text[], $10::text[], $11::text[])
"""
MANY: Final = "select id, created from ledger.emit_many($1::text::json)"

ROWS: Final = """
select to_jsonb(i) - '{item_no,flow_no,actor_no,serial}'::text[] as item, i.payload::text,
  i.tableoid::regclass::text as leaf, to_jsonb(p) - '{item_no,flow_no,serial}'::text[] as pending,
  p.flow_no = i.flow_no and p.serial is not distinct from i.serial as is_same,
  f.lane, k.tenant, k.name, a.name as actor,
  i.serial = ledger.serial_of(k.kind_no, coalesce(i.partition_key, i.business_key)) as own_serial,
  (select count(*) from ledger.transition) as transitions,
  (select count(*) from ledger.flow) as flows, (select count(*) from ledger.kind) as kinds
from ledger.due_item i
join ledger.flow f using (flow_no) join ledger.kind k using (kind_no)
join ledger.actor a using (actor_no) left join ledger.pending p using (item_no)
order by i.id
"""


class Item(NamedTuple):
    tenant: Any
    kind: Any
    business_key: Any
    effective_date: Any
    due_at: Any
    payload: str
    cycle: str
    lane: str
    partition_key: str | None
    labels: str | None
    traceparent: str | None


RETIRED: Final = Item(
    tenant="acme",
    kind="Known",
    business_key="P-1",
    effective_date=DATES[-1],
    due_at=NOW,
    payload="{}",
    cycle="",
    lane="",
    partition_key=None,
    labels=None,
    traceparent=None,
)


class Outcome(NamedTuple):
    """What a door answered, or how it refused; and the rows that it left."""

    answers: list[tuple[Any, ...]]
    refusal: tuple[str | None, ...] | None
    rows: list[dict[str, Any]]


Door = Callable[[Connection, Sequence[Item]], Awaitable[list[asyncpg.Record]]]


async def _one_by_one(connection: Connection, items: Sequence[Item]) -> list[asyncpg.Record]:
    return [row for item in items for row in await connection.fetch(ONE, *item)]


async def _by_arrays(connection: Connection, items: Sequence[Item]) -> list[asyncpg.Record]:
    return await connection.fetch(ARRAYS, *(list(column) for column in zip(*items, strict=True)))


async def _as_json(connection: Connection, items: Sequence[Item]) -> list[asyncpg.Record]:
    objects = ",".join(_object(item) for item in items)
    return await connection.fetch(MANY, f"[{objects}]")


def _object(item: Item) -> str:
    """Return the item as JSON, with its payload to the letter."""
    members = {
        name: value.isoformat() if isinstance(value, date) else value
        for name, value in item._asdict().items()
        if name not in {"payload", "labels"}
    }
    return (
        json.dumps(members)[:-1]
        + f', "payload": {item.payload}, "labels": {item.labels or "null"}}}'
    )


DOORS: Final[tuple[Door, ...]] = (_one_by_one, _by_arrays, _as_json)


@pytest.fixture
async def emitter(connection: Connection) -> Connection:
    """A bound login's session, beside kinds and lanes that exist and a pause."""
    await set_clock(connection, NOW, 0)
    await connection.execute(
        "insert into ledger.actor (name, kind, tenants)"
        " values ('service:test_emitter', 'service', '{acme,other}');"
        "insert into ledger.actor (name, kind) values ('person:x', 'person');"
        "insert into ledger.pause (tenant, lane, reason, paused_at, actor_no)"
        " select 'acme', 'new', 'test', ledger.now(), actor_no from ledger.actor"
        " where name = 'person:x';"
        "select ledger.ensure_flows("
        " '{acme,acme,acme}', '{Known,Known,Ordered}', '{\"\",north,\"\"}');"
        "update ledger.kind set ordering = 'key' where name = 'Ordered';"
        "insert into ledger.retired_key values"
        " (ledger.item_id('acme', 'Known', 'P-1', '', '2110-01-01'), now())"
    )
    return connection


def _batch(random: Random, number: int) -> list[Item]:
    """Make some items, some of them twice or with other terms, and at most one that is wrong."""
    items = [
        Item(
            tenant=random.choice(("acme", "acme", "other")),
            kind=random.choice(KINDS),
            business_key=f"P-{random.randrange(6)}",
            effective_date=random.choice(DATES),
            due_at=NOW + timedelta(hours=random.randrange(-2, 3)),
            payload=random.choice(("{}", '{ "b":1,  "a": "é" }', "3")),
            cycle=random.choice(("", "2027")),
            lane=random.choice(LANES),
            partition_key=random.choice((None, None, "K")),
            labels=random.choice((None, '{"region": "north"}')),
            traceparent=random.choice((None, TRACE, "x")),
        )
        for _ in range(random.choice((1, 1, 2, 7)))
    ]
    if number % 2:
        field = random.choice(list(WRONG))
        place = random.randrange(len(items))
        items[place] = items[place]._replace(**{field: random.choice(WRONG[field])})
    return items


async def _outcome(
    connection: Connection, door: Door, before: Sequence[Item], items: Sequence[Item]
) -> Outcome:
    """Emit some items one by one, the others by the door; read the rows, and undo it all."""
    answers: list[tuple[Any, ...]] = []
    refusal = None
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("set local session authorization test_emitter")
    await _one_by_one(connection, before)
    try:
        async with connection.transaction():
            answers = [tuple(row) for row in await door(connection, items)]
    except asyncpg.PostgresError as error:
        refusal = (error.sqlstate, error.constraint_name, error.column_name)
    await connection.execute("reset session authorization")
    rows = [dict(row) for row in await connection.fetch(ROWS)]
    await transaction.rollback()
    return Outcome(answers, refusal, rows)


async def test_g1_g10_each_door_gives_the_same_answers_and_writes_the_same_rows(
    emitter: Connection,
) -> None:
    random = Random(7)  # noqa: S311 - inputs of a test
    refused = repeated = 0
    for number in range(100):
        before, items = _batch(random, 0), _batch(random, number)
        items += [random.choice([*before, RETIRED])._replace(payload="4")] * random.randrange(2)
        expected, *others = [await _outcome(emitter, door, before, items) for door in DOORS]
        for other in others:
            assert other == expected, items
        refused += expected.refusal is not None
        repeated += any(not created for _, created in expected.answers)
    assert refused > 20
    assert repeated > 20


async def test_items_go_to_the_flow_of_their_own_tenant_kind_and_lane(emitter: Connection) -> None:
    flows = [(t, k, lane) for t in ("acme", "other") for k in ("Known", "Ordered") for lane in "ab"]
    for number in range(2):  # the first makes the flow
        for tenant, kind, lane in flows:
            item = RETIRED._replace(tenant=tenant, kind=kind, lane=lane, cycle=f"{number}{lane}")
            await _one_by_one(emitter, [item])
    found = await emitter.fetch(
        "select k.tenant, k.name, f.lane from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no) order by 1, 2, 3"
    )
    assert [tuple(row) for row in found] == sorted(flows * 2)
    emitters = await emitter.fetch(
        "select distinct a.name from ledger.due_item i join ledger.actor a using (actor_no)"
    )
    assert [row["name"] for row in emitters] == [
        await emitter.fetchval("select ledger.emitter_name()")
    ]


@pytest.mark.parametrize("door", DOORS)
async def test_a_bound_login_emits_for_no_other_tenant_whose_flow_exists(
    emitter: Connection, door: Door
) -> None:
    item = RETIRED._replace(tenant="umbra", cycle="2028")
    await _one_by_one(emitter, [item])
    async with emitter.transaction():
        await emitter.execute("set local session authorization test_emitter")
        await _one_by_one(emitter, [item._replace(tenant="acme")])  # its actor is registered
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with emitter.transaction():
                await door(emitter, [item._replace(cycle="2029")])
        await emitter.execute("reset session authorization")


@pytest.mark.parametrize("door", DOORS)
async def test_an_item_whose_month_was_dropped_and_made_again_is_not_new(
    emitter: Connection, door: Door
) -> None:
    claimed_in = await emitter.fetchval(
        "select max(starts_on) from ledger.partition_span where parent = 'claim'"
    )
    item = RETIRED._replace(effective_date=claimed_in, business_key="P-1")
    await _one_by_one(emitter, [item])  # its flow exists
    retired = item._replace(business_key="P-2")
    await emitter.execute(
        "insert into ledger.retired_key"
        " values (ledger.item_id('acme', 'Known', 'P-2', '', $1::date), now())",
        retired.effective_date,
    )
    month = f"{claimed_in:%Y%m}"
    await emitter.execute(
        f"drop table ledger.due_item_{month}, ledger.transition_{month};"  # noqa: S608 - a month
        "delete from ledger.pending"
    )
    await emitter.execute(
        "delete from ledger.partition_span where parent = 'due_item' and starts_on = $1", claimed_in
    )
    assert await emitter.fetchval("select ledger.make_partition('due_item', $1)", claimed_in)
    answers = [await door(emitter, [each]) for each in (retired, item)]
    assert [row["created"] for [row] in answers] == [False, True]


async def test_a_member_that_no_item_has_is_refused_under_its_name(emitter: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="no member lanes") as refusal:
        await emitter.fetch(MANY, '[{"tenant": "acme", "lanes": ""}]')
    assert (refusal.value.sqlstate, refusal.value.column_name) == ("DL002", "lanes")


async def test_arrays_that_differ_in_length_are_refused(emitter: Connection) -> None:
    columns = [["acme"] * 2, ["Known"] * 2, ["P-1", "P-2"], [DATES[0]] * 2, [NOW] * 2]
    with pytest.raises(asyncpg.PostgresError, match="differ in length"):
        await emitter.fetch(ARRAYS, *columns, ["{}"], *[None] * 5)


async def test_no_item_is_no_row(emitter: Connection) -> None:
    assert await emitter.fetch(MANY, "[]") == []
    assert await emitter.fetch(ARRAYS, *[list[str]() for _ in range(11)]) == []


async def test_what_may_be_left_out_is_as_in_emit(emitter: Connection) -> None:
    items = '{"tenant":"acme","kind":"Known","business_key":"P-%d","effective_date":"2027-03-01",'
    items += '"due_at":"2027-03-01T00:00Z","labels":null}'
    rows = await emitter.fetch(MANY, f"[{items % 1},{items % 2},{items % 1}]")
    assert [row["created"] for row in rows] == [True, True, False]
    found = await emitter.fetch("select payload, cycle, partition_key, labels from ledger.due_item")
    assert [tuple(row) for row in found] == [({}, "", None, None)] * 2


async def test_emission_reads_no_more_of_the_actors_than_its_own_row(emitter: Connection) -> None:
    await emitter.execute(
        "insert into ledger.actor (name, kind) select 'worker:' || n, 'worker'"
        " from generate_series(1, 2000) n; analyze ledger.actor"
    )
    read = "select pg_stat_get_xact_tuples_returned('ledger.actor'::regclass)"
    async with emitter.transaction():
        await emitter.fetch("select ledger.emitting_actor('acme')")
        before = await emitter.fetchval(read)
        await emitter.fetch(ONE, *RETIRED._replace(effective_date=DATES[0]))
        assert await emitter.fetchval(read) - before == 0
