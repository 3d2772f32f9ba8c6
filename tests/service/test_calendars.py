"""Calendars by HTTP: put by version, read with their days."""

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import CALENDAR, Api
from tests.service.test_requests import problem

PATH = "/v1/calendars/acme/public"


@pytest.fixture(scope="module")
async def operator(api: Api) -> NewApiKey:
    return await api.make_key("calendars", Scope.READ, Scope.OPERATE)


async def test_a_calendar_is_changed_only_by_who_knows_its_version(
    api: Api, operator: NewApiKey
) -> None:
    problem(await api.ask("GET", PATH, key=operator), 404, "NOT_FOUND")
    made = await api.ask("PUT", PATH, key=operator, body=CALENDAR)
    assert (made.status, made.headers["ETag"], made.document["changed"]) == (200, '"1"', True)
    more = {**CALENDAR, "holidays": ["2027-01-01", "2027-05-03"]}
    problem(await api.ask("PUT", PATH, key=operator, body=more), 428, "PRECONDITION_MISSING")
    changed = await api.ask("PUT", PATH, key=operator, body=more, headers={"If-Match": '"1"'})
    assert changed.headers["ETag"] == '"2"'
    assert changed.document["difference"]["changed_days"] == ["2027-05-03"]
    stale = await api.ask("PUT", PATH, key=operator, body=CALENDAR, headers={"If-Match": '"1"'})
    problem(stale, 412, "PRECONDITION_FAILED")
    newest = await api.ask("GET", PATH, key=operator)
    assert newest.document["document"]["holidays"] == ["2027-01-01", "2027-05-03"]
    assert newest.document["source"] == "key:calendars"
    first = await api.ask("GET", f"{PATH}?version=1", key=operator)
    assert first.document["document"]["holidays"] == ["2027-01-01"]


async def test_calendars_are_listed_a_page_at_a_time(api: Api, operator: NewApiKey) -> None:
    for name in ("a", "b"):
        await api.ask("PUT", f"/v1/calendars/acme/{name}", key=operator, body=CALENDAR)
    first = await api.ask("GET", "/v1/calendars?limit=1&tenant=acme", key=operator)
    after = f"/v1/calendars?limit=1&tenant=acme&cursor={first.document['next_cursor']}"
    second = await api.ask("GET", after, key=operator)
    names = [each["name"] for page in (first, second) for each in page.document["items"]]
    assert names == ["a", "b"]


async def test_a_wrong_day_is_named_and_nothing_is_put(api: Api, operator: NewApiKey) -> None:
    wrong = {**CALENDAR, "holidays": ["2027-02-30"], "colour": 1}
    refused = await api.ask("PUT", "/v1/calendars/acme/wrong", key=operator, body=wrong)
    found = problem(refused, 422, "INVALID_INPUT")
    assert {"holidays", "colour"} <= {each.pointer.split(".")[0] for each in found.errors}
    problem(await api.ask("GET", "/v1/calendars/acme/wrong", key=operator), 404, "NOT_FOUND")
