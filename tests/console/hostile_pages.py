"""A ledger whose texts are hostile, with what each page of the console shows."""

from uuid import UUID

import orjson

from dueledger.console.activity import LedgerActivity
from dueledger.console.overview import OverviewRefresh
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.ledger.store.audit import AuditTarget, record_audit
from dueledger.ledger.store.flows import FlowScope, ensure_flow, pause_flows
from dueledger.ledger.store.operations import ItemFilter, record_operation
from tests.console.hostile_report import record_hostile_report
from tests.hostile_text import HOSTILE
from tests.service.conftest import EVENT, SCHEDULE, Api

SCRIPT = "<script>alert(1)"
TOPIC = "<b>lane</b>"
HOSTILE_EVENT = "<img src=x>"


async def emit_hostile_item(api: Api, key: NewApiKey) -> UUID:
    """Emit an item of the tenant acme, each of whose texts is hostile."""
    [made] = await api.emit(
        key,
        api.item(
            "=2+5",
            cycle="<img src=x>",
            lane="<b>lane</b>",
            labels={"<i>": SCRIPT},
            payload={SCRIPT: "\u202e"},
            partition_key="'\"><script>alert(1)</script>",
        ),
    )
    return made


async def record_hostile_texts(api: Api, item: UUID, key: NewApiKey) -> dict[str, str]:
    """Give the neighbours of an item hostile texts, too; return what paths may name."""
    await api.park(item)
    await api.owner.execute("update ledger.review set reason = $1", HOSTILE)
    flow = FlowScope("acme", "PolicyRenewalDue", "")
    await ensure_flow(api.owner, flow.tenant, "PolicyRenewalDue", "")
    lane = FlowScope("acme", "PolicyRenewalDue", "<b>lane</b>")
    await pause_flows(api.owner, lane, reason=HOSTILE, actor_no=api.person_no)
    target = AuditTarget(flow.path, ["acme"], {SCRIPT: HOSTILE})
    await record_audit(api.owner, api.person_no, "pauseFlows", [target], reason=HOSTILE)
    operation = await record_operation(
        api.owner,
        OperationVerb.REDRIVE,
        ItemFilter("acme", parked_reason=HOSTILE),
        reason=HOSTILE,
        actor_no=api.person_no,
    )
    [finding] = await api.find("acme")
    await api.owner.execute(
        "update ledger.finding set sentence = $1, subject = $1, business_key = $1,"
        " expected = $2, actual = $2, item_id = $3",
        HOSTILE,
        {SCRIPT: HOSTILE},
        item,
    )
    repair = await api.propose(finding, api.person_no)
    await api.owner.execute("update ledger.repair set held_because = $1", HOSTILE)
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, blocked_by, as_of)"
        " values ('acme', 'PolicyRenewalDue', ledger.now(), $1, ledger.now())",
        HOSTILE,
    )
    await api.owner.execute(
        "insert into ledger.alert (name, labels, value, since, sent_to)"
        " values ('ItemsParked', $1::jsonb, 1, now(), '[]')",
        orjson.dumps(["acme", SCRIPT]).decode(),
    )
    await api.owner.execute(
        "update ledger.process set failure = $1, failing_since = now(), host = $1, version = $1",
        HOSTILE,
    )
    await api.owner.execute("update ledger.kind set topic = $1", TOPIC)
    await api.owner.execute(
        "insert into ledger.partition_backoff (topic, partition, expirations, available_at)"
        " values ($1, 0, 3, ledger.now() + interval '1 day')",
        TOPIC,
    )
    event = {**EVENT, "id": HOSTILE_EVENT, "source": f"/{SCRIPT}", "data": {SCRIPT: "\u202e"}}
    recorded = await api.ask("POST", "/v1/events", key=key, body=event)
    assert recorded.status == 200, recorded.text
    await api.define("acme", "d", SCHEDULE | {"business_key": SCRIPT, "labels": {"l": SCRIPT}})
    await OverviewRefresh(LedgerActivity(api.lend), budget_seconds=30).refresh(api.owner)
    return {
        "item": str(item),
        "tenant": "acme",
        "name": "d",
        "kind": "PolicyRenewalDue",
        "fact": "late",
        "operation": str(operation),
        "finding": str(finding),
        "repair": str(repair),
        "number": str(await record_hostile_report(api, "acme")),
    }
