"""A ledger in which something is late for each of several reasons."""

from datetime import timedelta

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowLimits, FlowScope, pause_flows, set_flow_limits
from dueledger.ledger.store.items import emit_items
from tests.hostile_text import HOSTILE
from tests.service.conftest import SCHEDULE, Api

_KINDS = {
    "PolicyRenewalDue": (240, timedelta(minutes=14)),
    "PaymentDue": (1_300, timedelta(hours=3)),
    "LetterDue": (18, timedelta(seconds=40)),
    "ClaimReviewDue": (3, timedelta(days=2, hours=5)),
    "StatementDue": (60, -timedelta(hours=2)),
}


async def seed_ledger(api: Api) -> None:
    """Emit items of several kinds; pause a region, limit a rate, park and find some."""
    now = await read_now(api.owner)
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
    await api.find("acme", 4)
    await api.define("acme", "statements", SCHEDULE)
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, blocked_by, as_of)"
        " values ('acme', 'PaymentDue', ledger.now() - interval '3 hours',"
        " 'items in their grace', ledger.now())"
    )
