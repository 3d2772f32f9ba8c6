"""A process that sleeps is woken by what it could claim earlier, and nobody else is notified."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime
from typing import Final

import pytest

from dueledger.allocator.settings import AllocatorSettings
from dueledger.ledger import sleep
from dueledger.ledger.outbox import RelaySettings
from dueledger.ledger.presence import Presence
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.sleep import (
    POLLS_COMPARED,
    RENEW_SECONDS,
    SLEEP_SECONDS,
    WAKES_MAX,
    PollDuration,
    Sleep,
)
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import list_due_flows, reap_claims, release_claims
from dueledger.ledger.store.items import emit_items, skip_items
from dueledger.ledger.store.partitions import recover_items
from dueledger.ledger.store.processes import ProcessRole, WokenFlow
from dueledger.ledger.store.reviews import redrive_items
from dueledger.workers.direct.settings import DirectSettings
from tests.claim_ids import claim_ids

from .conftest import Ledger

Emit = Callable[[Connection, list[ItemDraft]], Awaitable[None]]
MakeDrafts = Callable[..., list[ItemDraft]]
Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]

NAME: Final = "allocator:host:1:abcd"
KILL: Final = """
    select count(pg_terminate_backend(a.pid, 5000)) from pg_stat_activity a
    where a.datname = current_database() and a.application_name = $1
"""
WAITS: Final = """
    select count(*) from pg_stat_activity a
    where a.datname = current_database() and a.application_name = $1
      and cardinality(pg_blocking_pids(a.pid)) > 0
"""
LONG: Final = 3600.0
LATER: Final = datetime(2190, 1, 1, tzinfo=UTC)


class Sleeper:
    """A process that sleeps as an allocator does, and how often it was woken."""

    def __init__(self, presence: Presence, kinds: list[str] | None) -> None:
        self.presence = presence
        self.sleep = Sleep(presence, kinds)
        self.woken = asyncio.Event()
        self.count = 0
        self.flows: list[WokenFlow | None] = []
        presence.on_woken(self._on_woken)

    def _on_woken(self, flow: WokenFlow | None) -> None:
        self.count += 1
        self.flows.append(flow)
        self.woken.set()

    async def fall_asleep(self) -> None:
        while not self.sleep.is_asleep:
            await self.sleep.pause_seconds(LONG, poll_seconds=0.001)

    async def heard(self) -> int:
        """Return how often it was woken, after all notifications that were sent have arrived."""
        await self.presence.is_seen_by_all(0)
        return self.count


@asynccontextmanager
async def open_sleeper(dsn: str, *kinds: str) -> AsyncGenerator[Sleeper]:
    role = ProcessRole.DIRECT_WORKER if kinds else ProcessRole.ALLOCATOR
    presence = Presence(dsn, NAME, role)
    await presence.open()
    yield Sleeper(presence, list(kinds) or None)
    await presence.close()


@pytest.fixture
def _stopped_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let notifications come at one time, however slow the machine is."""
    monkeypatch.setattr(sleep, "monotonic", lambda: 0.0)


@pytest.fixture
async def sleeper(database: str) -> AsyncGenerator[Sleeper]:
    async with open_sleeper(database) as opened:
        yield opened


@pytest.fixture
async def other(database: str) -> AsyncGenerator[Connection]:
    opened = await connect(database, application_name="other")
    yield opened
    await opened.close()


@pytest.fixture(params=["batch", "one"])
async def emit(
    request: pytest.FixtureRequest, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> Emit:
    """A batch, or one call for each item, of a flow that exists."""
    if request.param == "batch":

        async def by_batch(emitting: Connection, drafts: list[ItemDraft]) -> None:
            await emit_items(emitting, drafts, actor_no=actor_no)

        return by_batch

    async def one_by_one(emitting: Connection, drafts: list[ItemDraft]) -> None:
        for draft in drafts:
            identity = (draft.tenant, draft.kind, draft.business_key, draft.effective_date)
            await emitting.execute(
                "select ledger.emit($1, $2, $3, $4, $5)", *identity, draft.due_at
            )

    await one_by_one(connection, make_drafts(prefix="first"))
    await connection.execute("delete from ledger.pending; delete from ledger.due_item")
    return one_by_one


async def test_g9_an_item_that_an_open_transaction_emitted_before_the_sleep_is_polled_for(
    sleeper: Sleeper,
    connection: Connection,
    other: Connection,
    emit: Emit,
    make_drafts: MakeDrafts,
) -> None:
    transaction = other.transaction()
    await transaction.start()
    await emit(other, make_drafts())  # while the allocator is awake
    pauses = [await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001) for _ in range(4)]
    unseen = await list_due_flows(connection, 10)
    asleep_before = sleeper.sleep.is_asleep
    await transaction.commit()
    after = await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001)
    assert 0 < max(pauses) < 1  # it polls
    assert (unseen, asleep_before) == ([], False)
    assert after == 0  # it polls once more, and finds the item
    assert len(await list_due_flows(connection, 10)) == 1
    assert sleeper.sleep.is_asleep
    assert 1 < await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001) < SLEEP_SECONDS


async def test_g9_a_transaction_that_began_before_the_sleep_and_emits_in_it_wakes(
    sleeper: Sleeper, other: Connection, emit: Emit, make_drafts: MakeDrafts
) -> None:
    async with other.transaction():
        assert await other.fetchval("select pg_current_xact_id_if_assigned()") is None
        await sleeper.fall_asleep()
        await emit(other, make_drafts())
        early = await sleeper.heard()
    await sleeper.woken.wait()
    assert early == 0


async def test_g9_an_item_emitted_before_the_registration_is_committed_is_polled_for(
    sleeper: Sleeper,
    connection: Connection,
    other: Connection,
    emit: Emit,
    make_drafts: MakeDrafts,
    eventually: Eventually,
) -> None:
    holding, emitting = connection.transaction(), other.transaction()
    await holding.start()
    await connection.execute("select from ledger.process for update")
    pausing = asyncio.create_task(sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001))
    await eventually(lambda: other.fetchval(WAITS, NAME))
    await emitting.start()
    await emit(other, make_drafts())
    await holding.commit()
    pause = await pausing
    asleep = sleeper.sleep.is_asleep
    await emitting.commit()
    assert (asleep, 0 < pause < LONG) == (False, True)


async def test_only_items_available_within_the_sleep_wake_and_one_statement_wakes_once(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    await emit_items(connection, make_drafts(due_at=LATER), actor_no=actor_no)
    await skip_items(connection, make_drafts(prefix="skipped"), ["gap"], actor_no=actor_no)
    later = await sleeper.heard()
    await emit_items(connection, make_drafts(20, prefix="due"), actor_no=actor_no)
    assert (later, await sleeper.heard()) == (0, 1)


async def test_only_an_item_that_is_due_within_the_sleep_wakes(
    sleeper: Sleeper, connection: Connection, emit: Emit, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    await emit(connection, make_drafts(due_at=LATER))
    later = await sleeper.heard()
    await emit(connection, make_drafts(prefix="due"))
    new = await sleeper.heard()
    await emit(connection, make_drafts(prefix="due"))
    assert (later, new, await sleeper.heard()) == (0, 1, 1)


async def test_a_notification_names_the_flow_of_items_that_are_due(
    sleeper: Sleeper, connection: Connection, emit: Emit, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    emitted_from = await connection.fetchval("select date_trunc('second', ledger.now())")
    await emit(connection, make_drafts())
    soon = await connection.fetchval("select ledger.now() + interval '5 seconds'")
    await emit(connection, make_drafts(due_at=soon, prefix="soon"))
    await sleeper.heard()
    due, later = sleeper.flows
    rows = await connection.fetch("select flow_no, available_at from ledger.pending order by 2")
    assert due is not None
    assert due.flow_no == rows[0]["flow_no"]
    assert emitted_from <= due.since <= rows[0]["available_at"]
    assert later is None


async def test_a_notification_of_several_flows_names_none(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    lanes = [*make_drafts(), *make_drafts(lane="other")]
    await emit_items(connection, lanes, actor_no=actor_no)
    for payload in ("", "1", "1 x", "1 2 3", f"1 {10**30}", "x" * 100):
        await connection.execute(
            "select pg_notify('ledger_process_' || $1::bigint, $2)",
            sleeper.presence.process_no,
            payload,
        )
    await sleeper.heard()
    assert sleeper.flows == [None] * 7


async def _release(ledger: Ledger) -> None:
    placed = await ledger.place(State.CLAIMED)
    claims = await claim_ids(ledger.connection, [placed.fence])
    await release_claims(ledger.connection, claims, ledger.worker_no)


async def _reap(ledger: Ledger) -> None:
    await ledger.place(State.CLAIMED)
    await ledger.end_leases()
    await reap_claims(ledger.connection, 10, ledger.worker_no)


async def _fail(ledger: Ledger) -> None:
    placed = await ledger.place(State.RUNNING)
    await ledger.settle(placed.run_no, TransitionEvent.FAILED, after_seconds=0)


async def _redrive(ledger: Ledger) -> None:
    placed = await ledger.place(State.MANUAL_REVIEW)
    await redrive_items(ledger.connection, [placed.id], reason="test", actor_no=ledger.worker_no)


async def _recover(ledger: Ledger) -> None:
    await ledger.emit()
    await ledger.connection.execute("delete from ledger.pending")
    days = date(1970, 1, 1), date(2200, 1, 1)
    await recover_items(ledger.connection, *days, limit=10, actor_no=ledger.worker_no)


@pytest.mark.parametrize("put_back", [_release, _reap, _fail, _redrive, _recover])
async def test_whatever_makes_an_item_pending_again_wakes(
    sleeper: Sleeper, ledger: Ledger, put_back: Callable[[Ledger], Awaitable[None]]
) -> None:
    await sleeper.fall_asleep()
    await put_back(ledger)
    assert await sleeper.heard() == 2  # its emission woke, too


async def test_a_retry_that_is_available_within_the_sleep_wakes(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(due_at=LATER), actor_no=actor_no)
    await sleeper.fall_asleep()
    await connection.execute("update ledger.pending set state = 4, available_at = ledger.now()")
    assert await sleeper.heard() == 1


@pytest.mark.usefixtures("_stopped_watch")
async def test_nobody_notifies_a_process_that_is_woken_too_often(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(), actor_no=actor_no)
    before = await sleeper.heard()
    await sleeper.fall_asleep()
    asleep = [await _is_asleep_after(sleeper, WAKES_MAX - 1), await _is_asleep_after(sleeper, 1)]
    pause = await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001)
    await emit_items(connection, make_drafts(prefix="again"), actor_no=actor_no)
    assert (before, asleep, pause, await sleeper.heard()) == (0, [True, False], 0.01, 0)


@pytest.mark.usefixtures("_stopped_watch")
async def test_a_process_whose_polls_take_long_is_woken_less_often(sleeper: Sleeper) -> None:
    await sleeper.fall_asleep()
    asleep = [await _is_asleep_after(sleeper, 1, poll_seconds=0.02) for _ in range(2)]
    pause = await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.02)
    assert (asleep, pause) == ([True, False], 0.2)


async def _is_asleep_after(sleeper: Sleeper, wakes: int, *, poll_seconds: float = 0.001) -> bool:
    for _ in range(wakes):
        sleeper.sleep.woken()
    await sleeper.sleep.end_if_busy(poll_seconds=poll_seconds)
    return sleeper.sleep.is_asleep


async def test_a_direct_worker_is_woken_by_its_own_kinds_only(
    database: str, connection: Connection, actor_no: int, kind: str, make_drafts: MakeDrafts
) -> None:
    async with open_sleeper(database, kind) as worker:
        await worker.fall_asleep()
        own_later = make_drafts(due_at=LATER, prefix="later")
        await emit_items(connection, [*make_drafts(kind="Other"), *own_later], actor_no=actor_no)
        others = await worker.heard()
        await emit_items(connection, make_drafts(), actor_no=actor_no)
        assert (others, await worker.heard()) == (0, 1)


async def test_g9_a_process_whose_connection_is_lost_in_its_sleep_is_awake(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    await connection.fetchval(KILL, NAME)
    await sleeper.woken.wait()
    assert not sleeper.sleep.is_asleep
    with suppress(Exception):  # the first use of the lost connection may be the one that fails
        await sleeper.presence.tick()
    await sleeper.presence.tick()
    await sleeper.fall_asleep()
    before = sleeper.count
    await emit_items(connection, make_drafts(), actor_no=actor_no)
    assert await sleeper.heard() == before + 1


async def test_a_transaction_that_will_be_prepared_can_leave_the_notification_out(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    async with connection.transaction():
        await connection.execute("set local ledger.wakes = off")
        await emit_items(connection, make_drafts(), actor_no=actor_no)
    assert await sleeper.heard() == 0


async def test_a_process_polls_before_its_registered_sleep_ends(
    sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 0.0
    monkeypatch.setattr(sleep, "monotonic", lambda: at)
    await sleeper.fall_asleep()
    at = RENEW_SECONDS - 0.001  # the sleep is not renewed yet
    pause = await sleeper.sleep.pause_seconds(LONG, poll_seconds=0.001)
    assert at < at + pause <= SLEEP_SECONDS
    for settings, name in [
        (AllocatorSettings, "allocator_idle_seconds"),
        (DirectSettings, "direct_idle_seconds"),
        (RelaySettings, "relay_idle_seconds"),
    ]:
        assert settings.model_json_schema()["properties"][name]["maximum"] <= pause


async def test_a_sleep_ends_by_itself(
    sleeper: Sleeper, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await sleeper.fall_asleep()
    sleeps_until = await connection.fetchval("select sleeps_until from ledger.process")
    ended = "update ledger.process set sleeps_until = ledger.now() - interval '1 second'"
    await connection.execute(ended)
    await emit_items(connection, make_drafts(), actor_no=actor_no)
    assert sleeps_until is not None
    assert await sleeper.heard() == 0


def test_a_poll_that_waits_for_a_core_postpones_no_other() -> None:
    duration = PollDuration()
    least = [duration.seconds]
    for seconds in (0.003, 0.08, 0.002, *[0.05] * POLLS_COMPARED):
        duration.add(seconds)
        least.append(duration.seconds)
    assert least == [0.0, 0.003, 0.003, *[0.002] * POLLS_COMPARED, 0.05]
