"""A claim takes exactly the due rows of its flows; other rows differ from them in one thing."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from typing import Final, TypeVar

import pytest

from dueledger.ledger.states import State
from dueledger.ledger.store import connect
from dueledger.ledger.store.claimed_rows import ClaimedRows
from dueledger.ledger.store.claims import PendingFloor, claim_items, claim_serial_items
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.direct_claims import claim_and_start_items
from dueledger.ledger.store.flows import FlowLimits, FlowScope, pause_flows, set_flow_limits
from dueledger.ledger.store.statements import statement

from .conftest import Ledger

T = TypeVar("T")
INSTANT: Final = timedelta(microseconds=1)
MINUTE: Final = timedelta(minutes=1)
NOW: Final = timedelta(0)
SOON: Final = timedelta(seconds=20)
HOUR: Final = timedelta(hours=1)
QUOTA: Final = 100
SCHEDULED, RETRY = State.SCHEDULED, State.RETRYABLE_FAILURE


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `pending`: when it is available, from now on, and what else a claim looks at."""

    after: timedelta = -MINUTE
    state: State = SCHEDULED
    lane: str = ""
    is_serial: bool = False
    overlap: int = 1
    stripe: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a claim asks for: the same of each flow."""

    flow_nos: list[int]
    floor: PendingFloor
    is_measured: bool
    quota: int

    def each(self, value: T) -> list[T]:
        return [value] * len(self.flow_nos)


Rows = dict[str, Row]
Claim = Callable[[Asked], Awaitable[list[str]]]


class Chosen(Ledger):
    """Rows of `pending` by name, and each statement that claims some."""

    async def pend(self, noon: datetime, rows: Rows) -> None:
        """Make the rows. Their names are their business keys."""
        await set_clock(self.connection, noon, 0)
        for number, (name, row) in enumerate(rows.items()):
            (item,) = await self.emit(lane=row.lane, prefix=name)
            serial = (number << 7) + row.stripe if row.is_serial else None
            await self.connection.execute(
                "update ledger.pending set available_at = $2, state = $3, serial = $4,"
                " serial_due_at = $5, overlap = $6 where item_no ="
                " (select item_no from ledger.due_item where id = $1)",
                item,
                noon + row.after,
                row.state,
                serial,
                noon if row.is_serial else None,
                row.overlap if row.is_serial else None,
            )

    async def flow_nos(self, *lanes: str) -> list[int]:
        """Return the flows of these lanes, in order."""
        rows = await self.connection.fetch(
            "select flow_no from ledger.flow where lane = any ($1::text[]) order by flow_no", lanes
        )
        return [row["flow_no"] for row in rows]

    async def claim_plain(self, asked: Asked) -> list[str]:
        rows = await claim_items(
            self.connection,
            asked.flow_nos,
            asked.each(asked.quota),
            asked.each(asked.floor),
            asked.each(asked.is_measured),
        )
        return [row.business_key.decode() for row in rows.items()]

    async def claim_serial(self, asked: Asked) -> list[str]:
        rows = await claim_serial_items(
            self.connection,
            asked.flow_nos,
            asked.each(asked.quota),
            self.worker_no,
            floors=asked.each(asked.floor),
            measured=asked.each(asked.is_measured),
        )
        return [row.business_key.decode() for row in rows.items()]

    async def claim_direct(self, asked: Asked) -> list[str]:
        claimed = await claim_and_start_items(
            self.connection,
            asked.flow_nos,
            asked.each(asked.quota),
            group_nos=list(range(len(asked.flow_nos))),
            apart=[False] * len(asked.flow_nos),
            floors=asked.each(asked.floor),
            run_seconds=asked.each(None),
            worker_no=self.worker_no,
            lease_seconds=60,
            limited=asked.is_measured,
        )
        return [key for run in claimed.runs for key in run.business_keys]

    async def names(
        self,
        claim: str,
        lanes: tuple[str, ...],
        floor: PendingFloor,
        *,
        measured: bool = False,
        quota: int = QUOTA,
    ) -> set[str]:
        """Return the names of the rows that a claim takes; they stay as they were."""
        transaction = self.connection.transaction()
        await transaction.start()
        await self.connection.execute("set local lock_timeout = '1s'")
        ask: Claim = getattr(self, claim)
        keys = await ask(Asked(await self.flow_nos(*lanes), floor, measured, quota))
        await transaction.rollback()
        assert len(keys) == len(set(keys))
        return {key.rpartition("-")[0] for key in keys}


def _chosen(ledger: Ledger) -> Chosen:
    return Chosen(
        ledger.connection, ledger.worker_no, ledger.other_worker_no, ledger.make_drafts, ledger.kind
    )


@pytest.fixture
def chosen(undone_ledger: Ledger) -> Chosen:
    return _chosen(undone_ledger)


def _floor(noon: datetime, first: timedelta, retry: timedelta, serial: timedelta) -> PendingFloor:
    return PendingFloor(noon - first, 0, noon - retry, noon - serial)


PLAIN: Final = ("claim_plain", "claim_direct")
EVERY: Final = (*PLAIN, "claim_serial")


@pytest.mark.parametrize("claim", EVERY)
async def test_g3_a_claim_takes_the_due_rows_of_its_flows_and_no_other(
    chosen: Chosen, noon: datetime, claim: str
) -> None:
    is_serial = claim == "claim_serial"
    due = {
        f"{name}-{state.label}": Row(after, state, is_serial=is_serial)
        for name, after in {"due": -MINUTE, "now": NOW, "floor": -HOUR}.items()
        for state in (SCHEDULED, RETRY)
    }
    others = {
        f"{name}-{state.label}": row
        for state in (SCHEDULED, RETRY)
        for name, row in {
            "later": Row(INSTANT, state, is_serial=is_serial),
            "below": Row(-HOUR - INSTANT, state, is_serial=is_serial),
            "another": Row(state=state, lane="another", is_serial=is_serial),
            "paused": Row(state=state, lane="paused", is_serial=is_serial),
            "limited": Row(state=state, lane="limited", is_serial=is_serial),
            "otherwise": Row(state=state, is_serial=not is_serial),
        }.items()
    }
    await chosen.pend(noon, {**due, **others})
    paused, limited = (FlowScope("acme", chosen.kind, lane) for lane in ("paused", "limited"))
    await pause_flows(chosen.connection, paused, reason="test", actor_no=chosen.worker_no)
    limits = FlowLimits(concurrency_max=1000)
    await set_flow_limits(chosen.connection, limited, limits, actor_no=chosen.worker_no)
    asked = ("", "paused", "limited")
    floor = _floor(noon, HOUR, HOUR, HOUR)

    assert await chosen.names(claim, asked, floor) == due.keys()

    limited_too = {name for name in others if name.startswith("limited")}
    assert await chosen.names(claim, asked, floor, measured=True) == due.keys() | limited_too
    assert await chosen.names(claim, asked, floor, quota=0) == set()


@pytest.mark.parametrize("claim", PLAIN)
@pytest.mark.parametrize("lower", [SCHEDULED, RETRY], ids=lambda state: state.label)
async def test_g3_first_attempts_and_retries_have_floors_of_their_own(
    chosen: Chosen, noon: datetime, claim: str, lower: State
) -> None:
    await chosen.pend(noon, {state.label: Row(-2 * MINUTE, state) for state in (SCHEDULED, RETRY)})
    firsts, retries = (HOUR, MINUTE) if lower is SCHEDULED else (MINUTE, HOUR)
    floor = _floor(noon, firsts, retries, HOUR)
    assert await chosen.names(claim, ("",), floor) == {lower.label}


@pytest.mark.parametrize("claim", EVERY)
async def test_retries_that_cannot_be_claimed_have_no_share_of_a_claim(
    chosen: Chosen, noon: datetime, claim: str
) -> None:
    is_serial = claim == "claim_serial"
    due = {f"due-{number}": Row(is_serial=is_serial) for number in range(10)}
    retries = {
        "later": Row(INSTANT, RETRY, is_serial=is_serial),
        "below": Row(-HOUR - INSTANT, RETRY, is_serial=is_serial),
        "another": Row(state=RETRY, lane="another", is_serial=is_serial),
        "otherwise": Row(state=RETRY, is_serial=not is_serial),
    }
    await chosen.pend(noon, {**due, **retries})
    floor = _floor(noon, HOUR, HOUR, HOUR)
    assert await chosen.names(claim, ("",), floor, quota=10) == due.keys()
    # Each of two flows has its own: the retries of one leave the other's first attempts alone.
    both = await chosen.names(claim, ("", "another"), floor, quota=10)
    assert both == {*due, "another"}


@pytest.mark.parametrize("claim", EVERY)
async def test_retries_have_their_share_and_what_first_attempts_leave(
    chosen: Chosen, noon: datetime, claim: str
) -> None:
    is_serial = claim == "claim_serial"
    rows = {
        f"{state.label}-{number}": Row(state=state, is_serial=is_serial)
        for state in (SCHEDULED, RETRY)
        for number in range(10)
    }
    await chosen.pend(noon, {**rows, "another": Row(lane="another", is_serial=is_serial)})
    await set_flow_limits(
        chosen.connection,
        FlowScope("acme", chosen.kind),
        FlowLimits(retry_share=0.5),
        actor_no=chosen.worker_no,
    )
    floor = _floor(noon, HOUR, HOUR, HOUR)
    names = await chosen.names(claim, ("",), floor, quota=10)
    assert sum(name.startswith(SCHEDULED.label) for name in names) == 5
    assert len(names) == 10
    every = await chosen.names(claim, ("", "another"), floor, quota=16)
    assert len(every) == 17
    assert sum(name.startswith(SCHEDULED.label) for name in every) == 8


@pytest.mark.parametrize("claim", EVERY)
async def test_a_claim_passes_rows_that_another_has_locked(
    ledger: Ledger, noon: datetime, database: str, claim: str
) -> None:
    chosen = _chosen(ledger)
    await ledger.stand_at(noon)
    is_serial = claim == "claim_serial"
    await chosen.pend(
        noon,
        {
            f"{name}-{state.label}": Row(state=state, is_serial=is_serial)
            for name in ("free", "locked")
            for state in (SCHEDULED, RETRY)
        },
    )
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute(
            "select from ledger.pending where item_no in"
            " (select item_no from ledger.due_item where business_key like 'locked%') for update"
        )
        names = await chosen.names(claim, ("",), _floor(noon, HOUR, HOUR, HOUR))
    await rival.close()
    assert names == {f"free-{state.label}" for state in (SCHEDULED, RETRY)}


async def test_a_claim_with_fences_says_when_the_next_plain_row_of_each_flow_is_due(
    chosen: Chosen, noon: datetime
) -> None:
    await chosen.pend(
        noon,
        {
            "due": Row(),
            "serial": Row(SOON / 2, is_serial=True),
            "serial-retry": Row(SOON / 2, RETRY, is_serial=True),
            "next": Row(SOON),
            "next-retry": Row(2 * SOON, RETRY),
            "retried": Row(SOON, RETRY, "retried"),
            "retried-later": Row(2 * SOON, lane="retried"),
            "last": Row(lane="last"),
            "retrying": Row(SOON, lane="retrying"),
            "retrying-now": Row(NOW, RETRY, "retrying"),
            "below": Row(lane="below"),
            "below-floor": Row(-HOUR, RETRY, "below"),
            "far": Row(lane="far"),
            "far-next": Row(2 * MINUTE, lane="far"),
            "paused": Row(SOON, lane="paused"),
        },
    )
    scope = FlowScope("acme", chosen.kind, "paused")
    await pause_flows(chosen.connection, scope, reason="test", actor_no=chosen.worker_no)
    flow_nos = [
        (await chosen.flow_nos(lane))[0]
        for lane in ("", "retried", "last", "retrying", "below", "far", "paused")
    ]
    await set_clock(chosen.connection, noon, 1)
    expected = [20, 20, inf, None, inf, inf, None]
    floors = [_floor(noon, HOUR, MINUTE, HOUR)] * len(flow_nos)
    for with_fences, named in ((True, expected), (False, [None] * len(flow_nos))):
        transaction = chosen.connection.transaction()
        await transaction.start()
        rows = await claim_items(
            chosen.connection, flow_nos, [QUOTA] * len(flow_nos), floors, with_fences=with_fences
        )
        await transaction.rollback()
        names = sorted(row.business_key.decode().rpartition("-")[0] for row in rows.items())
        assert names == ["below", "due", "far", "last", "retrying-now"]
        due = [rows.due_seconds.get(flow_no) for flow_no in flow_nos]
        assert [each and round(each) if each != inf else inf for each in due] == named


async def test_a_flow_may_have_more_than_its_quota_of_what_the_flows_after_it_are_left_without(
    chosen: Chosen, noon: datetime
) -> None:
    lanes = ("few", "many", "cut", "late")
    rows = {f"{lane}-{n}": Row(lane=lane) for lane in lanes for n in range(6)}
    del rows["few-4"], rows["few-5"]
    await chosen.pend(noon, rows | {"few-next": Row(SOON, lane="few")})
    flow_nos = [(await chosen.flow_nos(lane))[0] for lane in lanes]

    await set_clock(chosen.connection, noon, 1)

    claimed = await claim_items(chosen.connection, flow_nos, [3] * 4, mosts=[5] * 4)

    assert _by_lane(claimed) == {"few": 4, "many": 5, "cut": 3}
    due = [claimed.due_seconds.get(flow_no) for flow_no in flow_nos]
    assert [round(seconds) if seconds else seconds for seconds in (due[0], due[1], due[3])] == [
        SOON.total_seconds(), None, None,
    ]  # fmt: skip


async def test_a_flow_with_due_retries_has_its_quota_and_its_retries_their_share_of_it(
    chosen: Chosen, noon: datetime
) -> None:
    await chosen.pend(
        noon,
        {f"plain-{n}": Row(lane="plain") for n in range(40)}
        | {f"mixed-{n}": Row(lane="mixed") for n in range(20)}
        | {f"retry-{n}": Row(state=RETRY, lane="mixed") for n in range(20)},
    )
    flow_nos = [(await chosen.flow_nos(lane))[0] for lane in ("plain", "mixed")]

    for order in (flow_nos, flow_nos[::-1]):
        transaction = chosen.connection.transaction()
        await transaction.start()
        rows = await claim_items(chosen.connection, order, [10, 10], mosts=[40, 40])
        await transaction.rollback()
        taken = _by_lane(rows)
        assert sum(taken.values()) == 20
        assert taken["retry"] >= 1
        assert taken.get("mixed", 0) + taken["retry"] <= 10


async def test_a_flow_that_is_cut_off_is_not_said_to_be_empty_though_retries_of_another_follow(
    chosen: Chosen, noon: datetime
) -> None:
    lanes = ("whole", "cut", "retry")
    rows = {f"{lane}-{n}": Row(lane=lane) for lane in lanes[:2] for n in range(6)}
    rows |= {f"retry-{n}": Row(state=RETRY, lane="retry") for n in range(20)}
    await chosen.pend(noon, rows)
    flow_nos = [(await chosen.flow_nos(lane))[0] for lane in lanes]
    await set_clock(chosen.connection, noon, 1)

    claimed = await claim_items(chosen.connection, flow_nos, [1, 1, 10], mosts=[40, 40, 10])

    taken = _by_lane(claimed)
    assert taken["retry"] >= 1
    assert 1 <= taken["cut"] < 6
    assert claimed.due_seconds == {flow_nos[0]: inf}


def _by_lane(rows: ClaimedRows) -> Counter[str]:
    return Counter(row.business_key.decode().partition("-")[0] for row in rows.items())


async def test_a_claim_locks_the_stripes_of_due_items_that_may_end_one_another(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    chosen = _chosen(ledger)
    await ledger.stand_at(noon)
    rows: Rows = {}
    for number, state in enumerate((SCHEDULED, RETRY)):
        due = Row(state=state, is_serial=True, overlap=2)
        others = {
            "due": due,
            "now": replace(due, after=NOW, overlap=3),
            "floor": replace(due, after=-HOUR, overlap=4),
            "waits": replace(due, overlap=1),
            "later": replace(due, after=INSTANT),
            "below": replace(due, after=-HOUR - INSTANT),
            "another": replace(due, lane="another"),
            "paused": replace(due, lane="paused"),
            "limited": replace(due, lane="limited"),
        }
        for place, (name, row) in enumerate(others.items(), 1):
            rows[f"{name}-{state.label}"] = replace(row, stripe=10 * place + number)
    await chosen.pend(noon, rows)
    paused, limited = (FlowScope("acme", chosen.kind, lane) for lane in ("paused", "limited"))
    await pause_flows(chosen.connection, paused, reason="test", actor_no=chosen.worker_no)
    limits = FlowLimits(concurrency_max=1000)
    await set_flow_limits(chosen.connection, limited, limits, actor_no=chosen.worker_no)
    flow_nos = await chosen.flow_nos("", "paused", "limited")

    async def stripes(*, measured: bool) -> list[int]:
        async with chosen.connection.transaction():
            locked = await chosen.connection.fetch(
                statement("lock_serial_stripes"),
                flow_nos,
                [QUOTA] * 3,
                [noon - HOUR] * 3,
                [measured] * 3,
            )
        return sorted(row["stripe"] for row in locked)

    free = [10, 11, 20, 21, 30, 31]
    assert await stripes(measured=False) == free
    assert await stripes(measured=True) == [*free, 90, 91]
    rival = await connect(database, application_name="rival")
    floor = _floor(noon, HOUR, HOUR, HOUR)
    before = await chosen.names("claim_serial", ("",), floor)
    async with rival.transaction():
        await rival.execute("select ledger.lock_rows('serial', array['10', '11'])")
        assert await stripes(measured=False) == free[2:]
        without = await chosen.names("claim_serial", ("",), floor)
    await rival.close()
    assert before - without == {f"due-{state.label}" for state in (SCHEDULED, RETRY)}
    assert {f"waits-{state.label}" for state in (SCHEDULED, RETRY)} <= without
