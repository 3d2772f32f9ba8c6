"""Which journal entries free a key, wake its next item, and end a chain's item: finish_items."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect, open_pool
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.upkeep import Upkeep

from .conftest import Ledger

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
FAILURES: Final = {TransitionEvent.FAILED, TransitionEvent.TIMED_OUT, TransitionEvent.PARKED}
TERMINAL: Final = {
    TransitionEvent.COMPLETED,
    TransitionEvent.CANCELLED,
    TransitionEvent.SUPERSEDED,
    TransitionEvent.SKIPPED,
    TransitionEvent.WRITTEN_OFF,
}
REVISED: Final = TransitionEvent.REVISED
HOLD: Final = """
with gone as (delete from ledger.pending where item_no = $1 and not $3 returning 1)
insert into ledger.held_key (serial, item_no, effective_date, flow_no, held_at)
select $2, item_no, effective_date, flow_no, ledger.now() from ledger.due_item where item_no = $1
"""
FOLLOW: Final = "insert into ledger.following values ($1, '2027-03-01', 1, 60)"
PEND: Final = """
update ledger.pending set serial = $2, serial_due_at = $3, overlap = 1,
  available_at = $4::text::timestamptz
where item_no = $1
"""
WRITE: Final = """
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)
select '2027-03-01', item_no, event, 1, 1, ledger.now()
from unnest($1::bigint[], $2::smallint[]) w (item_no, event)
"""


class Keys:
    """Held keys by name, each with an item that is due and two that wait."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.holders: dict[str, int] = {}
        self.first: dict[str, int] = {}
        self.second: dict[str, int] = {}

    async def _emit(self, kind: str) -> int:
        (item,) = await self.ledger.emit(kind=kind)
        return await self.ledger.connection.fetchval(
            "select item_no from ledger.due_item where id = $1", item
        )

    async def hold(self, name: str, kind: str, *, is_pending: bool = False) -> int:
        """Let a new item hold a key of its own; return the key."""
        connection = self.ledger.connection
        serial = len(self.holders) + 1
        self.holders[name] = await self._emit(kind)
        await connection.execute(HOLD, self.holders[name], serial, is_pending)
        await connection.execute(FOLLOW, self.holders[name])
        due = await self._emit(kind)
        await connection.execute(PEND, due, serial, NOON - timedelta(hours=9), str(NOON))
        for place, waiting in enumerate((self.second, self.first)):
            waiting[name] = await self._emit(kind)
            at = NOON - timedelta(hours=place)
            await connection.execute(PEND, waiting[name], serial, at, "infinity")
        return serial

    async def left(self, rows: str) -> set[int]:
        found = await self.ledger.connection.fetch(f"select item_no from ledger.{rows}")  # noqa: S608 - names of the test
        return {row["item_no"] for row in found}


async def _two_kinds(ledger: Ledger) -> tuple[str, str]:
    """Make a kind whose failures keep the key, and one whose failures free it."""
    kinds = (f"{ledger.kind}Keeps", f"{ledger.kind}Frees")
    for kind in kinds:
        policy = KindPolicy("acme", kind, failure_holds=kind == kinds[0])
        await put_kind_policy(ledger.connection, policy)
    return kinds


async def test_g2_a_key_is_free_after_an_end_and_after_a_failure_that_does_not_hold_it(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    keys = Keys(ledger)
    keeps, frees = await _two_kinds(ledger)
    written: dict[str, TransitionEvent] = {}
    freed: set[str] = set()
    for kind in (keeps, frees):
        await keys.hold(f"{kind}-none", kind)
        for event in TransitionEvent:
            name = f"{kind}-{event.name}"
            await keys.hold(name, kind)
            written[name] = event
            if event in TERMINAL or (event in FAILURES and kind == frees):
                freed.add(name)
    no_key = {"serial": None, "serial_due_at": None, "overlap": None}
    pending: dict[str, tuple[TransitionEvent, bool, dict[str, Any]]] = {
        "its key": (REVISED, False, {}),
        "no key": (REVISED, True, no_key),
        "another key": (REVISED, True, {"serial": 4_711, "serial_due_at": NOON, "overlap": 1}),
        "no key after a failure": (TransitionEvent.FAILED, False, no_key),
    }
    for name, (event, is_freed, columns) in pending.items():
        serial = await keys.hold(name, keeps, is_pending=True)
        own = {"serial": serial, "serial_due_at": NOON, "overlap": 1, **columns}
        await ledger.connection.execute(
            "update ledger.pending set serial = $2, serial_due_at = $3, overlap = $4"
            " where item_no = $1",
            keys.holders[name],
            *own.values(),
        )
        written[name] = event
        if is_freed:
            freed.add(name)
    holding = await keys.left("held_key")
    waiting = await keys.left("pending where available_at = 'infinity'")

    await ledger.connection.execute(
        WRITE, [keys.holders[name] for name in written], [*written.values()]
    )

    assert holding - await keys.left("held_key") == {keys.holders[name] for name in freed}
    woken = waiting - await keys.left("pending where available_at = 'infinity'")
    assert woken == {keys.first[name] for name in freed}
    assert await keys.left("following") == {
        number for name, number in keys.holders.items() if written.get(name) not in TERMINAL
    }


async def test_g2_an_end_wakes_its_key_and_ends_its_chain_where_the_other_table_is_empty(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, NOON, 0)
    for empty, other in (("following", "held_key"), ("held_key", "following")):
        keys = Keys(ledger)
        for table in (empty, other):
            await ledger.connection.execute(f"delete from ledger.{table}")  # noqa: S608 - names above
        await keys.hold("one", ledger.kind)
        await ledger.connection.execute(f"delete from ledger.{empty}")  # noqa: S608 - a name above
        await ledger.connection.execute(WRITE, [keys.holders["one"]], [TransitionEvent.COMPLETED])
        assert await keys.left(other) == set()
        await ledger.connection.execute("delete from ledger.pending where serial is not null")


async def test_an_end_passes_an_item_of_its_key_that_another_has_locked(
    ledger: Ledger, database: str
) -> None:
    await ledger.stand_at(NOON)
    keys = Keys(ledger)
    await keys.hold("one", ledger.kind)
    await ledger.connection.execute("set lock_timeout = '1s'")
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute(
            "select from ledger.pending where item_no = $1 for update", keys.first["one"]
        )
        await ledger.connection.execute("delete from ledger.following")
        await ledger.connection.execute(WRITE, [keys.holders["one"]], [TransitionEvent.CANCELLED])
    await rival.close()
    assert await keys.left("pending where available_at = 'infinity'") == {keys.first["one"]}


async def test_g9_upkeep_visits_some_held_keys_in_each_pass_and_all_of_them_in_turn(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ledger.stand_at(NOON)
    keys = Keys(ledger)
    for name in ("first", "second", "third"):
        await keys.hold(name, ledger.kind, is_pending=name == "third")
    await ledger.connection.execute("delete from ledger.following")
    await ledger.connection.execute("create table kept as select * from ledger.held_key")

    async def end_but_hold(name: str) -> None:
        number = keys.holders[name]
        await ledger.connection.execute(WRITE, [number], [TransitionEvent.COMPLETED])
        await ledger.connection.execute(
            "insert into ledger.held_key select * from kept where item_no = $1", number
        )

    monkeypatch.setattr("dueledger.ledger.upkeep.HELD_KEYS_MAX", 1)
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        await end_but_hold("second")
        assert [(await upkeep.tick())["freed"] for _ in range(3)] == [0, 1, 0]
        await end_but_hold("first")
        assert [(await upkeep.tick())["freed"] for _ in range(2)] == [0, 1], "past the last"
    assert await keys.left("held_key") == {keys.holders["third"]}
