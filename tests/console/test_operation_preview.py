"""Decisions about all items that a list's filter matches, from the list to the operation."""

import re
from html import unescape

import pytest

from dueledger.console.pages import operation_preview
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.operations import advance_operation
from dueledger.left_alone import PreviewLimits
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

ACT = re.compile(r'href="([^"]+)">Act on all that match</a>')
TAB = re.compile(r'href="[^"]*verb=(\w+)[^"]*"( aria-current="true")?>')
NIGHT = "due_from=2027-02-01T00:00Z&due_before=2027-02-02T00:00Z"


def tabs_of(page: str) -> str:
    """Return the part of the page that has the verbs."""
    return page.partition('aria-label="Decision"')[2].partition("</nav>")[0]


async def test_all_that_match_a_list_of_items_are_decided_about_as_one_operation(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    due = {"D-1": "2027-02-01T01:00:00Z", "D-2": "2027-02-01T02:00:00Z"}
    other = {"D-3": "2027-02-02T00:00:00Z", "D-4": "2027-02-01T03:00:00Z"}
    items = [api.item(each, kind="Bulk", due_at=at) for each, at in {**due, **other}.items()]
    ids = await api.emit(key, *items)
    await api.park(ids[3])
    listed = await browser.open(f"/console/items?tenant=acme&kind=Bulk&open=true&{NIGHT}")
    [address] = [unescape(each) for each in ACT.findall(listed.text)]
    preview = await browser.open(address)
    assert "<h1>2 items match</h1>" in preview.text
    tabs = TAB.findall(tabs_of(preview.text))
    assert [verb for verb, _ in tabs] == [
        *("trigger", "park", "redrive", "write_off", "snooze", "cancel")
    ]
    assert [verb for verb, is_shown in tabs if is_shown] == ["trigger"]
    assert [each in preview.text for each in ("D-1", "D-2", "D-3", "D-4")] == [True, True] + [
        False
    ] * 2
    parked = "it is parked; only an item that waits can be started now"
    assert f"1 open item: {parked}" in preview.text
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', preview.text))
    body = {name: fields[name] for name in ("verb", "kind", "due_from", "due_before")}
    counted = await api.ask("POST", "/v1/tenants/acme/operations/preview", key=key, body=body)
    assert counted.document["items"] == 2
    assert counted.document["left_alone"] == [{"reason": parked, "items": 1}]
    assert counted.document["left_alone_capped"] is False

    done = await browser.send("/console/reviews/acme/decide", {**fields, "reason": "INC-1"})
    assert done.status == 303, done.text
    [late] = await api.emit(key, api.item("D-5", kind="Bulk", due_at=due["D-1"]))
    number = int(done.location.rpartition("/")[2])
    await advance_operation(api.owner, number)
    shown = await browser.open(done.location)
    assert "2 of 2 items are done" in shown.text
    assert "<dt>Due before</dt>" in shown.text
    by_rest = (await api.ask("GET", f"/v1/operations/{number}", key=key)).document
    assert (by_rest["due_from"], by_rest["state"]) == ("2027-02-01T00:00:00Z", None)
    waits = "select available_at > ledger.now() from ledger.pending p join ledger.due_item i"
    rows = await api.owner.fetch(
        f"{waits} using (item_no) where i.id = any ($1::uuid[]) order by i.business_key",
        [*ids[:3], late],
    )
    assert [row[0] for row in rows] == [False, False, True, True]


async def test_a_list_of_one_state_leads_to_the_verbs_of_that_state(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.park(*await api.emit(key, api.item("S-1", kind="OfState")))
    await api.emit(key, api.item("S-2", kind="OfState", due_at="2027-02-01T00:00:00Z"))
    for state, verbs in (
        ("ManualReview", ["redrive", "write_off", "cancel"]),
        ("Scheduled", ["trigger", "snooze", "cancel"]),
    ):
        listed = await browser.open(f"/console/items?tenant=acme&kind=OfState&state={state}")
        [address] = [unescape(each) for each in ACT.findall(listed.text)]
        assert f'verb={verbs[0]}" aria-current' in (await browser.open(address)).text
        preview = await browser.open(f"{address}&verb=cancel")
        assert [verb for verb, _ in TAB.findall(tabs_of(preview.text))] == verbs
        assert "1 open item: it is in another state" in preview.text
    body = {"verb": "snooze", "kind": "OfState", "until": "2027-02-01T00:00:00Z"}
    left = await api.ask("POST", "/v1/tenants/acme/operations/preview", key=key, body=body)
    assert left.document["items"] == 0
    reasons = {each["reason"]: each["items"] for each in left.document["left_alone"]}
    assert reasons.pop("it waits for its key, or as long anyway") == 1
    assert list(reasons.values()) == [1]


async def test_many_items_are_counted_where_a_person_asks_for_it(
    api: Api, browser: Browser, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_preview, "QUICK", PreviewLimits(examined_max=4, counted_max=2))
    monkeypatch.setattr(operation_preview, "CONFIRM_ABOVE", 1)
    items = [
        api.item(f"M-{number}", kind="Many", due_at="2027-02-01T00:00:00Z") for number in range(5)
    ]
    await api.emit(key, *items)
    decide = "/console/reviews/acme/decide?kind=Many"
    for verb in ("trigger", "cancel"):
        page = (await browser.open(f"{decide}&verb={verb}")).text
        assert "<h1>2+ items match</h1>" in page
        assert 'name="typed"' not in page
        [address] = [unescape(each) for each in re.findall(r'href="([^"]+)">Count them</a>', page)]
        counted = (await browser.open(address)).text
        assert "<h1>5 items match</h1>" in counted
        assert 'title="Type 5 to confirm"' in counted
        assert "Count them" not in counted
    await api.park(
        *await api.emit(key, *(api.item(f"P-{number}", kind="Few") for number in range(3)))
    )
    page = (await browser.open("/console/reviews/acme/decide?kind=Few&verb=redrive")).text
    assert "Count them" in page
    assert "Redrive: 2+ items</button>" in page


async def test_a_decision_and_the_list_of_parked_items_say_what_pauses_their_items(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.park(*await api.emit(key, api.item("B-1", kind="Held"), api.item("B-2", kind="Free")))
    scope = FlowScope("acme", "Held")
    await pause_flows(api.owner, scope, reason="INC-44: no line", actor_no=api.person_no)
    for path, is_said in (
        ("/console/reviews/acme/decide?kind=Held", True),
        ("/console/reviews/acme/decide?kind=Free", False),
        ("/console/reviews/parked?kind=Held", True),
        ("/console/reviews/parked?kind=Free", False),
    ):
        page = (await browser.open(path)).text
        assert (": INC-44: no line</p>" in page) == is_said, path


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("tenant=acme", "choose a kind."),
        ("state=Scheduled", "choose a tenant and a kind."),
        ("tenant=acme&kind=Odd&late=true", "remove Late: an operation takes items"),
        ("tenant=acme&kind=Odd&q=O-", None),
        ("tenant=acme&kind=Odd&state=Running", None),
    ],
)
async def test_a_filter_that_an_operation_cannot_have_says_what_to_change(
    api: Api, browser: Browser, key: NewApiKey, query: str, sentence: str | None
) -> None:
    await api.emit(key, *(api.item(f"O-{number}", kind="Odd") for number in range(2)))
    page = await browser.open(f"/console/items?{query}")
    assert not ACT.findall(page.text)
    if sentence is None:
        assert "To act on all that match" not in page.text
    else:
        assert f"To act on all that match, {sentence}" in page.text


async def test_who_may_not_decide_is_not_led_to_a_decision(api: Api, key: NewApiKey) -> None:
    await api.emit(key, api.item("V-1", kind="Viewed"))
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("views", Scope.READ))
        for query in ("tenant=acme&kind=Viewed", "tenant=acme"):
            page = await reader.open(f"/console/items?{query}")
            assert "V-1" in page.text
            assert "all that match" not in page.text
        refused = await reader.open("/console/reviews/acme/decide?kind=Viewed")
        assert refused.status == 403


async def test_all_that_match_are_snoozed_until_a_time_of_the_readers_zone(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    due, later = await api.emit(
        key,
        api.item("Z-1", kind="Dozing"),
        api.item("Z-2", kind="Dozing", due_at="2199-06-01T00:00:00Z"),
    )
    address = "/console/reviews/acme/decide?kind=Dozing&verb=snooze"
    preview = await browser.open(address)
    assert 'type="datetime-local" name="until" required' in preview.text
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', preview.text))
    for until in ("", "2027-02-30T00:00", "2020-01-01T00:00", "9999-01-01T00:00"):
        body = {**fields, "reason": "INC-1", "until": until}
        refused = await browser.send("/console/reviews/acme/decide", body)
        assert refused.status == 422, until
    body = {**fields, "reason": "INC-1", "until": "2199-01-01T09:00"}
    done = await browser.send("/console/reviews/acme/decide", body)
    assert done.status == 303, done.text
    await advance_operation(api.owner, int(done.location.rpartition("/")[2]))
    shown = (await browser.open(done.location)).text
    assert "<dt>Snoozed until</dt>" in shown
    assert "1 of 1 items are done" in shown
    waits = "select to_char(available_at, 'YYYY-MM') from ledger.pending join ledger.due_item i"
    rows = await api.owner.fetch(
        f"{waits} using (item_no) where i.id = any ($1::uuid[]) order by i.business_key",
        [due, later],
    )
    assert [row[0] for row in rows] == ["2199-01", "2199-06"]
