"""Items that wait by themselves: their time, decisions of people, and their keys."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.processes import ProcessRole

from .conftest import Installation
from .hindered import LATE_RETRIES, LATER, SECOND, Cases, Hindered

# Its time, and decisions of people.


async def ended(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.run("cancel", str(item), "--reason", "the policy lapsed")
    return Hindered(item, leads_to=())


async def not_due(site: Installation) -> Hindered:
    [item] = await site.emit_direct(due_at=LATER)
    await site.start_direct()
    await site.until_live(ProcessRole.DIRECT_WORKER)
    return Hindered(item)


async def clock_behind(site: Installation) -> Hindered:
    await set_clock(site.connection, datetime(2025, 6, 1, tzinfo=UTC), 0, database=True)
    await site.reconnect()
    [item] = await site.emit_direct()

    async def restart() -> None:
        await site.reconnect()
        await site.start_direct()

    return Hindered(item, restart)


async def retry(site: Installation) -> Hindered:
    await site.put_kind(**LATE_RETRIES)
    [item] = await site.emit_direct("fail")
    await site.start_direct()
    return Hindered(item)


async def snoozed(site: Installation) -> Hindered:
    [item] = await site.emit_direct("snooze")
    await site.start_direct()
    return Hindered(item)


async def put_off(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    until = ("--until", "2190-01-01T09:00")
    await site.run("snooze", str(item), *until, "--reason", "the register is down.")
    await site.start_direct()
    says = ("snoozed it until 2190-01-01 09:00:00 UTC, ", " from now: the register is down.")
    return Hindered(item, says=says)


async def released(site: Installation) -> Hindered:
    [item] = await site.emit_direct("lack")
    await site.start_direct()
    return Hindered(item, says=("the secret BILLING is missing",))


async def expired(site: Installation) -> Hindered:
    await site.put_kind(queue_seconds=1)
    [item] = await site.emit()
    await site.connection.execute(
        "insert into ledger.partition_backoff (topic, partition, expirations, available_at)"
        " select $1, partition, 3, ledger.now() from generate_series(0, 99) partition",
        site.topic,
    )  # the next lasts 8 s: a command that prints it takes longer than the first, of 1 s
    await site.grant(10)
    await site.start("allocate")

    async def keep_up() -> None:
        await site.grant(0)
        await site.put_kind(queue_seconds=3600)

    return Hindered(item, keep_up)


async def parked(site: Installation) -> Hindered:
    [item] = await site.emit_direct("park")
    await site.start_direct()
    return Hindered(item)


async def paused_tenant(site: Installation) -> Hindered:
    [item] = await site.emit_direct(due_at=LATER, lane="eu")
    await site.run("pause", "acme", "--reason", "a deployment")
    await site.run("pause", "acme", site.kind, "--reason", "a narrower one")
    await site.start_direct()
    await site.run("trigger", str(item), "--reason", "it is wanted now")
    return Hindered(item)


async def paused_kind(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    until = ("--until", "2190-01-01T09:00")
    await site.run("pause", "acme", site.kind, "--reason", "a deployment", *until)
    await site.start_direct()
    return Hindered(item, says=("until 2190-01-01 09:00:00 UTC: a deployment",))


async def paused_lane(site: Installation) -> Hindered:
    [item] = await site.emit_direct(lane="north west")
    await site.run("pause", "acme", site.kind, "--lane", "north west", "--reason", "a deployment")
    await site.start_direct()
    return Hindered(item)


async def _redriven(site: Installation, **policy: int) -> UUID:
    [item] = await site.emit_direct()
    await site.put_kind(dispatch="direct", **policy)
    await site.connection.execute("update ledger.pending set state = 4, attempt = 1")
    await site.run("park", str(item), "--reason", "the address is wrong")
    await site.run(
        *("redrive", "--tenant", "acme", "--kind", site.kind),
        *("--reason", "it was corrected", "--execute"),
    )
    return item


async def operation_waits(site: Installation) -> Hindered:
    return Hindered(await _redriven(site))


async def operation_paused(site: Installation) -> Hindered:
    item = await _redriven(site)
    number: int = await site.connection.fetchval("select operation_no from ledger.operation")
    await site.run("operation", "pause", str(number), "--reason", "the archive is slow")
    await site.start_direct()
    return Hindered(item)


async def operation_unapproved(site: Installation) -> Hindered:
    """Another person than the one who follows the remedy has asked for it."""
    bob = await register_actor(site.connection, "person:bob", ActorKind.PERSON)
    item = await _redriven(site, operation_approval_above=0)
    await site.connection.execute("update ledger.operation set actor_no = $1", bob)
    await site.start_direct()
    return Hindered(item)


async def operation_runs(site: Installation) -> Hindered:
    item = await _redriven(site)
    unlock = await site.lock_rows("select from ledger.operation for update")
    await site.start_direct()
    return Hindered(item, leads_to=(), ended=unlock)


# Its key.


async def _follower(site: Installation, how: str) -> UUID:
    """Emit an item, and return one that may only run after it."""
    await site.put_kind(ordering="key", **LATE_RETRIES)
    await site.emit_direct(how, partition_key="one")
    [item] = await site.emit(partition_key="one", due_at=SECOND)
    await site.start_direct()
    return item


async def behind(site: Installation) -> Hindered:
    second = await _follower(site, "hang")
    return Hindered(second, leads_to=(), ended=site.end_hang)


async def behind_parked(site: Installation) -> Hindered:
    second = await _follower(site, "park")
    return Hindered(second)


async def behind_retry(site: Installation) -> Hindered:
    second = await _follower(site, "fail")
    return Hindered(second)


async def overlap(site: Installation) -> Hindered:
    [first] = site.make_drafts(prefix="hang")
    first = replace(first, overlap=Overlap.WAIT)
    second = replace(first, cycle="2028", due_at=SECOND)
    await site.put_kind(dispatch="direct")
    await site.emit_drafts([first, second])
    await site.start_direct()
    return Hindered(second.id, leads_to=(), ended=site.end_hang)


async def key_free(site: Installation) -> Hindered:
    second = await _follower(site, "hang")
    await site.until(second, Hindrance.BEHIND)
    unlock = await site.lock_rows("select from ledger.pending for update")
    await site.connection.execute("delete from ledger.held_key")

    async def end() -> None:
        await unlock()
        await site.end_hang()

    return Hindered(second, leads_to=(), ended=end)


CASES: Final[Cases] = (
    (Hindrance.ENDED, ended),
    (Hindrance.NOT_DUE, not_due),
    (Hindrance.CLOCK_BEHIND, clock_behind),
    (Hindrance.RETRY, retry),
    (Hindrance.SNOOZED, snoozed),
    (Hindrance.PUT_OFF, put_off),
    (Hindrance.RELEASED, released),
    (Hindrance.EXPIRED, expired),
    (Hindrance.PARKED, parked),
    (Hindrance.PAUSED, paused_tenant),
    (Hindrance.PAUSED, paused_kind),
    (Hindrance.PAUSED, paused_lane),
    (Hindrance.OPERATION_RUNS, operation_runs),
    (Hindrance.OPERATION_WAITS, operation_waits),
    (Hindrance.OPERATION_PAUSED, operation_paused),
    (Hindrance.OPERATION_UNAPPROVED, operation_unapproved),
    (Hindrance.BEHIND, behind),
    (Hindrance.BEHIND_PARKED, behind_parked),
    (Hindrance.BEHIND_RETRY, behind_retry),
    (Hindrance.OVERLAP, overlap),
    (Hindrance.KEY_FREE, key_free),
)
