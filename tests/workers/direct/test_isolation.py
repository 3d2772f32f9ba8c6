"""Suspects run in a process of their own: it dies instead of the worker, and names the cause."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dueledger import Completed, DueItem, Handlers
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.workers import worker
from dueledger.workers.process import run_direct_worker
from dueledger.workers.run import isolated_calls

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]

pytestmark = pytest.mark.long

GATE = 7
KILLED = "died by signal 9 (SIGKILL)"
CRASHED = "died by signal 11 (SIGSEGV)"
ENDED = "ended with code 0"
SLOW = pytest.mark.full
LEASE_OVER = timedelta(minutes=5)


async def suspect(estate: Estate, prefix: str, batch_max: int = 64) -> None:
    """Make suspects of items: a worker died with them."""
    await estate.connection.execute(
        "update ledger.pending p set batch_max = $2, state = 4, starts = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like $1 || '%'",
        prefix,
        batch_max,
    )


async def failures(estate: Estate) -> list[dict[str, str]]:
    """Return the details of all counted attempts, of whatever item."""
    rows = await estate.connection.fetch(
        "select i.business_key, t.detail ->> 'error' as error, t.detail ->> 'message' as message"
        " from ledger.transition t join ledger.due_item i using (effective_date, item_no)"
        " where t.event = any ($1) order by t.at",
        [TransitionEvent.FAILED, TransitionEvent.TIMED_OUT, TransitionEvent.PARKED],
    )
    return [dict(row) for row in rows]


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended, and its parent has not seen it."""
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


async def test_a_worker_that_stops_waits_for_no_check_of_its_isolated_process(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it leaves its group, nobody works its partitions."""
    longer_than_the_test = 1_000_000.0
    monkeypatch.setattr(isolated_calls, "CHECK_SECONDS", longer_than_the_test)
    monkeypatch.setattr(worker, "CLOSE_SECONDS", longer_than_the_test)
    handlers, stop = Handlers(places=["tests:handlers"]), Stop()

    @handlers.on(estate.kind)
    async def work(_: DueItem) -> Completed:
        return Completed()

    await estate.emit(make_drafts(1))
    working = asyncio.create_task(run_direct_worker(estate.settings, handlers, stop))
    await estate.until_completed(1)
    stop.request()
    async with asyncio.timeout(60):
        await working


@pytest.mark.parametrize(
    ("form", "end", "error"),
    [
        ("chunk", "kill", f"its process {KILLED} while it ran alone"),
        pytest.param("transaction", "kill", f"its process {KILLED} while it ran alone", marks=SLOW),
        pytest.param("single", "kill", f"its process {KILLED} while it ran alone", marks=SLOW),
        pytest.param("thread", "segfault", f"its process {CRASHED} while it ran alone", marks=SLOW),
        pytest.param("batch", "exit", f"its process {ENDED} while it ran alone", marks=SLOW),
    ],
)
async def test_g5_g9_of_suspects_the_one_that_ends_its_process_is_named_and_the_worker_lives(
    estate: Estate, form: str, end: str, error: str, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(40), *make_drafts(1, prefix="poison")])
    await estate.set_kind(attempt_max=1)
    await suspect(estate, "")
    worker = await estate.start_process(form, module="isolating", TEST_END=end)
    await estate.until_completed(40)

    async def parked() -> bool:
        return list(await estate.reviews()) == ["poison-000000"]

    await estate.eventually(parked)
    assert await failures(estate) == [
        {"business_key": "poison-000000", "error": "HandlerProcessDied", "message": error}
    ]
    attempts = "(select from ledger.transition where attempt <> 1) t"
    assert await estate.count(attempts) == 0
    if form in ("transaction", "chunk"):
        assert await estate.count("public.effect") == 40
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0


@SLOW
async def test_g9_a_suspect_is_retried_by_itself_until_its_cap_of_attempts(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(10), *make_drafts(1, prefix="poison")])
    await estate.set_kind(attempt_max=3)
    await suspect(estate, "")
    await estate.start_process("single", module="isolating")
    await estate.until_completed(10)
    reviews = await estate.eventually(estate.reviews)
    assert list(reviews) == ["poison-000000"]
    assert [row["error"] for row in await failures(estate)] == ["HandlerProcessDied"] * 3


async def test_ordinary_items_are_worked_while_a_suspect_runs(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.connection.execute(f"select pg_advisory_lock({GATE})")
    await estate.emit([*make_drafts(3, prefix="suspect"), *make_drafts(100, prefix="plain")])
    await suspect(estate, "suspect", batch_max=1)
    await estate.start_process("waiting", module="isolating")
    await estate.until_completed(100)

    async def one_runs() -> bool:
        return await estate.count("public.seen") == 101

    await estate.eventually(one_runs)
    assert await estate.completed() == 100
    await estate.connection.execute(f"select pg_advisory_unlock({GATE})")
    await estate.until_completed(103)
    assert await estate.count("(select distinct pid from public.seen) p") == 2


async def test_waiting_claims_of_suspects_are_started_together(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    drafts = make_drafts(30)
    await put_kind_policy(estate.connection, KindPolicy("acme", estate.kind, ordering="key"))
    await estate.emit([replace(draft, partition_key=draft.business_key) for draft in drafts])
    await suspect(estate, "", batch_max=1)
    await estate.start_process("single", module="isolating")
    await estate.until_completed(30)
    assert await estate.count("ledger.claim") == 30
    assert await estate.count("(select distinct xmin::text from ledger.claim) s") < 10


async def test_g9_a_suspect_that_blocks_its_process_fails_by_its_timeout(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1, prefix="poison"))
    await estate.set_kind(attempt_max=1)
    await suspect(estate, "poison")
    worker = await estate.start_process(
        "single", module="isolating", TEST_END="block", TEST_TIMEOUT="1"
    )
    await estate.eventually(estate.reviews)
    (failure,) = await failures(estate)
    assert failure["error"] == "HandlerTimeout"
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0


@SLOW
async def test_g9_a_thread_that_never_returns_is_ended_with_its_process(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(1, prefix="poison"), *make_drafts(5)])
    await estate.set_kind(attempt_max=1)
    await suspect(estate, "", batch_max=1)
    await estate.start_process("thread", module="isolating", TEST_END="block", TEST_TIMEOUT="1")
    await estate.until_completed(5)
    await estate.eventually(estate.reviews)
    (failure,) = await failures(estate)
    assert failure["error"] == "HandlerTimeout"


@pytest.mark.parametrize(("handlers", "key"), [("waiting", "suspect"), ("single", "poison")])
async def test_g5_a_worker_killed_while_a_suspect_runs_ends_its_process_and_blames_nothing(
    estate: Estate, make_drafts: MakeDrafts, handlers: str, key: str
) -> None:
    await estate.connection.execute(f"select pg_advisory_lock({GATE})")
    await estate.emit(make_drafts(1, prefix=key))
    await suspect(estate, key)
    worker = await estate.start_process(handlers, module="isolating", TEST_END="hold")

    async def pid() -> int:
        return await estate.connection.fetchval("select max(pid) from public.seen")

    isolated = await estate.eventually(pid)
    worker.send(signal.SIGKILL)
    await worker.ended()

    async def gone() -> bool:
        try:
            os.kill(isolated, 0)
        except ProcessLookupError:
            return True
        return False

    await estate.eventually(gone)
    await estate.advance_machine(LEASE_OVER)
    await estate.reap_dead()
    (row,) = (await estate.pending()).values()
    assert (row["attempt"], row["starts"], row["batch_max"]) == (0, 2, 1)


async def test_a_drain_releases_a_suspect_that_outlasts_it_and_ends_its_process(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.connection.execute(f"select pg_advisory_lock({GATE})")
    await estate.emit(make_drafts(3, prefix="suspect"))
    await suspect(estate, "suspect", batch_max=2)
    worker = await estate.start_process(
        "waiting", module="isolating", DUELEDGER_WORKER_DRAIN_SECONDS="0"
    )

    async def two_seen() -> bool:
        return await estate.count("public.seen") == 2

    await estate.eventually(two_seen)
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    assert await estate.open_runs() == 0
    rows = (await estate.pending()).values()
    assert [(row["attempt"], row["starts"], row["batch_max"]) for row in rows] == [(0, 1, 2)] * 3


async def test_suspects_whose_process_cannot_start_are_released_and_others_worked(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(3, prefix="suspect"), *make_drafts(10)])
    await suspect(estate, "suspect")
    await estate.start_process("unloadable", module="isolating", TEST_END="unloadable")
    await estate.until_completed(10)

    async def released() -> bool:
        events = await estate.events()
        return all(events.get(f"suspect-{number:06}") == ["released"] for number in range(3))

    await estate.eventually(released)
    rows = [row for key, row in (await estate.pending()).items() if "suspect" in key]
    assert [(row["attempt"], row["starts"], row["batch_max"]) for row in rows] == [(0, 1, 64)] * 3


async def test_g4_g5_the_process_of_a_worker_that_is_stopped_ends_by_itself_before_the_lease(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.connection.execute(f"select pg_advisory_lock({GATE})")
    await estate.emit(make_drafts(1, prefix="suspect"))
    await suspect(estate, "suspect")
    worker = await estate.start_process(
        "waiting", module="isolating", DUELEDGER_WORKER_LEASE_SECONDS="3"
    )

    async def pid() -> int:
        return await estate.connection.fetchval("select max(pid) from public.seen")

    isolated = await estate.eventually(pid)
    worker.send(signal.SIGSTOP)

    async def ended() -> bool:
        return is_zombie(isolated)

    await estate.eventually(ended)
    worker.send(signal.SIGCONT)
    await estate.connection.execute(f"select pg_advisory_unlock({GATE})")
    await estate.until_completed(1)
    assert await estate.count("(select from ledger.transition where attempt <> 1) t") == 0


async def test_g9_suspects_that_wait_for_others_until_their_hard_end_are_released(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.connection.execute(f"select pg_advisory_lock({GATE})")
    await estate.emit(make_drafts(3, prefix="suspect"))
    await estate.set_kind(run_seconds=4)
    await suspect(estate, "suspect", batch_max=1)
    await estate.start_process("waiting", module="isolating", DUELEDGER_WORKER_LEASE_SECONDS="3")

    async def one_overran() -> bool:
        return bool(await failures(estate))

    await estate.eventually(one_overran)
    begun = await estate.connection.fetch(
        "select i.business_key from public.seen s join ledger.due_item i on i.id = s.item"
    )
    assert {row["business_key"] for row in await failures(estate)} <= {
        row["business_key"] for row in begun
    }
