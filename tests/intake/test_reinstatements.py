"""Reinstatements after a withdrawal, and the terms of events that happened earlier."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any, cast

import orjson

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection, PlanProfile, open_pool
from dueledger.ledger.store.clock import set_clock
from dueledger.reconciler import Reconciler, ReconcilerSources

from .conftest import BEGINNING, Take, activated, amended, cancelled, complete_everything, renewal
from .test_late_events import lose_everything

SetRule = Callable[..., Awaitable[int]]


def name_after(event: DomainEvent) -> str:
    """Return the cycle of the reinstatement that follows an event."""
    identity = f"{event.tenant}\x1f{event.source}\x1f{event.id}"
    return "2027~r" + sha256(identity.encode()).hexdigest()[:8]


def with_premium(event: DomainEvent, premium: int) -> DomainEvent:
    data = cast("dict[str, Any]", event.data) | {"premium": premium}
    return DomainEvent(
        event.tenant, event.source, event.id, event.type, event.time, event.subject, data
    )


async def read_items(connection: Connection) -> dict[str, tuple[str, int | None]]:
    """Read the ending and the premium of each item, by cycle."""
    rows = await connection.fetch(
        """
        select i.cycle, i.payload, coalesce(e.name, 'open') as ending
        from ledger.due_item i
        left join ledger.transition t on t.effective_date = i.effective_date
          and t.item_no = i.item_no and t.event <> 15 /* revised */
        left join ledger.transition_event e on e.event = t.event
        order by i.item_no
        """
    )
    return {row["cycle"]: (row["ending"], row["payload"].get("premium")) for row in rows}


async def test_an_activation_after_a_cancellation_owes_another_item_in_each_round(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    first, second = cancelled("P-1", minute=10), cancelled("P-1", minute=30)
    for event in (
        activated("P-1", minute=0),
        first,
        activated("P-1", minute=20),
        second,
        activated("P-1", minute=40),
    ):
        await take(event, event)
    assert {cycle: ending for cycle, (ending, _) in (await read_items(connection)).items()} == {
        "2027": "cancelled",
        name_after(first): "cancelled",
        name_after(second): "open",
    }
    assert (await reconciler.run_pass()).found == {}
    await lose_everything(connection)
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 1}
    assert await reconciler.repair(await reconciler.plan()) == 1
    assert list(await read_items(connection)) == [name_after(second)]
    assert (await reconciler.run_pass()).found == {}


async def test_a_rule_that_never_reinstates_leaves_it_cancelled(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind, reinstate="never"))
    await take(activated("P-1"), cancelled("P-1", minute=10))
    await take(activated("P-1", minute=20))
    assert await read_items(connection) == {"2027": ("cancelled", None)}
    assert (await reconciler.run_pass()).found == {}


async def test_an_earlier_pair_of_events_does_not_rename_a_reinstatement(
    take: Take, set_rule: SetRule, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    last, earlier = cancelled("P-1", minute=10), cancelled("P-1", minute=3)
    await take(activated("P-1"), last, activated("P-1", minute=20))
    await take(earlier, activated("P-1", minute=5))
    assert {cycle: ending for cycle, (ending, _) in (await read_items(connection)).items()} == {
        "2027": "cancelled",
        name_after(last): "open",
        name_after(earlier): "cancelled",
    }


async def test_a_reinstatement_that_was_owed_is_withdrawn_when_it_follows_another_event(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    first, second = cancelled("P-1", minute=10), cancelled("P-1", minute=15)
    await take(activated("P-1"), first, activated("P-1", minute=20))
    await take(second)
    assert {cycle: ending for cycle, (ending, _) in (await read_items(connection)).items()} == {
        "2027": "cancelled",
        name_after(first): "cancelled",
        name_after(second): "open",
    }
    assert (await reconciler.run_pass()).found == {}


async def test_an_amendment_back_to_a_date_owes_it_again(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    away = amended("P-1", minute=10, expires_on="2027-04-01")
    back = amended("P-1", minute=20, expires_on="2027-03-01")
    for event in (activated("P-1"), away, back):
        await take(event)
    rows = await connection.fetch(
        "select i.cycle from ledger.due_item i join ledger.pending p using (item_no)"
    )
    assert [row["cycle"] for row in rows] == [name_after(away)]
    replaced_by = await connection.fetchval(
        "select r.cycle from ledger.transition t join ledger.due_item i using (item_no)"
        " join ledger.due_item r on r.id = (t.detail ->> 'replacement')::uuid"
        " where i.effective_date = date '2027-04-01'"
    )
    assert replaced_by == name_after(away)
    assert (await reconciler.run_pass()).found == {}


async def test_a_worked_item_and_its_reinstatement_are_no_duplicates(
    take: Take, set_rule: SetRule, connection: Connection, database: str, actor_no: int, kind: str
) -> None:
    await set_rule(renewal(kind))
    await take(activated("P-1"))
    await set_clock(connection, BEGINNING + timedelta(days=400), 0, database=True)
    await complete_everything(connection, actor_no)
    back = cancelled("P-1", minute=10)
    await take(back, activated("P-1", minute=20))
    assert {cycle: ending for cycle, (ending, _) in (await read_items(connection)).items()} == {
        "2027": "completed",
        name_after(back): "open",
    }
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        found = (await Reconciler(pool, ReconcilerSources(), actor_no).run_pass()).found
    assert found.get(FindingType.DUPLICATE, 0) == 0
    assert found.get(FindingType.UNEXPECTED, 0) == 0


async def test_an_event_that_happened_earlier_gives_a_pending_item_its_terms(
    take: Take, set_rule: SetRule, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind, payload="data", labels={"premium": "data.premium"}))
    await take(with_premium(activated("P-1", minute=5), 500))
    taken = await take(with_premium(activated("P-1", minute=1), 100))
    assert (taken.emitted, taken.revised) == (0, 1)
    again = await take(with_premium(activated("P-1", minute=3), 300))
    assert (again.emitted, again.revised) == (0, 0)
    assert await read_items(connection) == {"2027": ("open", 100)}
    row = await connection.fetchrow(
        "select i.labels ->> 'premium' as label, e.id, t.detail from ledger.due_item i"
        " join ledger.event e using (event_no) join ledger.transition t using (item_no)"
    )
    assert row is not None
    assert (row["label"], row["id"]) == ("100", "PolicyActivated-P-1-1")
    assert row["detail"]["reason"] == "event"
    assert orjson.loads(row["detail"]["before"]["payload"])["premium"] == 500
    assert row["detail"]["before"]["labels"] == {"premium": "500"}


async def test_what_was_handed_out_keeps_its_terms(
    take: Take, set_rule: SetRule, connection: Connection, actor_no: int, kind: str
) -> None:
    await set_rule(renewal(kind))
    await take(with_premium(activated("P-1", minute=5), 500))
    await set_clock(connection, BEGINNING + timedelta(days=400), 0)
    await complete_everything(connection, actor_no)
    taken = await take(with_premium(activated("P-1", minute=1), 100))
    assert taken.revised == 0
    assert await read_items(connection) == {"2027": ("completed", 500)}
