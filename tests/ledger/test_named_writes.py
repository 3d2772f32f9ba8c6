"""A write about a claim or a run changes no other that differs in one part of its name."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
from asyncpg import BitString, Record

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.statements import statement

from .conftest import Ledger
from .row_copies import copy_row, read_rows

TABLES: Final = ("claim", "run", "pending", "transition", "review")
INSTANT: Final = timedelta(microseconds=1)
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
YEARS: Final = (LONG_AGO, datetime(2100, 1, 1, tzinfo=UTC))
"""Bounds as wide as those of a call that names claims of several months."""


@dataclass(frozen=True, slots=True)
class Named:
    """A claim of two items, and its run if it was started."""

    ledger: Ledger
    claim: Record
    run: Record | None
    item: UUID
    """The item at its first position."""

    @property
    def claimed(self) -> tuple[list[int], list[datetime]]:
        return [self.claim["fence"]], [self.claim["claimed_at"]]

    @property
    def started(self) -> tuple[list[int], list[datetime]]:
        assert self.run is not None
        return [self.run["run_no"]], [self.run["started_at"]]


def _bits(text: str) -> BitString:
    size = len(text)
    return BitString.frombytes((int(text, 2) << 8 - size).to_bytes(1, "big"), bitlength=size)


Arguments = Callable[[Named], tuple[Any, ...]]


def _start(n: Named) -> tuple[Any, ...]:
    token = n.claim["token"]
    return (*n.claimed, [token], [1], [2], [2], n.ledger.worker_no, 60.0, *YEARS, [None])


def _settlement(n: Named) -> tuple[Any, ...]:
    by = n.ledger.worker_no
    return (*n.started, [_bits("11")], [1], '\x1f{"reason":"test"}', by, *YEARS, *YEARS, by)


def _completion(n: Named) -> tuple[Any, ...]:
    assert n.run is not None
    run_id = n.run["run_no"], n.run["started_at"], n.run["claimed_at"]
    return (*run_id, '{"reference":"A-1"}', n.ledger.worker_no, n.ledger.worker_no, False)


def _completions(n: Named) -> tuple[Any, ...]:
    return (*_settlement(n), False)


CLAIM_WRITES: Final[dict[str, Arguments]] = {
    "start_runs": _start,
    "start_plain_runs": _start,
    "mark_published": lambda n: (*n.claimed, [7], *YEARS),
    "release_claims": lambda n: (*n.claimed, n.ledger.worker_no, *YEARS),
    "reap_claims": lambda n: (*n.claimed, n.ledger.worker_no, *YEARS),
}
TOPIC_WRITES: Final[dict[str, Arguments]] = {
    "start_topic_runs": lambda n: (
        *n.claimed,
        [n.claim["token"]],
        [1],
        [n.item],
        *YEARS,
        n.item,
        n.item,
        [None],
        False,
        None,
    ),
    "mark_published": CLAIM_WRITES["mark_published"],
}
RUN_WRITES: Final[dict[str, Arguments]] = {
    "settle_runs": lambda n: (
        *_settlement(n), [TransitionEvent.COMPLETED, TransitionEvent.FAILED], []
    ),
    "settle_completed_runs": _completions,
    "settle_completed_run": _completion,
    "extend_leases": lambda n: (*n.started, n.ledger.worker_no, 600.0, *YEARS),
    "report_overruns": lambda n: (*n.started, [_bits("10")], n.ledger.worker_no, *YEARS),
    "reap_runs": lambda n: (*n.started, [2], n.ledger.worker_no, *YEARS, *YEARS),
}  # fmt: skip


STARTS: Final = ("start_runs", "start_plain_runs")
SETTLEMENTS: Final = ("settle_runs", "settle_completed_runs")
CLAIM_STATES: Final[list[tuple[str, dict[str, Any]]]] = [
    *((name, {"closed_at": LONG_AGO}) for name in STARTS),
    *((name, {"started": 1}) for name in STARTS),
    *((name, {"topic_actor_no": 4_711}) for name in STARTS),
    *((name, {"partition": -1, "allocator_no": 4_711}) for name in STARTS),
    *((name, {"token": "0" * 16}) for name in STARTS),
    ("mark_published", {"published_at": LONG_AGO}),
    ("release_claims", {"closed_at": LONG_AGO}),
    ("release_claims", {"allocator_no": 4_711}),
    ("reap_claims", {"closed_at": LONG_AGO}),
    ("start_topic_runs", {"topic_actor_no": None}),
    ("start_topic_runs", {"published_at": LONG_AGO}),
    ("start_topic_runs", {"closed_at": LONG_AGO}),
    ("start_topic_runs", {"started": 1}),
    ("start_topic_runs", {"token": "0" * 16}),
]
"""In these states of a claim a statement writes nothing."""
RUN_STATES: Final[list[tuple[str, dict[str, Any]]]] = [
    *((name, {"closed_at": LONG_AGO}) for name in (*SETTLEMENTS, "settle_completed_run")),
    *((name, {"worker_no": 4_711}) for name in (*SETTLEMENTS, "settle_completed_run")),
    ("settle_completed_run", {"ended": _bits("1")}),
    ("settle_completed_run", {"claimed_at": LONG_AGO}),
    *((name, {"ended": _bits("10")}) for name in SETTLEMENTS),
    *((name, {"ended": _bits("01")}) for name in SETTLEMENTS),
    ("extend_leases", {"closed_at": LONG_AGO}),
    ("extend_leases", {"worker_no": 4_711}),
    ("report_overruns", {"closed_at": LONG_AGO}),
    ("report_overruns", {"worker_no": 4_711}),
    ("report_overruns", {"run_until": None}),
    ("report_overruns", {"lease_until": LONG_AGO}),
    ("reap_runs", {"closed_at": LONG_AGO}),
]


async def _named(
    ledger: Ledger, name: str = "", *, started: bool = False, by_topic: bool = False
) -> Named:
    await ledger.emit(2)
    claim = await ledger.claim()
    if name == "report_overruns":  # nothing else extends its lease no further than its hard end
        await ledger.connection.execute("update ledger.claim set run_seconds = 30")
    # Another flow and another kind, neither of which this is about.
    await ledger.emit(lane="another")
    await ledger.emit(kind=f"{ledger.kind}Other")
    if by_topic:
        await ledger.connection.execute(
            "update ledger.claim set topic_actor_no = $1, lease_seconds = 60", ledger.worker_no
        )
    if started:
        await ledger.start(claim.fence, 1, 1 if name == "settle_completed_run" else 2)
    claimed = await ledger.connection.fetchrow("select * from ledger.claim")
    run = await ledger.connection.fetchrow("select * from ledger.run")
    item = await ledger.connection.fetchval(
        "select i.id from ledger.due_item i, ledger.claim c where i.item_no = c.item_no[1]"
    )
    assert claimed is not None
    return Named(ledger, claimed, run, item)


async def _check(
    named: Named, name: str, arguments: Arguments, twins: list[dict[str, Any]]
) -> None:
    """Write about the claim or run: it changes, and no twin of it does."""
    table = "claim" if name in {*CLAIM_WRITES, *TOPIC_WRITES} else "run"
    ledger = named.ledger
    original = (await read_rows(ledger, table))[0]
    for twin in twins:
        await copy_row(ledger, table, **twin)
    before = [row for row in await read_rows(ledger, table) if row != original]
    assert len(before) == len(twins)

    await ledger.connection.fetch(statement(name), *arguments(named))

    after = await read_rows(ledger, table)
    assert original not in after
    assert [row for row in after if row in before] == before
    assert len(after) == len(before) + 1


def _claim_twins(named: Named) -> list[dict[str, Any]]:
    claim = named.claim
    return [
        {"fence": claim["fence"] + 1_000},
        {"claimed_at": claim["claimed_at"] - INSTANT},
        {"claimed_at": claim["claimed_at"] + INSTANT},
    ]


@pytest.mark.parametrize("name", CLAIM_WRITES)
async def test_g4_a_write_about_a_claim_changes_no_other(undone_ledger: Ledger, name: str) -> None:
    ledger = undone_ledger
    named = await _named(ledger)
    await _check(named, name, CLAIM_WRITES[name], _claim_twins(named))


async def test_g4_outcomes_of_a_tenant_start_claims_of_its_items_alone(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    *arguments, _ = TOPIC_WRITES["start_topic_runs"](await _named(ledger, by_topic=True))
    for tenants, count in ((["other"], 0), (["other", "acme"], 1)):
        rows = await ledger.connection.fetch(statement("start_topic_runs"), *arguments, tenants)
        assert len(rows) == count


@pytest.mark.parametrize("name", TOPIC_WRITES)
async def test_g4_a_write_about_a_claim_settled_by_topic_changes_no_other(
    undone_ledger: Ledger, name: str
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, by_topic=True)
    await _check(named, name, TOPIC_WRITES[name], _claim_twins(named))
    assert await ledger.connection.fetchval("select count(*) from ledger.run") == 1
    (row,) = await ledger.connection.fetch(
        "select started, closed_at is not null as closed from ledger.claim"
        " where (fence, claimed_at) = ($1, $2)",
        *(named.claim["fence"], named.claim["claimed_at"]),
    )
    assert tuple(row) == (2, True)


async def test_g4_an_outcome_off_the_topic_of_another_kind_starts_no_claim(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, by_topic=True)
    await ledger.connection.execute(
        "update ledger.kind set outcome_topic = case name when $1 then 'own' else 'theirs' end",
        ledger.kind,
    )
    arguments = TOPIC_WRITES["start_topic_runs"](named)[:-3]
    for topic, runs in (("theirs", 0), ("own", 1)):
        written = (*arguments, [topic], False, None)
        await ledger.connection.fetch(statement("start_topic_runs"), *written)
        assert await ledger.connection.fetchval("select count(*) from ledger.run") == runs


@pytest.mark.parametrize("name", RUN_WRITES)
async def test_g4_a_write_about_a_run_changes_no_other(undone_ledger: Ledger, name: str) -> None:
    ledger = undone_ledger
    named = await _named(ledger, name, started=True)
    assert named.run is not None
    run_no, started_at = named.run["run_no"], named.run["started_at"]
    twins = [
        {"run_no": run_no + 1_000},
        {"started_at": started_at - INSTANT},
        {"started_at": started_at + INSTANT},
    ]
    for twin in _claim_twins(named):  # items that were found twice could not be written twice
        await copy_row(ledger, "claim", **twin)
    await _check(named, name, RUN_WRITES[name], twins)


@pytest.mark.parametrize(
    ("table", "name", "state"),
    [("claim", *row) for row in CLAIM_STATES] + [("run", *row) for row in RUN_STATES],
    ids=[f"{name}-{'-'.join(state)}" for name, state in (*CLAIM_STATES, *RUN_STATES)],
)
async def test_g4_a_write_that_its_claim_or_run_does_not_permit_changes_nothing(
    undone_ledger: Ledger, table: str, name: str, state: dict[str, Any]
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, name, started=table == "run", by_topic=name == "start_topic_runs")
    for column, value in state.items():
        await ledger.connection.execute(f"update ledger.{table} set {column} = $1", value)  # noqa: S608 - names of the test
    before = [await read_rows(ledger, other) for other in TABLES]

    arguments = {**CLAIM_WRITES, **TOPIC_WRITES, **RUN_WRITES}[name]
    await ledger.connection.fetch(statement(name), *arguments(named))

    assert [await read_rows(ledger, other) for other in TABLES] == before


NEEDS_ITEMS: Final = ("release_claims", "reap_claims", "settle_runs", "reap_runs")


@pytest.mark.parametrize("name", NEEDS_ITEMS)
async def test_g1_a_write_that_does_not_find_its_items_fails_and_changes_nothing(
    undone_ledger: Ledger, name: str
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, started=name in RUN_WRITES)
    await ledger.connection.execute("delete from ledger.due_item")
    before = [await read_rows(ledger, table) for table in TABLES]
    with pytest.raises(asyncpg.PostgresError, match=r"items were taken") as failed:
        async with ledger.connection.transaction():
            await ledger.connection.fetch(
                statement(name), *{**CLAIM_WRITES, **RUN_WRITES}[name](named)
            )
    assert failed.value.sqlstate == "DL005"
    assert [await read_rows(ledger, table) for table in TABLES] == before


@pytest.mark.parametrize("name", NEEDS_ITEMS)
async def test_a_serial_item_is_pending_again_under_its_own_key_and_policy(
    undone_ledger: Ledger, name: str
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, started=name in RUN_WRITES)
    due = await ledger.connection.fetchval(
        "update ledger.due_item set serial = 42, overlap = 3 where id = $1 returning due_at",
        named.item,
    )
    arguments = list({**CLAIM_WRITES, **RUN_WRITES}[name](named))
    if name == "settle_runs":
        arguments[11] = [TransitionEvent.FAILED] * 2

    await ledger.connection.fetch(statement(name), *arguments)

    keys = await ledger.connection.fetch(
        "select serial, serial_due_at, overlap from ledger.pending"
        " where item_no = any ($1::bigint[]) order by serial",
        named.claim["item_no"],
    )
    assert [tuple(key) for key in keys] == [(42, due, 3), (None, None, None)]


@pytest.mark.parametrize("name", [*SETTLEMENTS, "reap_runs"])
async def test_a_run_stays_open_where_its_claim_is_not_looked_up(
    undone_ledger: Ledger, name: str
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, started=True)
    before = [await read_rows(ledger, table) for table in TABLES]
    others = list(RUN_WRITES[name](named))
    first = 6 if name == "reap_runs" else 8
    others[first : first + 2] = LONG_AGO, LONG_AGO
    await ledger.connection.fetch(statement(name), *others)
    assert [await read_rows(ledger, table) for table in TABLES] == before


async def test_an_extension_is_of_the_length_asked_for(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    named = await _named(ledger, started=True)
    await set_machine_clock(ledger.connection, noon, 0)
    await ledger.connection.fetch(statement("extend_leases"), *RUN_WRITES["extend_leases"](named))
    (row,) = await ledger.connection.fetch(
        "select lease_until, lease_seconds, extended_at from ledger.run"
    )
    assert tuple(row) == (noon + timedelta(minutes=10), 600, noon)
