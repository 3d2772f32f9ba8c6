"""What the audit has of decisions about items: their states and times before and after."""

from typing import Any

import pytest

from dueledger.ledger.store.api_keys import Scope
from tests.service.conftest import Api

LATER = "2199-01-01T09:00:00+00:00"
DUE = "2198-01-01T09:00:00+00:00"
SCHEDULED, PARKED = "Scheduled", "ManualReview"


@pytest.mark.parametrize(
    ("verb", "parked", "waiting", "before", "after"),
    [
        ("redrive", 1, 0, {"state": PARKED}, {"state": SCHEDULED}),
        ("write_off", 2, 0, {"state": PARKED}, {"state": "WrittenOff"}),
        ("cancel", 1, 2, {"state": {SCHEDULED: 2, PARKED: 1}}, {"state": "Cancelled"}),
        ("trigger", 0, 1, {"available_at": DUE}, {"available_at": "at once"}),
        (
            "snooze",
            0,
            1,
            {"state": SCHEDULED, "available_at": DUE},
            {"state": SCHEDULED, "available_at": LATER},
        ),
    ],
)
async def test_the_audit_has_what_items_were_before_a_decision_and_are_since(
    api: Api,
    verb: str,
    parked: int,
    waiting: int,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    key = await api.make_key(f"decides-{verb}", *Scope)
    items = [api.item(f"{verb}-{number}", due_at=DUE) for number in range(parked + waiting)]
    ids = await api.emit(key, *items)
    await api.park(*ids[:parked])
    until = {"until": LATER} if verb == "snooze" else {}
    asked = {"verb": verb, "ids": [str(each) for each in ids], "reason": "INC-1", **until}
    decided = await api.ask("POST", "/v1/tenants/acme/decisions", key=key, body=asked)
    assert {each["result"] for each in decided.document["items"]} == {"done"}
    listed = await api.ask("GET", f"/v1/audit?actor=key:decides-{verb}", key=key)
    [entry] = listed.document["items"]
    assert (entry["before"], entry["after"]) == (before, after)
    assert entry["detail"] == {"verb": verb, "items": len(ids), **until}
