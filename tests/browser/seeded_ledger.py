"""A ledger in which something is late for each of several reasons."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from dueledger.console.activity import LedgerActivity
from dueledger.console.overview import OverviewRefresh
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.audit import AuditTarget, record_audit
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowLimits, FlowScope, pause_flows, set_flow_limits
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.operations import ItemFilter, record_operation
from dueledger.ledger.store.past_load import (
    DueResults,
    PastLoadCount,
    PastQuarter,
    note_past_load,
    record_past_load,
)
from dueledger.ledger.store.reviews import take_findings
from dueledger.reviews import of_finding
from tests.hostile_text import HOSTILE
from tests.ledger.conftest import Ledger
from tests.service.conftest import SCHEDULE, Api

_KINDS = {
    "PolicyRenewalDue": (240, timedelta(minutes=14)),
    "PaymentDue": (1_300, timedelta(hours=3)),
    "LetterDue": (18, timedelta(seconds=40)),
    "ClaimReviewDue": (3, timedelta(days=2, hours=5)),
    "StatementDue": (60, -timedelta(hours=2)),
}


_SCHEDULES = {
    "statements": SCHEDULE,
    "nightly-close": {
        **SCHEDULE,
        "kind": "NightlyCloseDue",
        "business_key": "close",
        "when": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    },
    "rate-feed": {
        **SCHEDULE,
        "kind": "RateFeedDue",
        "business_key": "rates",
        "when": {"cron": "*/10 7-19 * * 1-5", "timezone": "America/New_York"},
    },
}
_HOURS = 24
_EACH_HOUR = 12
"""Items of a kind that is worked each hour."""
_LONG = "household/2027/" + "renewal-of-a-policy-with-a-long-name/" * 4
LONG_KEY = f"I-{_LONG}-0"
"""The business key of an item that has failed often."""


async def seed_ledger(api: Api) -> None:
    """Emit items of several kinds; work some, pause a region, limit a rate, park and find some."""
    now = await read_now(api.owner)
    await _work_a_day(api, now)
    for kind, (count, ago) in _KINDS.items():
        for tenant, lane in (("acme", ""), ("umbra", "north")):
            drafts = [
                ItemDraft(
                    tenant=tenant,
                    kind=kind,
                    lane=lane,
                    business_key=f"{kind[0]}-{number:05}",
                    cycle=f"{now:%Y-%m}",
                    effective_date=(now + timedelta(days=3)).date(),
                    due_at=now - ago + timedelta(seconds=number),
                    payload='{"premium":"123.45"}',
                )
                for number in range(count)
            ]
            await emit_items(api.owner, drafts, actor_no=api.person_no)
    hostile = [
        ItemDraft(
            tenant="acme",
            kind="LetterDue",
            lane="<b>lane</b>",
            business_key=HOSTILE.replace("\r\n", " ")[:200],
            cycle="2027",
            effective_date=now.date(),
            due_at=now - timedelta(minutes=3),
            payload="{}",
        )
    ]
    await emit_items(api.owner, hostile, actor_no=api.person_no)
    changed = AuditTarget("flows/acme/PaymentDue", ["acme", "umbra"], {"rate_per_second": 12})
    lane = FlowScope("umbra", "PaymentDue", "north")
    slowed = AuditTarget(lane.path, ["umbra"], {"rate_per_second": 12})
    await record_audit(
        api.owner,
        api.person_no,
        "setFlowLimits",
        [changed, slowed],
        reason=HOSTILE,
        request_id="0198c0de-0000-7000-8000-000000000001",
    )
    await record_audit(
        api.owner,
        api.person_no,
        "setFlowLimits",
        [slowed],
        reason="INC-76: the partner takes twelve a second",
        request_id="0198c0de-0000-7000-8000-000000000002",
    )
    await set_flow_limits(api.owner, lane, FlowLimits(rate_per_second=12), actor_no=api.person_no)
    await pause_flows(
        api.owner, FlowScope("umbra", None, "north"), reason="INC-77: the archive is down",
        actor_no=api.person_no,
    )  # fmt: skip
    await set_flow_limits(
        api.owner,
        FlowScope("acme", "PaymentDue", ""),
        FlowLimits(rate_per_second=5),
        actor_no=api.person_no,
    )
    parked = await api.owner.fetch(
        "select i.id from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no) where k.name = 'ClaimReviewDue' and k.tenant = 'acme'"
    )
    await api.park(*(row["id"] for row in parked))
    await _fail(api, [row["id"] for row in parked])
    await _reconcile(api)
    for name, document in _SCHEDULES.items():
        await api.define("acme", name, document)
    await api.owner.execute(
        "insert into ledger.alert (name, labels, value, since, sent_to) values"
        """ ('ItemsLate', '["acme", "PaymentDue", "due.PaymentDue", "kafka"]', 9, now(), '[]'),"""
        """ ('AllocatorMissing', '[]', 1, now(), '[]')"""
    )
    await _count_the_past(api, now)
    await OverviewRefresh(LedgerActivity(api.lend), budget_seconds=30).refresh(api.owner)
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, blocked_by, as_of)"
        " values ('acme', 'PaymentDue', ledger.now() - interval '3 hours',"
        " 'items in their grace', ledger.now())"
    )


async def _count_the_past(api: Api, now: datetime) -> None:
    """Record results of four weeks, as passes count them; of the first days nothing is known."""
    quarters: list[PastQuarter] = []
    for kind, most in (("InvoiceDue", 1_400), ("NightlyCloseDue", 1), ("PaymentDue", 88_000)):
        for number in range(24 * 26):
            at = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=number)
            if kind == "NightlyCloseDue" and at.hour != 2:
                continue
            items = 1 + most * (at.hour * 7 % 24) // 24 // (1 + 9 * (at.weekday() > 4))
            late = items // 9 * (number % 50 == 3)
            parked = min(items, 3) * (number % 90 == 13)
            waiting = items // 5 * (number in {1, 60})
            failed = items // 7 * (number % 31 == 1)
            completed = items - parked - waiting
            results = DueResults(items, completed, late, parked, 0, 0, max(failed, parked))
            quarters.append(PastQuarter("acme", kind, at, at.date(), results))
    await record_past_load(api.owner, date(2000, 1, 1), date(2100, 1, 1), quarters)
    await note_past_load(api.owner, PastLoadCount(now, now - timedelta(days=26)))


async def _work_a_day(api: Api, now: datetime) -> None:
    """Let a worker complete, at the time of each, what was due in the last day; some of it late."""

    def make(count: int, **terms: Any) -> list[ItemDraft]:  # noqa: ANN401 - those of an item
        day = {"tenant": "acme", "kind": "InvoiceDue", "cycle": "2027", "payload": "{}"}
        prefix = terms.pop("prefix")
        return [
            ItemDraft(
                business_key=f"I-{prefix}-{number}", effective_date=now.date(), **day, **terms
            )
            for number in range(count)
        ]

    ledger = Ledger(api.owner, api.person_no, api.person_no, make, "InvoiceDue")
    await _fail_often(ledger, now - timedelta(hours=_HOURS + 2))
    for hour in range(_HOURS, 0, -1):
        due_at = now - timedelta(hours=hour)
        await ledger.stand_at(due_at)
        await ledger.emit(_EACH_HOUR * (1 + 9 * (hour % 5 == 0)), due_at=due_at)
        claim = await ledger.claim()
        await ledger.stand_at(due_at + timedelta(minutes=2 + 90 * (hour == 7)))
        run = await ledger.start(claim.fence, 1, len(claim.item_nos))
        outcomes = [TransitionEvent.COMPLETED] * len(claim.item_nos)
        if hour in {3, 11}:
            outcomes[0] = TransitionEvent.PARKED
        await ledger.settle(run.run_no, *outcomes)
    await _work_the_last_hour(ledger, now)
    for hour in range(1, _HOURS):
        await ledger.emit(_EACH_HOUR, due_at=now + timedelta(hours=hour))
    await ledger.stand_at(now)
    await ledger.emit(6, due_at=now)
    claim = await ledger.claim()
    await api.owner.execute(
        "update ledger.claim set topic = 'due.InvoiceDue', partition = 3, base_offset = 4711,"
        " published_at = claimed_at where fence = $1",
        claim.fence,
    )
    await api.owner.execute("select set_config('ledger.clock', '', false)")


async def _work_the_last_hour(ledger: Ledger, now: datetime) -> None:
    """Let a worker complete some items each minute; it is slow for some of them."""
    for minute in range(56, 2, -1):
        due_at = now - timedelta(minutes=minute)
        await ledger.emit(4 + minute * 7 % 9, due_at=due_at)
        await ledger.stand_at(due_at + timedelta(seconds=4 + minute % 7 + 45 * (24 < minute < 36)))
        claim = await ledger.claim()
        run = await ledger.start(claim.fence, 1, len(claim.item_nos))
        await ledger.settle(run.run_no, *[TransitionEvent.COMPLETED] * len(claim.item_nos))


async def _fail_often(ledger: Ledger, due_at: datetime) -> None:
    """Let an item with a long key fail four times, the last time for a person to decide."""
    await ledger.stand_at(due_at)
    await ledger.emit(prefix=_LONG, due_at=due_at)
    for attempt in range(1, 5):
        await ledger.stand_at(due_at + timedelta(minutes=7 * attempt))
        run = await ledger.start((await ledger.claim()).fence)
        is_last = attempt == 4
        event = TransitionEvent.PARKED if is_last else TransitionEvent.FAILED
        await ledger.settle(run.run_no, event, after_seconds=None if is_last else 60)


async def _fail(api: Api, items: Sequence[UUID]) -> None:
    """Let parked items have failed with an error, and decide about them."""
    await api.owner.execute(
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at,"
        " detail) select effective_date, item_no, 6, 1, $2, ledger.now(), $3::jsonb"
        " from ledger.due_item where id = any ($1::uuid[])",
        items,
        api.person_no,
        {"error": "ArchiveUnavailable", "message": f"no answer from the archive {HOSTILE}"},
    )
    await record_operation(
        api.owner,
        OperationVerb.TRIGGER,
        ItemFilter("acme", "StatementDue"),
        reason="INC-77: the archive is back",
        actor_no=api.person_no,
    )
    await api.owner.execute(
        "update ledger.operation set done = 24, advanced_at = ledger.now(), worked_seconds = 80,"
        " stepped_at = ledger.machine_now()"
    )
    await api.owner.execute(
        "update ledger.flow f set circuit_failure_ratio = 0.5, circuit = 'open',"
        " circuit_at = ledger.now() from ledger.kind k"
        " where k.kind_no = f.kind_no and k.tenant = 'acme' and k.name = 'LetterDue'"
    )


async def _reconcile(api: Api) -> None:
    """Record findings, a repair that waits, a report and a worker that is gone."""
    findings = await api.find("acme", 4)
    await api.owner.execute(
        "update ledger.finding set first_seen_at = ledger.now() - interval '9 days', severity ="
        " 'critical', sentence = 'The premium is another one.', type = 'WRONG_TERMS',"
        " expected = $2, actual = $3 where id = $1",
        findings[0],
        {"state": "Completed", "premium": 120, "business_key": HOSTILE},
        {"state": "Completed", "premium": 102, "business_key": HOSTILE},
    )
    await api.propose(findings[0], api.person_no)
    await take_findings(api.owner, findings[:1], actor_no=api.person_no)
    said = AuditTarget(of_finding(findings[0]), ["acme"], {"comment": f"INC-78: asked {HOSTILE}"})
    await record_audit(api.owner, api.person_no, "commentOnFinding", [said])
    await api.report("*")
    lost = await register_actor(api.owner, "worker:1", ActorKind.WORKER)
    await api.owner.execute(
        "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
        " values ($1, 'worker', 'app-7', '0.1.0', ledger.machine_now() - interval '2 days',"
        " ledger.machine_now() - interval '4 minutes')",
        lost,
    )
    relay = await register_actor(api.owner, "relay:app-8:4711:5f1c", ActorKind.RELAY)
    await api.owner.execute(
        "insert into ledger.process (process_no, role, host, version, started_at, seen_at,"
        " ticked_at, tick_seconds, outbox_items)"
        " select $1, 'relay', 'app-8', '0.1.0', n, n, n, 0.042,"
        " 10000 from ledger.machine_now() n",
        relay,
    )
