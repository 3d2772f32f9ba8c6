"""A small clean ledger, with at least one row in each table of the journal."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.definitions.calendar_document import parse_calendar
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind
from dueledger.ledger.store.calendars import put_calendar
from dueledger.ledger.store.flows import FlowScope, expedite_items, pause_flows, snooze_items
from dueledger.ledger.store.items import RequestResult, withdraw_items
from dueledger.ledger.store.runs import Settlement, settle_runs
from tests.seals import put_grace

from .clean_ledger import (
    BOOK_ENDED,
    COMPLETED,
    FAILED,
    LEASE_SECONDS,
    PARKED,
    CleanLedger,
    drafts_of,
    event_of,
)
from .documents import (
    ACME,
    NOW,
    PAYMENTS,
    SLA,
    START,
    cron_of,
    letter_declaration,
    renewal_of,
    schedule_of,
)

KIND: Final = "Letter"
PREMIUMS: Final = 20
LETTERS: Final = 14
NOTICES: Final = 14
PAYMENTS_OF_A_KEY: Final = 2
DOCUMENTS: Final[tuple[dict[str, Any], ...]] = (
    schedule_of(
        "statements",
        "Statement",
        cron_of("0 */8 * * *", "Europe/London"),
        payload={"text": "monthly"},
        labels={"channel": "mail"},
        smear="PT10M",
        sla=SLA | {"start_within": "P20D"},
    ),
    schedule_of("sweep", "Sweep", cron_of("0 */6 * * *", "UTC"), overlap="skip"),
    schedule_of(
        "notary",
        "Deed",
        cron_of("0 9 * * *", "UTC"),
        calendar={"name": "notaries", "roll": "following"},
    ),
    renewal_of(ACME),
    letter_declaration(KIND),
    PAYMENTS,
)
LATER: Final = (
    schedule_of("rates", "Rate", cron_of("*/5 * * * *", "UTC"), catch_up={"policy": "latest"}),
)
"""So often that what is missed of it is one range."""

CALENDAR: Final = {
    "first_day": "2026-01-01",
    "last_day": "2027-12-31",
    "weekend": ["sat", "sun"],
    "holidays": ["2027-03-26"],
}
RETIRED_KEY: Final = "insert into ledger.retired_key values (ledger.least_id('2019-04-01'), $1)"
"""Of an item of a month that was dropped."""
OTHER_KEY: Final = """
insert into ledger.event_other_key
select tenant, 'P-other', event_no, occurred_at from ledger.event order by event_no limit 1
"""


async def build_small_ledger(connection: Connection, dsn: str) -> None:
    """Make items of each origin: most completed, some waiting, parked, claimed and running."""
    ledger = CleanLedger(connection, dsn, "", KIND)
    await ledger.begin()
    calendar = parse_calendar(CALENDAR, source="test")
    await put_calendar(
        connection,
        calendar.normalised(),
        tenant=ACME,
        name="notaries",
        valid_to=calendar.last_day,
        source="test",
        actor_no=ledger.actors[ActorKind.PERSON],
    )
    for document in DOCUMENTS:
        await ledger.accept(document)
    await ledger.materialise(timedelta(days=14))
    await ledger.set_time(NOW - timedelta(minutes=1))
    for document in LATER:
        await ledger.accept(document)
    await ledger.materialise(timedelta(hours=1))
    events = [event_of(ACME, "PolicyActivated", number) for number in range(20)]
    events += [event_of(ACME, "PolicyCancelled", number) for number in (3, 17)]
    await ledger.receive(events)
    premiums, notices = drafts_of("Premium", PREMIUMS), drafts_of("Notice", NOTICES)
    await ledger.emit([*premiums, *notices, *drafts_of(KIND, LETTERS)])
    await ledger.owe(premiums)
    person_no = ledger.actors[ActorKind.PERSON]
    await withdraw_items(
        connection,
        [notices[0].id],
        event=TransitionEvent.CANCELLED,
        reason="asked for",
        actor_no=person_no,
    )
    await trigger_definition(
        connection, ACME, "statements", cycle="by hand", reason="asked for", actor_no=person_no
    )
    while await ledger.settle_some(serial=True):
        pass
    await ledger.set_time(NOW)  # when another item of their key is due, which is left open
    while await ledger.settle_some(serial=False):
        pass
    await connection.execute(BOOK_ENDED, KIND)
    waiting = [draft.id for draft in premiums if draft.due_at > NOW]
    await expedite_items(connection, waiting[:1], reason="asked for", actor_no=person_no)
    until = NOW + timedelta(days=9)
    later = [draft.id for draft in notices if draft.due_at > NOW]
    snoozed = await snooze_items(
        connection, later, reason="asked for", actor_no=person_no, until=until
    )
    assert [each.result for each in snoozed] == [RequestResult.DONE]
    scope = FlowScope(ACME, "Rate", None)
    await pause_flows(connection, scope, reason="asked for", actor_no=person_no)
    for table in ("flow", "pause"):
        await connection.execute(
            f"update ledger.{table} set paused_at = paused_at - interval '1 hour'"  # noqa: S608
        )
    await connection.execute(OTHER_KEY)
    await connection.execute(RETIRED_KEY, NOW)
    await _leave_open(ledger)
    await put_grace(connection, 30 * 86_400)


async def _leave_open(ledger: CleanLedger) -> None:
    """Leave an item parked, one that failed, and others claimed and running, serial ones too."""
    drafts = [
        replace(draft, due_at=START, business_key=f"extra-{n}")
        for n, draft in enumerate(drafts_of("Notice", 3))
    ]
    await ledger.emit(drafts)
    (claim,) = await ledger.claim_some(serial=False, seconds=LEASE_SECONDS)
    (started,) = await ledger.start([claim], [3])
    assert started.run is not None
    settlement = Settlement(started.run, [PARKED, FAILED, COMPLETED])
    worker_no = ledger.actors[ActorKind.WORKER]
    assert await settle_runs(ledger.connection, [settlement], worker_no) == []
    others = [replace(draft, due_at=START) for draft in drafts_of("Other", 8)]
    await ledger.emit([*drafts_of("Payment", 8), *others])
    for serial in (True, False):
        claims = await ledger.claim_some(serial=serial, seconds=LEASE_SECONDS)
        await ledger.start(claims, [len(claim.item_nos) // 2 for claim in claims])
    await withdraw_items(
        ledger.connection,
        [others[-1].id],
        event=TransitionEvent.CANCELLED,
        reason="asked for",
        actor_no=ledger.actors[ActorKind.PERSON],
    )
