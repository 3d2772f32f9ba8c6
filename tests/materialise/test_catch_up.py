"""Missed occurrences of a schedule: owed by policy; the others are recorded."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import Materialiser
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import read_accounting
from tests.forks import ForkedProcess

from .conftest import DAY, NOON, SetSchedule, SetTime, tick_until_idle, watermark

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
RunProcess = Callable[..., Awaitable[ForkedProcess]]

HOUR = timedelta(hours=1)
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}
MINUTELY = {"cron": "* * * * *", "timezone": "UTC"}


async def rows(connection: Connection, name: str) -> tuple[list[datetime], list[datetime]]:
    """Return the owed items and those skipped by catch-up, by due time."""
    found = await connection.fetch(
        "select i.due_at, t.detail->>'reason' as reason from ledger.due_item i"
        " left join ledger.transition t using (item_no, effective_date)"
        " where i.business_key = $1 order by i.due_at",
        name,
    )
    assert {row["reason"] for row in found} <= {None, "catch_up"}
    return (
        [row["due_at"] for row in found if row["reason"] is None],
        [row["due_at"] for row in found if row["reason"] is not None],
    )


async def missed_ranges(connection: Connection, name: str) -> list[tuple[datetime, datetime, int]]:
    found = await connection.fetch(
        "select from_at, until_at, occurrences from ledger.missed_range"
        " join ledger.definition using (definition_no) where name = $1 order by from_at",
        name,
    )
    return [(row["from_at"], row["until_at"], row["occurrences"]) for row in found]


def hours(first: datetime, last: datetime) -> list[datetime]:
    return [first + n * HOUR for n in range((last - first) // HOUR)]


END = NOON + timedelta(seconds=DAY) + HOUR


async def test_g2_latest_owes_the_last_that_was_missed_and_records_the_others(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun = NOON - 10 * HOUR
    await set_schedule("d", HOURLY, effective_from=begun, catch_up={"policy": "latest"})
    await tick_until_idle(materialiser)
    owed, skipped = await rows(connection, "d")
    assert owed == hours(NOON - HOUR, END)
    assert skipped == hours(begun, NOON - HOUR)
    (accounting,) = await read_accounting(connection)
    assert (accounting.skipped, accounting.difference) == (9, 0)
    assert await missed_ranges(connection, "d") == []


async def test_g2_skip_owes_nothing_that_was_missed_and_everything_from_now_on(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun = NOON - 10 * HOUR
    await set_schedule("d", HOURLY, effective_from=begun, catch_up={"policy": "skip"})
    await tick_until_idle(materialiser)
    assert await rows(connection, "d") == (hours(NOON, END), hours(begun, NOON))


async def test_a_window_owes_what_was_due_within_it(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun = NOON - 10 * HOUR
    await set_schedule("d", HOURLY, effective_from=begun, catch_up={"window": "PT3H"})
    await tick_until_idle(materialiser)
    assert await rows(connection, "d") == (hours(NOON - 3 * HOUR, END), hours(begun, END)[:7])


async def test_g2_on_overflow_the_latest_are_owed_and_one_record_counts_the_rest(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun = NOON - 100 * HOUR
    await set_schedule("d", HOURLY, effective_from=begun, catch_up={"max_items": 5})
    await tick_until_idle(materialiser)
    kept = NOON - 5 * HOUR
    assert await rows(connection, "d") == (hours(kept, END), [])
    assert await missed_ranges(connection, "d") == [(begun, kept, 95)]


async def test_what_is_counted_in_several_passes_is_one_record(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    begun = NOON - timedelta(days=200)
    await set_schedule("d", MINUTELY, effective_from=begun, catch_up={"policy": "latest"})
    passes = await tick_until_idle(materialiser)
    latest = NOON - timedelta(minutes=1)
    assert await missed_ranges(connection, "d") == [(begun, latest, 200 * 1440 - 1)]
    owed, skipped = await rows(connection, "d")
    future = (await watermark(connection, "d") - NOON) // timedelta(minutes=1)
    assert (owed[0], len(owed), skipped) == (latest, 1 + future, [])
    assert passes < 30


async def test_missed_is_what_the_databases_now_says(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
) -> None:
    """The process's own clock is in another year throughout."""
    await set_schedule("d", HOURLY, catch_up={"policy": "skip"})
    await tick_until_idle(materialiser)
    back = NOON + timedelta(days=3)
    await set_time(back)
    await tick_until_idle(materialiser)
    owed, skipped = await rows(connection, "d")
    assert owed == hours(NOON, END) + hours(back, back + timedelta(days=1, hours=1))
    assert skipped == hours(END, back)


async def test_a_smeared_item_says_by_how_much_it_was_moved(
    materialiser: Materialiser, set_schedule: SetSchedule, connection: Connection
) -> None:
    await set_schedule("d", HOURLY, smear="PT30M")
    await tick_until_idle(materialiser)
    found = await connection.fetch("select * from ledger.due_item order by nominal")
    assert [row["nominal"] for row in found] == [
        at.strftime("%Y-%m-%dT%H:%M") for at in hours(NOON, END)
    ]
    for row, at in zip(found, hours(NOON, END), strict=True):
        assert row["due_at"] == at + timedelta(seconds=row["smear_seconds"])
        assert 0 <= row["smear_seconds"] < 1800
    assert len({row["smear_seconds"] for row in found}) > 15


async def test_g1_materialisers_killed_at_random_smear_and_catch_up_without_gap_or_double(
    set_schedule: SetSchedule,
    set_time: SetTime,
    run_process: RunProcess,
    eventually: Eventually,
    connection: Connection,
    kind: str,
) -> None:
    await set_time(NOON)
    begun = NOON - timedelta(days=2)
    catch_ups: list[dict[str, Any]] = [
        {"policy": "all"},
        {"policy": "latest"},
        {"policy": "skip", "max_items": 50},
        {"policy": "all", "max_items": 20},
        {"policy": "all", "window": "PT6H"},
    ]
    terms: dict[str, dict[str, Any]] = {}
    for number in range(20):
        step = (14, 22, 26, 40)[number % 4]
        terms[f"d-{number:02}"] = {
            "when": {"cron": f"*/{step} * * * *", "timezone": "America/New_York"},
            "smear": "PT4M",
            "catch_up": catch_ups[number % 5],
        }
    for name, each in terms.items():
        await set_schedule(
            name,
            each["when"],
            effective_from=begun,
            **{k: v for k, v in each.items() if k != "when"},
        )
    choice = random.Random(11)  # noqa: S311 - which step dies, the same in every run
    for _ in range(3):
        doomed = await asyncio.gather(
            *(run_process(crash_at=f"materialise.emitted:{choice.randint(1, 3)}") for _ in "ab")
        )
        assert [await process.wait() for process in doomed] == [-signal.SIGKILL] * 2
    await asyncio.gather(run_process(), run_process())

    async def all_done() -> bool:
        return await connection.fetchval(
            "select min(materialised_until) >= $1 from ledger.materialised",
            NOON + timedelta(seconds=DAY),
        )

    await eventually(all_done)
    for name, each in terms.items():
        document = {"definition": name, "tenant": "acme", "kind": kind, "business_key": name}
        expected = draft_occurrences(
            parse_definition(document | each), begun, await watermark(connection, name)
        ).drafts
        owed, skipped = await rows(connection, name)
        missed = await missed_ranges(connection, name)
        counted = sum(count for _, _, count in missed)
        assert len(owed) + len(skipped) + counted == len(expected), name
        future = [draft.due_at for draft in expected if draft.nominal and draft.due_at >= NOON]
        assert owed[-len(future) + 1 :] == future[1:], name
        missed = len(owed) - len(future)
        match each["catch_up"]:
            case {"policy": "latest"}:
                assert missed <= 1, name
            case {"policy": "skip"}:
                assert (missed <= 0, skipped) == (True, []), name
            case {"max_items": 20}:
                assert 19 <= missed <= 20, name
            case _:
                assert missed > 0, name
