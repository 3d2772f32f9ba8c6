"""Emission: one row an identity, from any language, refused by name, never half-written."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, connect
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.error_mapping import ClockRefused, mapped_errors
from dueledger.ledger.store.items import (
    StepPlace,
    emit_items,
    find_known_ids,
    item_timeline,
    read_accounting,
    show_item,
    skip_items,
)
from dueledger.ledger.store.partitions import make_partitions, split_default_partition
from dueledger.ledger.store.statements import statement

from .conftest import Ledger

VECTORS: list[dict[str, str]] = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "identity-vectors.json").read_text()
)
MakeDrafts = Callable[..., list[ItemDraft]]
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)

RETIRED_KEY_SCANS = """
select pg_stat_get_xact_numscans('ledger.retired_key'::regclass)
  + pg_stat_get_xact_numscans('ledger.retired_key_pkey'::regclass)
"""


async def test_sql_and_python_agree_on_every_identity_vector(connection: Connection) -> None:
    assert len(VECTORS) >= 12
    for vector in VECTORS:
        made = await connection.fetchval(
            "select ledger.item_id($1, $2, $3, $4, $5)",
            vector["tenant"],
            vector["kind"],
            vector["business_key"],
            vector["cycle"],
            date.fromisoformat(vector["effective_date"]),
        )
        assert made == UUID(vector["id"])


async def test_g1_a_repeated_emission_changes_nothing_and_says_so(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    drafts = make_drafts(3)
    first = await emit_items(connection, drafts, actor_no=actor_no)
    again = await emit_items(connection, [*drafts, *make_drafts(4)], actor_no=actor_no)

    assert [answer.created for answer in first] == [True] * 3
    assert [answer.created for answer in again] == [False] * 6 + [True]
    assert [answer.id for answer in first] == [draft.id for draft in drafts]
    (account,) = await read_accounting(connection)
    assert (account.items, account.pending) == (4, 4)


async def test_one_key_twice_in_a_batch_is_created_once(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    (draft,) = make_drafts()
    answers = await emit_items(connection, [draft, draft], actor_no=actor_no)
    assert [answer.created for answer in answers] == [True, False]


async def test_g10_a_key_whose_partition_was_dropped_long_ago_is_not_new(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    draft, other = make_drafts(2)
    await set_clock(connection, draft.due_at.replace(2027, 3), 0)
    await make_partitions(connection, ahead=timedelta(0))  # its month has claims and runs
    await connection.execute("insert into ledger.retired_key values ($1, now())", draft.id)
    await connection.execute(
        "drop table ledger.due_item_202703, ledger.transition_202703;"
        "delete from ledger.partition_span where parent = 'due_item' and starts_on = '2027-03-01'"
    )
    answers = await emit_items(connection, [draft, other], actor_no=actor_no)
    assert [answer.created for answer in answers] == [False, True]
    assert await connection.fetchval("select count(*) from ledger.pending") == 1


async def test_g10_a_key_whose_dropped_month_was_made_again_is_not_new(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    draft, other = make_drafts(2)
    await set_clock(connection, draft.due_at.replace(2027, 3), 0)
    await make_partitions(connection, ahead=timedelta(0))
    await connection.execute("insert into ledger.retired_key values ($1, now())", draft.id)
    await connection.execute(
        "drop table ledger.due_item_202703, ledger.transition_202703;"
        "delete from ledger.partition_span where parent = 'due_item' and starts_on = '2027-03-01'"
    )
    await make_partitions(connection, ahead=timedelta(0))  # as upkeep does

    answers = await emit_items(connection, [draft, other], actor_no=actor_no)

    assert [answer.created for answer in answers] == [False, True]
    assert await find_known_ids(connection, [draft.id, other.id]) == {
        draft.id.bytes,
        other.id.bytes,
    }


async def test_only_emission_into_a_month_without_a_partition_asks_for_retired_keys(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    asked: list[bool] = []
    for day in (date(2027, 3, 1), date(2100, 1, 1)):
        async with connection.transaction():
            before = await connection.fetchval(RETIRED_KEY_SCANS)
            await emit_items(connection, make_drafts(3, effective_date=day), actor_no=actor_no)
            asked.append(await connection.fetchval(RETIRED_KEY_SCANS) > before)
    assert asked == [False, True]


async def test_g2_a_skipped_occurrence_has_its_row_and_its_reason_at_once(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    (answer,) = await skip_items(connection, make_drafts(), ["gap"], actor_no=actor_no)
    shown = await show_item(connection, answer.id)
    assert shown is not None
    assert (shown["state"], shown["detail"]) == (State.SKIPPED.label, {"reason": "gap"})
    assert await connection.fetchval("select count(*) from ledger.pending") == 0


async def test_of_one_batch_what_has_a_reason_is_skipped_and_the_rest_waits(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    """Of a key that is twice in the batch the first decides, whichever way."""
    drafts = make_drafts(4)
    batch = [*drafts, drafts[0], drafts[1]]
    reasons = [None, "catch_up", "gap", None, "catch_up", None]
    answers = await emit_items(connection, batch, actor_no=actor_no, skip_reasons=reasons)
    assert [answer.created for answer in answers] == [True] * 4 + [False] * 2
    shown = [await show_item(connection, draft.id) for draft in drafts]
    assert [(row["state"], row["detail"]) for row in shown if row] == [
        (State.SCHEDULED.label, None),
        (State.SKIPPED.label, {"reason": "catch_up"}),
        (State.SKIPPED.label, {"reason": "gap"}),
        (State.SCHEDULED.label, None),
    ]
    again = await emit_items(
        connection, drafts, actor_no=actor_no, skip_reasons=["gap", None, None, "gap"]
    )
    assert not any(answer.created for answer in again)
    (accounting,) = await read_accounting(connection)
    assert (accounting.pending, accounting.skipped, accounting.difference) == (2, 2, 0)


async def test_a_date_beyond_the_partitions_gets_its_own_from_upkeep(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    far = make_drafts(1, effective_date=date(2187, 6, 30))
    (answer,) = await emit_items(connection, far, actor_no=actor_no)
    assert answer.created
    where = "select tableoid::regclass::text from ledger.due_item where id = $1"
    assert await connection.fetchval(where, answer.id) == "ledger.due_item_default"

    assert await split_default_partition(connection) == (1, 0)

    assert await connection.fetchval(where, answer.id) == "ledger.due_item_2187"
    assert await connection.fetchval("select to_regclass('ledger.transition_2187')") is not None
    (again,) = await emit_items(connection, far, actor_no=actor_no)
    assert not again.created


REFUSED = {
    "effective_date before 1970": ("effective_date", {"effective_date": date(1969, 12, 31)}),
    "effective_date after 2199": ("effective_date", {"effective_date": date(2200, 1, 1)}),
    "due_at before 1970": ("due_at", {"due_at": datetime(1969, 12, 31, 23, tzinfo=UTC)}),
    "due_at after 2199": ("due_at", {"due_at": datetime(2200, 1, 1, tzinfo=UTC)}),
    "payload over 256 KiB": ("payload", {"payload": '"' + "x" * 262_143 + '"'}),
    "payload that is no JSON": ("payload", {"payload": "{"}),
    "tenant with a blank": ("tenant", {"tenant": "a b"}),
    "kind that is empty": ("kind", {"kind": ""}),
    "key with a NUL": ("text", {"prefix": "a\0b"}),
    "key with U+001F": ("business_key", {"prefix": "a\x1fb"}),
    "partition key that is empty": ("partition_key", {"partition_key": ""}),
    "labels over 8 KiB": ("labels", {"labels": '{"a":"' + "x" * 8_192 + '"}'}),
    "payload of a number no jsonb holds": ("value", {"labels": '{"a":1e-20000}'}),
    "key too long": ("business_key", {"prefix": "k" * 512}),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_refused_names_its_field_and_nothing_is_half_written(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts, case: str
) -> None:
    field, terms = REFUSED[case]
    drafts = [*make_drafts(2, prefix="good"), *make_drafts(1, **terms)]
    with pytest.raises(InvalidItem) as refusal:
        await emit_items(connection, drafts, actor_no=actor_no)
    assert refusal.value.fields["field"] == field
    assert field in str(refusal.value) or field == "text"
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0
    assert await connection.fetchval("select count(*) from ledger.pending") == 0


@pytest.mark.parametrize("day", [None, date(1969, 12, 31), date(2200, 1, 1)])
async def test_a_date_that_no_item_may_have_is_refused_under_its_name(
    connection: Connection, actor_no: int, day: date | None
) -> None:
    terms = (["acme"], ["Test"], [""], [1], ["P-1"], ["2027"], [day], [NOON], ["{}"], actor_no)
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await connection.fetch(statement("emit_items"), *terms, *[None] * 15)
    assert (refusal.value.sqlstate, refusal.value.column_name) == ("DL002", "effective_date")


async def test_a_payload_of_exactly_256_kib_is_kept_to_the_letter(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    payload = '{ "b":1,  "a":"' + "é" * 100 + '" }'
    payload += " " * (262_144 - len(payload.encode()))
    (answer,) = await emit_items(connection, make_drafts(payload=payload), actor_no=actor_no)
    shown = await show_item(connection, answer.id)
    assert shown is not None
    assert shown["payload"] == payload


def _as_role(dsn: str, role: str, password: str) -> str:
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:{password}@{host}"))


@pytest.fixture
async def emitter(connection: Connection, database: str, kind: str) -> str:
    """The DSN of a domain service's own login, which may emit and nothing else."""
    role = f"service_{kind.lower()}"
    await connection.execute(f"create role {role} login password 'a' in role ledger_emitter")
    return _as_role(database, role, "a")


async def test_a_domain_service_emits_in_sql_inside_its_own_transaction(
    connection: Connection, emitter: str, kind: str
) -> None:
    service = await asyncpg.connect(emitter)
    emit = "select * from ledger.emit('acme', $1, 'P-1', '2027-03-01', '2027-02-01T09:00Z', $2)"
    transaction = service.transaction()
    await transaction.start()
    await service.fetch(emit, kind, '{"a": 1}')
    await transaction.rollback()
    assert await connection.fetchval("select count(*) from ledger.due_item") == 0

    row = await service.fetchrow(emit, kind, '{"a": 1}')
    again = await service.fetchrow(emit, kind, '{"a": 2}')

    assert row is not None
    assert again is not None
    assert (row["created"], again["created"]) == (True, False)
    shown = await show_item(connection, row["id"])
    assert shown is not None
    assert shown["payload"] == '{"a": 1}'
    assert shown["emitted_by"].startswith("service:")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.fetch("select * from ledger.due_item")
    await service.close()
    await connection.execute(f"alter role {urlsplit(emitter).username} nologin")


async def test_g3_a_simulated_clock_is_refused_to_an_application_role(emitter: str) -> None:
    service = await connect(emitter, application_name="test")
    await service.execute("set ledger.clock = '2030-01-01T00:00Z|2026-01-01T00:00Z|60'")
    with pytest.raises(ClockRefused), mapped_errors():
        await service.fetchval("select ledger.now()")
    with pytest.raises(ClockRefused), mapped_errors():
        await service.fetch(
            "select * from ledger.emit('acme', 'K', 'P-1', '2027-03-01', '2027-02-01T09:00Z')"
        )
    await service.close()


async def test_an_items_timeline_is_in_order(ledger: Ledger) -> None:
    placed = await ledger.place(State.COMPLETED)
    timeline = await item_timeline(ledger.connection, placed.id)
    assert [entry["event"] for entry in timeline] == ["emitted", "claimed", "started", "completed"]
    assert timeline[3]["detail"] == {"reason": "test"}
    assert timeline[1]["fence"] == placed.fence


@pytest.mark.parametrize("at_one_instant", [False, True])
async def test_pages_of_a_timeline_are_its_steps_in_order_also_of_one_instant(
    ledger: Ledger, *, at_one_instant: bool
) -> None:
    if at_one_instant:
        await ledger.stand_at(datetime(2027, 1, 1, tzinfo=UTC))
    (item,) = await ledger.emit()
    for _ in range(4):
        run_no = (await ledger.start((await ledger.claim()).fence)).run_no
        await ledger.settle(run_no, TransitionEvent.FAILED, after_seconds=0)
    await ledger.start((await ledger.claim()).fence)

    whole = await item_timeline(ledger.connection, item)
    counts = Counter(step["event"] for step in whole)
    assert counts == {"emitted": 1, "claimed": 5, "started": 5, "failed": 4}
    for limit in (1, 2, 5, 14):
        steps: list[dict[str, Any]] = []
        place = None
        while page := await item_timeline(ledger.connection, item, after=place, limit=limit):
            assert len(page) <= limit
            steps += page
            place = StepPlace(page[-1]["at"], page[-1]["number"])
        assert steps == whole


async def test_emitters_of_the_same_keys_in_other_orders_never_wait_for_each_other(
    connection: Connection, database: str, actor_no: int, make_drafts: MakeDrafts
) -> None:
    other = await connect(database, application_name="other")
    for number in range(5):
        drafts = make_drafts(500, prefix=f"round-{number}")
        first, second = await asyncio.gather(
            emit_items(connection, drafts, actor_no=actor_no),
            emit_items(other, drafts[::-1], actor_no=actor_no),
        )
        created = [answer.created for answer in (*first, *second)]
        assert created.count(True) == 500
    await other.close()


async def test_no_function_with_its_owners_rights_trusts_a_callers_temporary_schema(
    connection: Connection,
) -> None:
    rows = await connection.fetch(
        "select proname, proconfig from pg_proc"
        " where prosecdef and pronamespace = 'ledger'::regnamespace"
    )
    assert {row["proname"] for row in rows} >= {"emit", "emit_items", "make_partition"}
    for row in rows:
        assert "search_path=pg_catalog, pg_temp" in row["proconfig"], row["proname"]


async def test_an_emitter_cannot_have_its_own_code_run_with_the_owners_rights(
    emitter: str,
) -> None:
    service = await asyncpg.connect(emitter)
    await service.execute(
        "create function pg_temp.evil(v anyelement) returns boolean language plpgsql as $$"
        " begin raise exception 'ran as %', current_user; end $$;"
        ' create domain pg_temp."text" as pg_catalog.text check (pg_temp.evil(value));'
        ' create domain pg_temp."json" as pg_catalog.json check (pg_temp.evil(value));'
    )
    row = await service.fetchrow(
        "select * from ledger.emit('acme', 'K', 'P-1', '2027-03-01', '2027-02-01T09:00Z')"
    )
    assert row is not None
    assert row["created"]
    await service.close()


@pytest.mark.parametrize("profile", PlanProfile)
async def test_isolation_and_durability_are_pinned_whatever_the_databases_defaults(
    connection: Connection, database: str, profile: PlanProfile
) -> None:
    name = urlsplit(database).path.removeprefix("/")
    await connection.execute(
        f"alter database {name} set default_transaction_isolation = 'repeatable read';"
        f"alter database {name} set synchronous_commit = 'off'"
    )
    later = await connect(database, application_name="later", profile=profile)
    assert await later.fetchval("show transaction_isolation") == "read committed"
    assert await later.fetchval("show synchronous_commit") == "on"
    await later.close()


async def test_scattered_dates_make_a_bounded_number_of_partitions(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    spans = await connection.fetch(
        "select distinct ledger.partition_start(day::date) from"
        " generate_series(date '1970-01-01', date '2199-12-31', interval '1 day') day"
    )
    assert len(spans) == 360 + 200
    for day in (date(1970, 1, 1), date(1970, 12, 31), date(2199, 12, 31)):
        drafts = make_drafts(prefix=day.isoformat(), effective_date=day)
        (answer,) = await emit_items(connection, drafts, actor_no=actor_no)
        assert answer.created


async def test_an_ordinary_user_can_hold_up_no_emission_and_no_partition(
    connection: Connection, emitter: str, actor_no: int, make_drafts: MakeDrafts
) -> None:
    """Who may emit can lock what he emitted, and nothing else; who may read, as readers do."""
    service = await asyncpg.connect(emitter)
    await service.execute("select pg_advisory_lock(hashtextextended('ledger.partition', 0))")
    for table in ("partition_span", "due_item", "due_item_default", "transition_default"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(f"begin; lock table ledger.{table} in access share mode")
        await service.execute("rollback")
    emit = "select * from ledger.emit('acme', 'K', $1, '2040-05-01', '2027-02-01T09:00Z')"
    await connection.execute("set lock_timeout = '100ms'")
    await service.fetch(emit, "committed")
    transaction = service.transaction()
    await transaction.start()
    await service.fetch(emit, "held")

    far = make_drafts(effective_date=date(2040, 5, 2))
    (answer,) = await emit_items(connection, far, actor_no=actor_no)
    assert answer.created
    assert await split_default_partition(connection) == (0, 1)
    other = make_drafts(effective_date=date(2040, 6, 2), prefix="other")
    assert (await emit_items(connection, other, actor_no=actor_no))[0].created

    await transaction.commit()
    assert await split_default_partition(connection) == (2, 0)
    await service.close()


async def test_a_trace_context_that_is_none_is_ignored(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    drafts = [
        replace(make_drafts(prefix="good")[0], traceparent=good),
        replace(make_drafts(prefix="bad")[0], traceparent="x" * 20_000),
    ]
    answers = await emit_items(connection, drafts, actor_no=actor_no)
    shown = [await show_item(connection, answer.id) for answer in answers]
    assert [item and item["traceparent"] for item in shown] == [good, None]
