"""Direct mode: the same handlers, journal and fences, and no Kafka anywhere."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from dueledger import Completed, DueItem, Handlers, Retry, Verdict
from dueledger.definitions.files import read_definitions
from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.items import RequestResult, withdraw_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.reconciler import Reconciler, ReconcilerSources
from dueledger.reconciler.report.model import StatementVerdict
from dueledger.workers.process import run_direct_worker
from tests.logins import with_login

from .conftest import NOBODY, Estate

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def completing(kind: str, seen: list[DueItem], **options: int) -> Handlers:
    """Complete in batches, and remember the items."""
    handlers = Handlers()

    @handlers.on_batch(kind, **options)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        seen.extend(items)
        return [Completed({"position": item.position}) for item in items]

    return handlers


async def test_g9_a_hard_end_blames_the_item_in_its_call_and_releases_those_behind_it(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(8))
    await estate.set_kind(run_seconds=1)
    await estate.connection.execute("update ledger.pending set state = 4, attempt = 1, starts = 1")
    handlers = Handlers()

    @handlers.on_batch(estate.kind, batch_max=8, concurrency=1, timeout_seconds=60)
    async def wait(items: list[DueItem]) -> Sequence[Verdict]:  # one by one: they failed before
        await asyncio.Event().wait()
        return [Completed() for _ in items]

    await estate.work(handlers)

    async def ended() -> list[tuple[int, int]]:
        rows = await estate.connection.fetch(
            "select event, attempt from ledger.transition"
            " where run_no = (select min(run_no) from ledger.run) order by event, attempt"
        )
        return [tuple(row) for row in rows] if len(rows) == 8 else []

    released, overran = TransitionEvent.RELEASED, TransitionEvent.TIMED_OUT
    assert await estate.eventually(ended) == [*[(released, 2)] * 7, (overran, 2)]


async def test_a_handler_is_shown_what_was_emitted_byte_for_byte(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    payload = '{"premium":  "123.45", "note":"façade ✓"}'
    draft = ItemDraft(
        tenant="acme",
        kind=estate.kind,
        business_key="POL-1",
        cycle="2027",
        effective_date=date(2027, 3, 1),
        due_at=datetime(1999, 12, 31, 9, 30, 0, 123_456, tzinfo=UTC),
        payload=payload,
        traceparent=TRACEPARENT,
    )
    await estate.emit([draft, *make_drafts(1)])
    seen: list[DueItem] = []
    worker = await estate.employ(completing(estate.kind, seen))
    await worker.claim()
    await worker.settle()
    (item,) = (item for item in seen if item.business_key == "POL-1")
    assert item.payload == payload.encode()
    assert item.json() == json.loads(payload)
    assert (item.tenant, item.kind, item.cycle) == ("acme", estate.kind, "2027")
    assert (item.effective_date, item.due_at) == (draft.effective_date, draft.due_at)
    assert (item.attempt, item.retries, item.traceparent) == (1, 0, TRACEPARENT)
    assert item.id == item_id("acme", estate.kind, "POL-1", "2027", draft.effective_date)
    (other,) = (item for item in seen if item.business_key != "POL-1")
    assert other.traceparent is None
    assert await estate.completed() == 2


async def test_g4_g7_one_claim_and_one_run_record_who_claimed_and_settled_which_item(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(30))
    seen: list[DueItem] = []
    worker = await estate.employ(completing(estate.kind, seen))
    await worker.claim()
    assert await estate.completed() == 0
    await worker.settle()
    claim = await estate.connection.fetchrow("select * from ledger.claim")
    run = await estate.connection.fetchrow("select * from ledger.run")
    assert claim is not None
    assert run is not None
    assert (claim["size"], claim["started"], claim["published_at"]) == (30, 30, None)
    assert claim["closed_at"] is not None
    assert (claim["topic"], claim["base_offset"]) == ("direct", None)
    assert (run["fence"], run["from_position"], run["to_position"]) == (claim["fence"], 1, 30)
    assert run["worker_no"] == claim["allocator_no"]
    assert run["closed_at"] is not None
    rows = await estate.connection.fetch(
        """
        select i.business_key, t.detail -> 'position' as position
        from ledger.transition t join ledger.due_item i using (effective_date, item_no)
        where t.event = $1
        """,
        TransitionEvent.COMPLETED,
    )
    positions = {row["business_key"]: row["position"] for row in rows}
    assert positions == {item.business_key: item.position for item in seen}
    in_claim = await estate.connection.fetch(
        """
        select i.business_key from ledger.claim c
        cross join lateral unnest(c.item_no) with ordinality u (number, position)
        join ledger.due_item i on i.item_no = u.number order by u.position
        """
    )
    assert [row["business_key"] for row in in_claim] == sorted(
        positions, key=lambda key: positions[key]
    )


async def test_one_tenants_hard_end_ends_no_other_tenants_run(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    for tenant, seconds in (("acme", 1.5), ("umbra", None), ("zeta", None)):
        policy = KindPolicy(tenant, estate.kind, run_seconds=seconds)
        await put_kind_policy(estate.connection, policy)
        await estate.emit(make_drafts(2, tenant=tenant, prefix=tenant))
    seen: list[DueItem] = []
    worker = await estate.employ(completing(estate.kind, seen))
    await worker.claim()
    await worker.settle()
    runs = await estate.connection.fetch(
        "select to_position as items, run_until is not null as ends from ledger.run"
    )
    assert sorted(map(tuple, runs)) == [(2, True), (4, False)]
    assert await estate.completed() == 6


async def test_g3_the_databases_clock_decides_what_is_due(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    now = await estate.connection.fetchval("select ledger.now()")
    await estate.emit(make_drafts(1, due_at=now - timedelta(days=1)))
    await set_clock(estate.connection, now - timedelta(days=2), 1.0, database=True)
    seen: list[DueItem] = []
    async with open_pool(estate.dsn, application_name="two days ago") as pool:
        worker = await estate.employ(completing(estate.kind, seen), pool=pool)
        for _ in range(3):
            await worker.claim()
        assert seen == []
    await set_clock(estate.connection, now + timedelta(hours=1), 1.0, database=True)
    async with open_pool(estate.dsn, application_name="today") as pool:
        worker = await estate.employ(completing(estate.kind, seen), pool=pool)
        await worker.claim()
        await worker.settle()
        assert len(seen) == 1


async def test_it_wakes_when_the_next_item_is_due(estate: Estate, make_drafts: MakeDrafts) -> None:
    now = await estate.connection.fetchval("select ledger.now()")
    soon = [now + timedelta(seconds=0.3 + number / 20) for number in range(10)]
    for number, due_at in enumerate(soon):
        await estate.emit(make_drafts(1, due_at=due_at, prefix=f"soon-{number}"))
    await estate.work(completing(estate.kind, []), direct_idle_seconds=5.0)
    await estate.until_completed(10)
    early = await estate.connection.fetchval(
        """
        select count(*) from ledger.transition t
        join ledger.due_item i using (effective_date, item_no)
        join ledger.run r on r.run_no = t.run_no
        where r.started_at < i.due_at
        """
    )
    assert early == 0


async def test_it_claims_no_more_than_the_capacity_of_its_pool(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(50))
    going = asyncio.Event()
    handlers = Handlers()

    @handlers.on(estate.kind, concurrency=3)
    async def wait(item: DueItem) -> Verdict:
        await going.wait()
        return Completed({"key": item.business_key})

    worker = await estate.employ(handlers)
    for _ in range(3):
        await worker.claim()
    assert await estate.count("ledger.pending") == 47
    going.set()
    stop = await estate.work(handlers)
    while worker.runs:
        await worker.settle()
    await estate.until_completed(50)
    assert not stop.is_requested


@pytest.mark.parametrize("form", ["single", "thread", "batch", "transaction"])
async def test_every_form_of_handler_completes_its_items_once(
    estate: Estate, make_drafts: MakeDrafts, form: str
) -> None:
    await estate.emit(make_drafts(40))
    worker = {"single": one, "thread": threaded, "batch": batched, "transaction": booked}[form]
    await estate.work(worker(estate.kind))
    await estate.until_completed(40)
    claims = await estate.connection.fetch("select size from ledger.claim")
    if form == "transaction":
        assert await estate.count("public.effect") == 40
        assert [row["size"] for row in claims] == [1] * 40
    assert sum(row["size"] for row in claims) == 40


def one(kind: str) -> Handlers:
    handlers = Handlers()

    @handlers.on(kind, concurrency=7)
    async def work(item: DueItem) -> Verdict:
        return Completed({"key": item.business_key})

    return handlers


def threaded(kind: str) -> Handlers:
    handlers = Handlers()

    @handlers.on(kind, concurrency=7)
    def work(item: DueItem) -> Verdict:
        return Completed({"key": item.business_key})

    return handlers


def batched(kind: str) -> Handlers:
    return completing(kind, [], batch_max=7, concurrency=2)


def booked(kind: str) -> Handlers:
    handlers = Handlers()

    @handlers.on_transaction(kind, concurrency=7)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        await connection.execute("insert into public.effect (item) values ($1)", item.id)
        return Completed()

    return handlers


async def test_a_cancellation_asked_for_in_flight_is_honoured_at_the_next_start(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(3))
    cancelled: list[DueItem] = []
    answers: list[RequestResult] = []
    handlers = Handlers()

    @handlers.on_batch(estate.kind, backoff_base_seconds=0.001, backoff_cap_seconds=0.001)
    async def fail(items: list[DueItem]) -> Sequence[Verdict]:
        if not cancelled:
            cancelled.append(items[0])
            async with estate.pool.acquire() as connection:
                (answered,) = await withdraw_items(
                    connection,
                    [items[0].id],
                    event=TransitionEvent.CANCELLED,
                    reason="sold",
                    actor_no=estate.actor_no,
                )
            answers.append(answered.result)
            return [Retry(after_seconds=0.0) for _ in items]
        return [Completed() for _ in items]

    worker = await estate.employ(handlers)
    while await estate.count("ledger.pending") or worker.runs:
        await worker.claim()
        await worker.settle()
    assert answers == [RequestResult.REQUESTED]
    events = await estate.events()
    assert events.pop(cancelled[0].business_key) == ["failed", "cancelled"]
    assert list(events.values()) == [["failed", "completed"]] * 2
    assert worker.counts.withdrawn == 1
    assert await estate.count("ledger.withdrawal") == 0
    assert await estate.completed() == 2


async def test_a_run_whose_every_item_was_withdrawn_is_closed_at_once(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(2))
    # As when a run was lost while the request stood.
    await estate.connection.execute(
        "insert into ledger.withdrawal (item_no, effective_date, event, reason, actor_no,"
        " requested_at) select item_no, effective_date, $1, 'sold', $2, ledger.now()"
        " from ledger.pending",
        TransitionEvent.CANCELLED,
        estate.actor_no,
    )
    seen: list[DueItem] = []
    worker = await estate.employ(completing(estate.kind, seen))
    await worker.claim()
    assert seen == []
    assert worker.runs == {}
    assert await estate.open_runs() == 0
    assert set(map(tuple, (await estate.events()).values())) == {("cancelled",)}
    assert await estate.completed() == 0


async def test_retries_have_a_share_beside_first_attempts_and_never_crowd_them_out(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(400, prefix="first"))
    await estate.emit(make_drafts(400, prefix="retry"))
    await estate.connection.execute(
        "update ledger.pending p set state = 4, attempt = 1, starts = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like 'retry%'"
    )
    seen: list[DueItem] = []
    worker = await estate.employ(
        completing(estate.kind, seen, batch_max=100, concurrency=1), direct_claim_items_max=100
    )
    while len(seen) < 400:
        await worker.claim()
        await worker.settle()
    firsts = sum(item.business_key.startswith("first") for item in seen[:400])
    assert 300 <= firsts <= 340
    assert {item.attempt for item in seen} == {1, 2}


async def test_a_definition_may_say_direct_and_no_allocator_takes_its_items(
    estate: Estate, make_drafts: MakeDrafts, tmp_path: Path
) -> None:
    document = tmp_path / "definition.yaml"
    document.write_text(
        f"definition: nightly\ntenant: acme\nkind: {estate.kind}\nbusiness_key: all\n"
        "when: {cron: '30 2 * * *', timezone: UTC}\ndispatch: {direct: {}}\n"
    )
    await put_in_force(estate.connection, read_definitions(document), actor_no=estate.actor_no)
    await estate.emit(make_drafts(1))
    assert await list_due_flows(estate.connection, 10) == []
    (flow,) = await list_due_flows(estate.connection, 10, [estate.kind])
    assert (flow.kind, flow.is_limited) == (estate.kind, False)
    worker = await estate.employ(completing(estate.kind, []))
    await worker.claim()
    await worker.settle()
    assert await estate.completed() == 1


async def test_g11_a_declared_kind_is_emitted_in_sql_worked_and_found_complete(
    estate: Estate, tmp_path: Path
) -> None:
    document = tmp_path / "letters.yaml"
    document.write_text(
        f"kind: {estate.kind}\ntenant: acme\nretry: {{attempt_max: 3}}\n"
        "deadlines: {run: PT2H}\ndispatch: {direct: {}}\n"
    )
    connection = estate.connection
    await put_in_force(connection, read_definitions(document), actor_no=estate.actor_no)
    await connection.execute(
        "select ledger.emit(tenant => 'acme', kind => $1, business_key => 'INV-1',"
        " effective_date => current_date, due_at => ledger.now())",
        estate.kind,
    )
    (kind,) = await connection.fetch("select * from ledger.kind")
    assert (kind["dispatch"], kind["attempt_max"], kind["run_seconds"]) == ("direct", 3, 7_200)
    assert await estate.count("ledger.materialised") == 0
    worker = await estate.employ(completing(estate.kind, []))
    await worker.claim()
    await worker.settle()
    assert await estate.completed() == 1

    name = "reconciler:test"
    reconciler_no = await register_actor(connection, name, ActorKind.RECONCILER)
    dsn = with_login(estate.dsn, "reconciler")
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        reconciler = Reconciler(pool, ReconcilerSources(), reconciler_no)
        assert (await reconciler.run_pass()).open_found == 0
        report = await reconciler.report()
    (row,) = report.accounting
    assert report.statement.verdict is not StatementVerdict.NOT_COMPLETE
    assert (row.completed, row.unchecked, row.checks.existence) == (1, 1, False)


async def test_items_of_kinds_that_it_has_no_handler_for_are_left_alone(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(2), *make_drafts(2, kind="Elsewhere")])
    seen: list[DueItem] = []
    worker = await estate.employ(completing(estate.kind, seen))
    for _ in range(3):
        await worker.claim()
    assert {item.kind for item in seen} == {estate.kind}
    assert await estate.count("ledger.pending") == 2


async def test_no_kafka_anywhere(estate: Estate, make_drafts: MakeDrafts) -> None:
    asked = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await estate.emit(make_drafts(40))
    await estate.work(completing(estate.kind, []), bootstrap_servers=f"127.0.0.1:{port}")
    await estate.until_completed(40)
    server.close()
    assert asked == 0
    assert estate.settings.bootstrap_servers == NOBODY


async def test_one_pass_from_the_command_line_without_any_address_of_kafka(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(100))
    worker = await estate.start_process("batch", "--once")
    assert worker.process.piped is not None
    printed = await worker.process.piped.read()
    assert await worker.ended() == 0
    assert json.loads(printed)["settled"] == 100
    assert await estate.completed() == 100
    assert await estate.count("public.seen") == 100


async def test_a_pass_whose_claims_fail_raises_their_error(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1))
    await estate.connection.execute("revoke insert on ledger.claim from ledger_allocator")
    handlers = Handlers()

    @handlers.on(estate.kind)
    async def complete(item: DueItem) -> Verdict:
        del item
        return Completed()

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="table claim"):
        await run_direct_worker(estate.settings, handlers, Stop(), once=True)


async def test_upkeep_of_a_direct_worker_keeps_keys_of_events_for_as_long_as_is_set(
    estate: Estate,
) -> None:
    await estate.connection.execute(
        "insert into ledger.event_key (tenant, source, id, occurred_at, received_at)"
        " values ('acme', '/policies', '1', now(), now() - interval '31 days')"
    )
    worker = await estate.employ(Handlers(), event_key_days=30)
    assert (await worker.run_upkeep())["event_keys"] == 1
