"""Versions that supersede each other while materialisers are killed: each item is owed once."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.rules.schedule_drafts import draft_occurrences, split_issue
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Record
from dueledger.ledger.store.items import read_accounting
from tests.forks import ForkedProcess

from .conftest import DAY, NOON, SetSchedule, SetTime, claim_next, end, start

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
RunProcess = Callable[..., Awaitable[ForkedProcess]]

NAMES = [f"d-{number}" for number in range(8)]
STEPS = (7, 10, 12, 15, 20, 30)

ITEMS = """
select i.id, i.business_key, i.cycle, i.due_at, d.version, t.event, p.item_no is not null as waits
from ledger.due_item i
join ledger.definition d using (definition_no)
left join ledger.pending p using (item_no)
left join ledger.transition t on t.item_no = i.item_no and t.event in (5, 11, 12, 13, 14)
order by i.item_no
"""

Spans = dict[str, list[tuple[datetime, dict[str, Any]]]]


def terms(choice: random.Random) -> dict[str, Any]:
    """Return the terms of a version: two of them often owe some of the same occurrences."""
    return {
        "when": {"cron": f"*/{choice.choice(STEPS)} * * * *", "timezone": "UTC"},
        "labels": {"n": str(choice.randint(1, 3))},
    }


def owed(
    name: str, kind: str, versions: list[tuple[datetime, dict[str, Any]]], until: datetime
) -> dict[tuple[str, datetime], int]:
    """Return each occurrence that is owed, with its instant and its version."""
    found: dict[tuple[str, datetime], int] = {}
    for number, (begins, each) in enumerate(versions):
        ends = min([until, *(later for later, _ in versions[number + 1 :])])
        if begins < ends:
            document = {"definition": name, "tenant": "acme", "kind": kind, "business_key": name}
            drafts = draft_occurrences(parse_definition(document | each), begins, ends).drafts
            found |= {(draft.cycle, draft.due_at): number + 1 for draft in drafts}
    return found


@pytest.mark.parametrize("seed", [3, pytest.param(5, marks=pytest.mark.full)])
async def test_g1_g13_versions_superseded_while_materialisers_die_leave_each_occurrence_owed_once(  # noqa: C901 - one sequence of steps
    set_schedule: SetSchedule,
    set_time: SetTime,
    run_process: RunProcess,
    eventually: Eventually,
    connection: Connection,
    actor_no: int,
    kind: str,
    seed: int,
) -> None:
    choice = random.Random(seed)  # noqa: S311 - which step dies, the same in every run
    await set_time(NOON)
    spans: Spans = {name: [] for name in NAMES}

    async def supersede(begins: datetime) -> None:
        for name in NAMES:
            again = spans[name][-2:-1] if choice.random() < 0.4 else []
            each = dict(again[0][1]) if again else terms(choice)
            at = begins + timedelta(minutes=choice.randint(0, 300))
            if not spans[name] or spans[name][-1][1] != each or at < spans[name][-1][0]:
                spans[name].append((at, each))
                await set_schedule(name, each["when"], effective_from=at, labels=each["labels"])

    async def all_done() -> bool:
        return await connection.fetchval(
            "select not exists (select from ledger.materialised where materialised_until < ends_at"
            " and materialised_until < $1)",
            NOON + timedelta(seconds=DAY),
        )

    async def die(process: ForkedProcess) -> bool:
        """Wait until it has killed itself, or has nothing left to die of; return which."""

        async def over() -> bool:
            return process.returncode is not None or await all_done()

        await eventually(over)
        if process.returncode is not None:
            return process.returncode == -signal.SIGKILL
        process.kill()
        return await process.wait() == 0

    died = 0
    handed: dict[Any, Any] = {}
    await supersede(NOON - timedelta(hours=5))
    first = await run_process()
    await eventually(all_done)
    first.kill()
    for step in range(4):
        crash_at = ("materialise.emitted", "materialise.superseded")
        doomed = [
            await run_process(crash_at=f"{choice.choice(crash_at)}:{choice.randint(1, 3)}")
            for _ in "ab"
        ]
        await supersede(NOON + timedelta(hours=step, minutes=30))
        died += sum([await die(process) for process in doomed])
        fence, ids = await claim_next(connection, actor_no, 9)
        ran = await start(connection, actor_no, fence, len(ids))
        if step % 2:
            await end(connection, actor_no, ran, [TransitionEvent.COMPLETED] * len(ids))
        found = {row["id"]: tuple(row)[:5] for row in await connection.fetch(ITEMS)}
        handed |= {one: found[one] for one in ids}
        assert handed == {one: found[one] for one in handed}
    assert died >= 4, "by their own hand, in the middle of a pass"
    await asyncio.gather(run_process(), run_process())
    await eventually(all_done)
    found = await connection.fetch(ITEMS)
    assert handed == {row["id"]: tuple(row)[:5] for row in found if row["id"] in handed}
    assert not [each.difference for each in await read_accounting(connection) if each.difference]
    rows = await connection.fetch(
        "select d.name, max(m.materialised_until) as until from ledger.materialised m"
        " join ledger.definition d using (definition_no) where m.ends_at = 'infinity' group by 1"
    )
    reached: dict[str, datetime] = {row["name"]: row["until"] for row in rows}
    for name in NAMES:
        occurrences = owed(name, kind, spans[name], reached[name])
        within = [row for row in found if row["due_at"] < reached[name]]
        hold(name, occurrences, [row for row in within if row["business_key"] == name])


def hold(name: str, occurrences: dict[tuple[str, datetime], int], found: list[Record]) -> None:
    """Compare the items with what the versions owe."""
    live = [
        (split_issue(row["cycle"])[0], row)
        for row in found
        if row["event"] != TransitionEvent.SUPERSEDED
    ]
    cycles = {cycle for cycle, _ in live}
    assert len(cycles) == len(live), f"{name}: no occurrence has two items"
    assert {cycle for cycle, _ in occurrences} <= cycles, f"{name}: none is lost"
    waiting = {(cycle, row["due_at"]): row["version"] for cycle, row in live if row["waits"]}
    begun = {cycle for cycle, row in live if not row["waits"]}
    owed_still = {each: version for each, version in occurrences.items() if each[0] not in begun}
    assert waiting == owed_still, f"{name}: what waits is owed, by the version that decides"
