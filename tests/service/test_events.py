"""Domain events by HTTP: applied once, by the rules in force."""

from typing import Any

import pytest

from dueledger.ledger.store.api_keys import NewApiKey
from tests.service.conftest import EVENT, Answer, Api
from tests.service.test_requests import problem

RULE: dict[str, object] = {
    "kind": "RenewalDue",
    "event": "PolicyActivated",
    "business_key": "data.policy",
    "cycle": "data.renews_on",
    "effective_date": "data.renews_on",
    "when": {"relative": "P-30D", "at": "09:00", "timezone": "Europe/Berlin"},
    "dispatch": {"direct": {}},
}


async def send(api: Api, key: NewApiKey, **members: object) -> Answer:
    return await api.ask("POST", "/v1/events", key=key, body={**EVENT, **members})


async def test_an_event_owes_an_item_once_and_another_with_its_id_is_a_conflict(
    api: Api, key: NewApiKey
) -> None:
    await api.define("acme", "renewals", RULE)
    first = await send(api, key, id="new")
    assert first.status == 200, first.text
    assert (first.document["is_new"], first.document["emitted"]) == (True, 1)
    again = await send(api, key, id="new")
    assert (again.document["is_new"], again.document["emitted"]) == (False, 0)
    problem(
        await send(api, key, id="new", data={"policy": "P-78", "renews_on": "2027-03-01"}),
        409,
        "KEY_CONFLICT",
    )
    items = await api.ask("GET", "/v1/items?business_key=P-77&kind=RenewalDue", key=key)
    [item] = items.document["items"]
    shown = await api.ask("GET", f"/v1/items/{item['id']}", key=key)
    assert shown.document["definition"] == "renewals"
    assert shown.document["emitted_by"] == "key:billing"


async def test_an_event_that_no_rule_reads_is_kept(api: Api, key: NewApiKey) -> None:
    kept = await send(api, key, id="other", type="PolicyPrinted")
    assert (kept.document["is_new"], kept.document["is_matched"]) == (True, False)


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"time": "2026-03-01T09:00:00"}, "/time"),
        ({"time": 1_800_000_000}, "/time"),
        ({"specversion": "0.3"}, "/specversion"),
        ({"source": ""}, "/source"),
        ({"duetenant": None, "source": "policies"}, "/duetenant"),
        ({"data": {"policy": "a\u0000"}}, "/value"),
        ({"data": {"renews_on": "2027-03-01"}}, "/data"),
        ({"time": "1970-01-01T00:00:00Z"}, "/time"),  # its month would need a partition
        ({"time": "2199-12-31T23:59:59Z"}, "/time"),
    ],
)
async def test_a_wrong_member_of_an_event_is_pointed_at_and_nothing_is_kept(
    api: Api, key: NewApiKey, members: dict[str, Any], pointer: str
) -> None:
    await api.define("acme", "renewals", RULE)
    answer = await send(api, key, id="wrong", **members)
    found = problem(answer, 422, answer.document["code"])
    assert any(each.pointer.startswith(pointer) for each in found.errors), found
    kept = "select count(*) from ledger.event where id = 'wrong'"
    assert await api.owner.fetchval(kept) == 0
