"""What a claim decides about the items of a key: each rule, and what does not fall under it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import pytest

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import claim_serial_items
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import FlowScope, pause_flows

from .conftest import Ledger
from .keyed_items import Item, holder, make_items, names_of

RETRY: Final = State.RETRYABLE_FAILURE
WAIT, SKIP = Overlap.WAIT, Overlap.SKIP
BUFFER, CANCEL = Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER


@dataclass(frozen=True, slots=True)
class Case:
    """Items by name, and what one claim makes of them."""

    items: dict[str, Item]
    claimed: set[str] = field(default_factory=set[str])
    waiting: set[str] = field(default_factory=set[str])
    skipped: set[str] = field(default_factory=set[str])
    ousted: set[str] = field(default_factory=set[str])


CASES: Final = {
    # Order by key.
    "the first of a key is claimed": Case(
        {"a": Item(WAIT, 2), "b": Item(WAIT, 1), "other": Item(WAIT, 3, key=2)},
        {"b", "other"},
        {"a"},
    ),
    "a retry goes before what is due later": Case(
        {"a": Item(WAIT, 1, state=RETRY), "b": Item(WAIT, 2)}, {"a"}, {"b"}
    ),
    "one that waits is earlier": Case(
        {"a": Item(WAIT, 1, "waits"), "b": Item(WAIT, 2)}, set(), {"a", "b"}
    ),
    "one that waits is later": Case(
        {"a": Item(WAIT, 3, "waits"), "b": Item(WAIT, 2)}, {"b"}, {"a"}
    ),
    "one that waits has another key": Case(
        {"a": Item(WAIT, 1, "waits", key=2), "b": Item(WAIT, 2)}, {"b"}, {"a"}
    ),
    "an earlier one is not available yet": Case(
        {"a": Item(WAIT, 1, "later"), "b": Item(WAIT, 2)}, {"b"}
    ),
    "an earlier one is paused": Case(
        {"a": Item(WAIT, 1, lane="paused"), "b": Item(WAIT, 2)}, set(), {"b"}
    ),
    "an earlier one is of a flow that is not asked for": Case(
        {"a": Item(WAIT, 1, lane="unasked"), "b": Item(WAIT, 2)}, set(), {"b"}
    ),
    "the key is held": Case({"h": holder(), "b": Item(WAIT, 2)}, set(), {"b"}),
    "another key is held": Case({"h": holder(key=2), "b": Item(WAIT, 2)}, {"b"}),
    "the holder itself is due again": Case(
        {"h": Item(WAIT, 1, state=RETRY, holds=True), "b": Item(WAIT, 2)}, {"h"}, {"b"}
    ),
    # Overlap 2: skip.
    "of two at once one is skipped": Case(
        {"a": Item(SKIP, 1), "b": Item(SKIP, 2), "other": Item(SKIP, 3, key=2)},
        {"a", "other"},
        skipped={"b"},
    ),
    "skipped while the key is held": Case(
        {"h": holder(), "b": Item(SKIP, 2), "other": Item(SKIP, 3, key=2)},
        {"other"},
        skipped={"b"},
    ),
    "a retry is not skipped": Case({"h": holder(), "b": Item(SKIP, 2, state=RETRY)}, set(), {"b"}),
    "a first attempt goes before a retry": Case(
        {"a": Item(SKIP, 1, state=RETRY), "b": Item(SKIP, 2)}, {"b"}, {"a"}
    ),
    "one that waits does not hinder": Case(
        {"a": Item(SKIP, 1, "waits", state=RETRY), "b": Item(SKIP, 2)}, {"b"}, {"a"}
    ),
    # Overlap 3: one waits.
    "one waits and the next is skipped": Case(
        {"h": holder(), "a": Item(BUFFER, 2), "b": Item(BUFFER, 3), "c": Item(BUFFER, 4, key=2)},
        {"c"},
        {"a"},
        {"b"},
    ),
    "one waits already": Case(
        {"h": holder(), "a": Item(BUFFER, 2, "waits"), "b": Item(BUFFER, 3)},
        set(),
        {"a"},
        {"b"},
    ),
    "one of another key waits": Case(
        {"h": holder(), "a": Item(BUFFER, 2, "waits", key=2), "b": Item(BUFFER, 3)},
        set(),
        {"a", "b"},
    ),
    "one is not available yet": Case(
        {"h": holder(), "a": Item(BUFFER, 2, "later"), "b": Item(BUFFER, 3)}, set(), {"b"}
    ),
    "one of another policy waits": Case(
        {"h": holder(), "a": Item(WAIT, 2, "waits"), "b": Item(BUFFER, 3)}, set(), {"a", "b"}
    ),
    "a retry waits": Case(
        {"h": holder(), "a": Item(BUFFER, 2, "waits", state=RETRY), "b": Item(BUFFER, 3)},
        set(),
        {"a", "b"},
    ),
    "one of a paused flow waits": Case(
        {"h": holder(), "a": Item(BUFFER, 2, "waits", lane="paused"), "b": Item(BUFFER, 3)},
        set(),
        {"a", "b"},
    ),
    "retries wait": Case(
        {
            "h": holder(),
            "a": Item(BUFFER, 2, "waits"),
            "b": Item(BUFFER, 3, state=RETRY),
            "c": Item(BUFFER, 4, state=RETRY),
        },
        set(),
        {"a", "b", "c"},
    ),
    "an earlier one of a paused flow does not hinder": Case(
        {"a": Item(BUFFER, 1, lane="paused"), "b": Item(BUFFER, 2)}, {"b"}
    ),
    "an earlier one of a flow that is not asked for hinders": Case(
        {"a": Item(BUFFER, 1, lane="unasked"), "b": Item(BUFFER, 2)}, set(), {"b"}
    ),
    # Overlap 4: the newest runs.
    "the newest of three": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3), "c": Item(CANCEL, 2)},
        {"b"},
        skipped={"a", "c"},
    ),
    "a newer one of another key": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3, key=2)}, {"a", "b"}
    ),
    "a newer one is not available yet": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3, "later")}, {"a"}
    ),
    "a newer one waits": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3, "waits")}, set(), {"b"}, {"a"}
    ),
    "a newer one is of a flow that is not asked for": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3, lane="unasked")}, skipped={"a"}
    ),
    "a newer one is paused": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 3, lane="paused")}, {"a"}
    ),
    "a newer one of another policy": Case({"a": Item(CANCEL, 1), "b": Item(WAIT, 3)}, {"a"}, {"b"}),
    "an older one of another policy waits": Case(
        {"a": Item(WAIT, 1), "b": Item(CANCEL, 3)}, {"b"}, {"a"}
    ),
    "an older one of another policy waits already": Case(
        {"a": Item(WAIT, 1, "waits"), "b": Item(CANCEL, 3)}, {"b"}, {"a"}
    ),
    "older ones that wait are skipped": Case(
        {
            "h": holder(9),
            "a": Item(CANCEL, 10, "waits"),
            "b": Item(CANCEL, 11),
            "other": Item(CANCEL, 3, "waits", key=2),
            "later": Item(CANCEL, 4, "later"),
            "newer": Item(CANCEL, 12, "later"),
        },
        set(),
        {"b", "other"},
        {"a"},
        {"h"},
    ),
    "a newer one that waits stays": Case(
        {"h": holder(), "a": Item(CANCEL, 5, "waits"), "b": Item(CANCEL, 4)},
        set(),
        {"a"},
        {"b"},
        {"h"},
    ),
    "an older retry is cancelled": Case(
        {"a": Item(CANCEL, 1, state=RETRY), "b": Item(CANCEL, 2)}, {"b"}, {"a"}, ousted={"a"}
    ),
    "a newer retry runs": Case(
        {"a": Item(CANCEL, 1), "b": Item(CANCEL, 2, state=RETRY)}, {"b"}, skipped={"a"}
    ),
    "an older holder is cancelled": Case(
        {"h": holder(), "b": Item(CANCEL, 2), "x": holder(1, key=2)}, set(), {"b"}, ousted={"h"}
    ),
    "a newer holder stays": Case({"h": holder(3), "b": Item(CANCEL, 2)}, skipped={"b"}),
    "a newer holder of another key": Case(
        {"h": holder(), "x": holder(9, key=2), "b": Item(CANCEL, 2)}, set(), {"b"}, ousted={"h"}
    ),
    "a holder of another policy's key stays": Case(
        {"h": holder(), "b": Item(WAIT, 2), "c": Item(BUFFER, 3)}, set(), {"b", "c"}
    ),
    "the holder itself was released before its start": Case(
        {"h": Item(CANCEL, 1, holds=True), "b": Item(CANCEL, 2)}, {"h"}, {"b"}, ousted={"h"}
    ),
    "the holder itself is due again beside a newer one": Case(
        {
            "h": Item(CANCEL, 1, state=RETRY, holds=True),
            "b": Item(CANCEL, 2),
            "older": Item(CANCEL, 3, key=2),
            "newer": Item(CANCEL, 4, key=2),
        },
        {"h", "newer"},
        {"b"},
        {"older"},
        {"h"},
    ),
    "the holder itself is due again, a newer one is of a flow that is not asked for": Case(
        {"h": Item(CANCEL, 1, state=RETRY, holds=True), "b": Item(CANCEL, 2, lane="unasked")},
        {"h"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_g2_a_claim_decides_about_the_items_of_a_key_by_their_policies(
    undone_ledger: Ledger, noon: datetime, case: Case
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    await ledger.emit(lane="paused", due_at=noon + timedelta(days=1))
    await make_items(ledger, noon, case.items)
    paused = FlowScope("acme", ledger.kind, "paused")
    await pause_flows(ledger.connection, paused, reason="test", actor_no=ledger.worker_no)
    flows = await ledger.connection.fetch(
        "select flow_no from ledger.flow where lane in ('', 'paused')"
    )
    flow_nos = [row["flow_no"] for row in flows]

    rows = await claim_serial_items(
        ledger.connection, flow_nos, [100] * len(flow_nos), ledger.worker_no
    )

    events = f"ledger.transition where event = {TransitionEvent.SKIPPED:d}"
    result = Case(
        case.items,
        {row.business_key.decode().partition("-")[0] for row in rows.items()},
        await names_of(ledger, "ledger.pending where available_at = 'infinity'"),
        await names_of(ledger, events),
        await names_of(ledger, "ledger.withdrawal"),
    )
    assert result == case
    holders = {name for name, item in case.items.items() if item.holds}
    assert await names_of(ledger, "ledger.held_key") == holders | case.claimed
    left = {name for name, item in case.items.items() if item.place} - case.claimed - case.skipped
    pending = await names_of(ledger, "ledger.pending where serial is not null")
    assert pending == left


async def _claim(ledger: Ledger, connection: Connection) -> set[str]:
    rows = await connection.fetch("select flow_no from ledger.flow")
    flow_nos = [row["flow_no"] for row in rows]
    claimed = await claim_serial_items(
        connection, flow_nos, [100] * len(flow_nos), ledger.worker_no
    )
    return {row.business_key.decode().partition("-")[0] for row in claimed.items()}


async def test_a_claim_skips_no_older_item_that_another_has_locked(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    await ledger.stand_at(noon)
    items = {
        "locked": Item(CANCEL, 1, "waits"),
        "free": Item(CANCEL, 2, "waits"),
        "newest": Item(CANCEL, 3),
    }
    await make_items(ledger, noon, items)
    rival = await connect(database, application_name="rival")
    await ledger.connection.execute("set lock_timeout = '1s'")
    async with rival.transaction():
        await rival.execute(
            "select from ledger.pending where item_no = (select min(item_no) from ledger.pending)"
            " for update"
        )
        async with ledger.connection.transaction():
            assert await _claim(ledger, ledger.connection) == {"newest"}
            assert await names_of(ledger, "ledger.transition") == {"free"}
            await ledger.connection.execute("delete from ledger.held_key")
            await ledger.connection.execute(
                "delete from ledger.due_item where business_key like 'newest%'"
            )
    await rival.close()
    assert await names_of(ledger, "ledger.pending") == {"locked"}


async def test_g4_of_two_claimers_at_once_one_has_the_key(
    ledger: Ledger, noon: datetime, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.stand_at(noon)
    await make_items(ledger, noon, {"later": Item(WAIT, 2)})
    rival = await connect(database, application_name="rival")
    await set_clock(rival, noon, 0)
    claiming = rival.transaction()
    await claiming.start()
    assert await _claim(ledger, rival) == {"later"}
    await make_items(ledger, noon, {"earlier": Item(WAIT, 1)})  # emitted while the other is claimed
    second = asyncio.create_task(_claim(ledger, ledger.connection))
    pid = ledger.connection.get_server_pid()

    async def waits() -> bool:
        return await rival.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(waits)
    await rival.execute("delete from ledger.due_item where business_key like 'later%'")
    await claiming.commit()
    assert await second == set()
    assert await names_of(ledger, "ledger.pending where available_at = 'infinity'") == {"earlier"}
    await rival.close()
