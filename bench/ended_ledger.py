"""A ledger that is right and has ended: half its items are of schedules, half of an event rule."""

from datetime import datetime, timedelta
from time import perf_counter
from typing import Any, Final

from bench.ledgers import Ledger
from bench.measurements import (
    EventLoad,
    load_endings,
    load_events,
    load_ticks,
    make_claim_months,
    mark_materialised,
)
from bench.rig import Rig
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.flows import ensure_flow
from dueledger.ledger.store.partitions import make_event_months, make_item_months

SCHEDULES: Final = 10
DAYS: Final = 330
MINUTES_A_DAY: Final = 1_440
LOAD_BATCH: Final = 200_000
TENANT: Final = "bench"
RULE: Final = "renewal"


def schedule_name(number: int) -> str:
    """Return the name and business key of a schedule, from 1 to SCHEDULES."""
    return f"tick-{number}"


async def load_ended(ledger: Ledger, rig: Rig, items: int) -> datetime:
    """Make the definitions, and rows as materialiser, intake and workers would.

    Return the time until which schedules are materialised.
    """
    began = perf_counter()
    minutes = items // 2 // SCHEDULES
    until = (await ledger.now()).replace(second=0, microsecond=0)
    since = until - timedelta(minutes=minutes)
    received = until - timedelta(days=DAYS + 60)
    first_date = (until - timedelta(days=DAYS)).date()
    oldest = max(DAYS, minutes // MINUTES_A_DAY) + 31
    days = [(until - timedelta(days=back)).date() for back in range(-1, oldest)]
    await make_item_months(ledger.connection, days)
    await make_event_months(ledger.connection, [received.date()])
    await make_claim_months(ledger.connection, days)
    every_minute = {"cron": "* * * * *", "timezone": "UTC"}
    schedules = [
        await _define(ledger, name, since, business_key=name, when=every_minute)
        for name in map(schedule_name, range(1, SCHEDULES + 1))
    ]
    rule = await _define(ledger, RULE, received - timedelta(days=1), **_rule(ledger))
    for kind in (ledger.kind, ledger.other_kind):
        await ensure_flow(ledger.connection, TENANT, kind, "")
    rig.say(f"loading {items:,} items")
    tzdata, actor_no = tzdata_version(), ledger.actor_no
    await load_ticks(
        ledger.connection,
        ledger.kind,
        schedules,
        from_at=since,
        until_at=until,
        tzdata=tzdata,
        actor_no=actor_no,
    )
    load = EventLoad(
        kind=ledger.other_kind,
        definition_no=rule,
        received_at=received,
        first_date=first_date,
        days=DAYS,
        tzdata=tzdata,
        actor_no=actor_no,
    )
    for first in range(1, items // 2 + 1, LOAD_BATCH):
        count = min(LOAD_BATCH, items // 2 - first + 1)
        await load_events(ledger.connection, load, first=first, count=count)
    fence = 1
    for day in sorted(days):
        fence += await load_endings(ledger.connection, day, first_fence=fence, actor_no=actor_no)
    await mark_materialised(ledger.connection, until, tzdata)
    rig.say(f"loaded in {perf_counter() - began:.0f} s")
    return until


def _rule(ledger: Ledger) -> dict[str, Any]:
    return {
        "kind": ledger.other_kind,
        "event": "PolicyActivated",
        "business_key": "data.policy_number",
        "cycle": "data.term",
        "effective_date": "data.expires_on",
        "when": {
            "relative": "P-30D",
            "to": "effective_date",
            "at": "09:00",
            "timezone": "America/New_York",
        },
    }


async def _define(ledger: Ledger, name: str, since: datetime, **fields: object) -> int:
    document = {"definition": name, "tenant": TENANT, "kind": ledger.kind, **fields}
    definition = parse_definition(document)
    defined = await define(
        ledger.connection,
        definition.normalised(),
        tenant=TENANT,
        name=name,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=since,
        actor_no=ledger.actor_no,
    )
    return defined.definition_no
