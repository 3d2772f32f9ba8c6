"""A report of a reconciliation with a hostile text wherever it can have one."""

from uuid import uuid4

from dueledger.ledger.finding_types import FindingType, Owner, RepairAction, Severity
from dueledger.ledger.store.reports import ReportList, record_report_rows
from dueledger.reconciler.report.model import FindingDetail, RepairDetail, StatementVerdict
from tests.hostile_text import HOSTILE
from tests.service.conftest import Api

_AT = "2026-02-01T00:00:00Z"
_FACTS = {HOSTILE: HOSTILE}
_OF_KIND: dict[str, object] = dict.fromkeys(("tenant", "kind"), HOSTILE)
_FINDING = FindingDetail.model_validate(
    {
        **_OF_KIND,
        **dict.fromkeys(("subject", "business_key", "sentence", "reason"), HOSTILE),
        **dict.fromkeys(("item_id", "effective_date", "due_at", "closed_at")),
        **dict.fromkeys(("expected", "actual"), _FACTS),
        **dict.fromkeys(("first_seen_at", "last_seen_at"), _AT),
        "id": uuid4(),
        "type": FindingType.MISSING,
        "severity": Severity.ERROR,
        "owner": next(iter(Owner)),
        "opened_count": 1,
        "resolution": "open",
    }
)
_REPAIR = RepairDetail.model_validate(
    {
        **_OF_KIND,
        **dict.fromkeys(("subject", "would", "before", "after"), HOSTILE),
        **dict.fromkeys(("proposed_by", "held_because", "approved_by", "executed_by"), HOSTILE),
        **dict.fromkeys(("id", "finding_id"), uuid4()),
        "type": FindingType.MISSING,
        "action": next(iter(RepairAction)),
        "status": None,
        "waits": True,
        "executed_at": _AT,
        "outcome": _FACTS,
    }
)
_SOURCE = {
    **dict.fromkeys(("name", "origin", "query_digest", "hash_total", "failure"), HOSTILE),
    "extracted_at": _AT,
    "duration_seconds": 0,
    "row_count": 1,
    "skipped": [{"reason": HOSTILE, "count": 1}],
}
_RULE = {
    **_OF_KIND,
    **dict.fromkeys(("definition", "event_type", "digest"), HOSTILE),
    **dict.fromkeys(("superseded_at", "second_opinion", "second_opinion_days")),
    "version": 1,
    "effective_from": _AT,
}


async def record_hostile_report(api: Api, tenant: str) -> int:
    """Record it with its lists, and return its number."""
    number = await api.report(
        tenant,
        statement={
            "verdict": StatementVerdict.NOT_COMPLETE,
            "sentence": HOSTILE,
            "complete_before": None,
        },
        watermarks=[{**_OF_KIND, "complete_before": None, "blocked_by": HOSTILE}],
        findings=[_FINDING],
        repairs=[_REPAIR],
        sources=[_SOURCE],
        rules=[_RULE],
        rejected_writes=[{"verb": HOSTILE, "reason": HOSTILE, "count": 1}],
    )
    for list_, row in ((ReportList.FINDINGS, _FINDING), (ReportList.REPAIRS, _REPAIR)):
        rows = [(tenant, row.model_dump_json())]
        await record_report_rows(api.owner, number, list_, 1, rows)
    return number
