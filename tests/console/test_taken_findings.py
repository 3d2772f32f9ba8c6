"""Findings and their repairs on the one page of what waits: who has them, and comments."""

import csv
import io
from collections.abc import Sequence
from uuid import UUID

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.hostile_text import HOSTILE
from tests.service.conftest import Api

DECIDES = (Scope.READ, Scope.AUDIT, Scope.APPROVE)
TAKEN = "/console/reviews?kind=Counted"


async def of_kind(api: Api, kind: str, count: int, type_: str) -> list[UUID]:
    """Record open findings of a kind that nothing else has."""
    found = await api.find("acme", count)
    await api.owner.execute(
        "update ledger.finding set kind = $2, type = $3 where id = any ($1)", found, kind, type_
    )
    return found


async def downloaded(browser: Browser, path: str, column: str) -> list[str]:
    listed = await browser.open(f"{path}&format=csv")
    return sorted(row[column] for row in csv.DictReader(io.StringIO(listed.text)))


async def test_a_person_takes_a_finding_and_others_see_who_has_it_and_its_repair(
    api: Api, browser: Browser
) -> None:
    [finding] = await of_kind(api, "Handled", 1, "MISSING")
    await api.propose(finding, api.person_no)
    path = f"/console/reconciliation/findings/{finding}"
    assert "Nobody has taken it." in (await browser.open(path)).text
    done = await browser.send(f"{path}/take", {})
    assert (done.status, done.location) == (303, path)
    page = (await browser.open(path)).text
    assert "Taken by key:person." in page
    assert f'action="{path}/return"' in page
    async with open_browser(api) as other:
        await other.sign_in(await api.make_key("second", *DECIDES))
        page = (await other.open(path)).text
        assert "Take from key:person</button>" in page
        for action in ("take", "return"):
            refused = await other.send(f"{path}/{action}", {})
            assert (refused.status, "key:person has taken it" in refused.text) == (409, True)
        said = await other.send(f"{path}/comments", {"comment": "INC-8: the domain is asked"})
        assert said.location == path
        repairs = "/console/reconciliation/repairs?kind=Handled"
        assert await downloaded(other, repairs, "taken_by") == ["key:person"]
        assert await downloaded(other, f"{repairs}&taken=mine", "id") == []
        done = await other.send(f"{path}/take", {"instead_of": "key:person"})
        assert done.status == 303
        assert await downloaded(other, f"{repairs}&taken=mine", "taken_by") == ["key:second"]
        assert "key:second" in (await browser.open("/console/reviews?kind=Handled")).text
        assert (await other.send(f"{path}/explain", {"reason": "INC-8"})).status == 303
    closed = (await browser.open(path)).text
    assert "INC-8: the domain is asked" in closed
    assert "has taken" not in closed
    assert f"{path}/take" not in closed
    assert "key:second" not in (await browser.open("/console/reviews?kind=Handled")).text


async def test_the_page_counts_what_waits_and_shows_what_is_mine_or_nobodys(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    item, _ = ids = await api.emit(key, *(api.item(f"N-{n}", kind="Counted") for n in range(2)))
    await api.park(*ids)
    conflict, other = await of_kind(api, "Counted", 2, "OUTCOME_CONFLICT")
    [missing] = await of_kind(api, "Counted", 1, "MISSING")
    await api.propose(missing, api.person_no)
    assert "2 items, 1 repair and 2 findings wait for a person." in (await browser.open(TAKEN)).text
    await browser.send("/console/reviews/acme/take", {"item": str(item)})
    for finding in (conflict, missing):
        await browser.send(f"/console/reconciliation/findings/{finding}/take", {})
    mine = (await browser.open(f"{TAKEN}&taken=mine")).text
    assert "1 item, 1 repair and 2 findings wait for a person." in mine
    assert [f"findings/{each}" in mine for each in (conflict, missing, other)] == [
        True,
        True,
        False,
    ]
    nobodys = (await browser.open(f"{TAKEN}&taken=nobody")).text
    assert "1 item and 1 finding wait for a person." in nobodys
    assert [f"findings/{each}" in nobodys for each in (conflict, missing, other)] == [
        *(False, False, True)
    ]
    for page, taken in ((mine, "mine"), (nobodys, "nobody")):
        for path in ("/reviews/parked", "/reconciliation/repairs", "/reviews/findings"):
            assert f"/console{path}?kind=Counted&amp;taken={taken}" in page, path
    path = "/console/reviews/findings?kind=Counted"
    assert await downloaded(browser, path, "taken_by") == ["", "key:person", "key:person"]
    assert await downloaded(browser, f"{path}&taken=nobody", "taken_by") == [""]
    parked = "/console/reviews/parked?kind=Counted"
    assert await downloaded(browser, f"{parked}&taken=mine", "taken_by") == ["key:person"]
    assert await downloaded(browser, f"{parked}&taken=nobody", "taken_by") == [""]
    wrong = await browser.open("/console/reviews?taken=his")
    assert wrong.status == 422


@pytest.mark.parametrize(
    ("scopes", "has_section", "has_buttons"),
    [
        ((Scope.READ,), False, False),
        ((Scope.READ, Scope.OPERATE), False, False),
        ((Scope.READ, Scope.AUDIT), True, False),
        (DECIDES, True, True),
        (tuple(Scope), True, True),
    ],
    ids=["reads", "operates", "audits", "approves", "all"],
)
async def test_each_role_sees_what_it_may_and_takes_what_it_may_decide(
    api: Api,
    scopes: Sequence[Scope],
    has_section: bool,  # noqa: FBT001 - a case
    has_buttons: bool,  # noqa: FBT001 - a case
) -> None:
    [finding] = await of_kind(api, "Walked", 1, "OUTCOME_CONFLICT")
    path = f"/console/reconciliation/findings/{finding}"
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key(f"walks {len(scopes)}", *scopes))
        page = await browser.open("/console/reviews?kind=Walked")
        assert (path in page.text) == has_section
        for listed in (path, "/console/reviews/findings"):
            assert (await browser.open(listed)).status == (200 if has_section else 403)
        shown = (await browser.open(path)).text
        assert (f"{path}/take" in shown) == has_buttons
        for action, form in (("take", {}), ("comments", {"comment": "x"}), ("return", {})):
            sent = await browser.send(f"{path}/{action}", form)
            assert sent.status == (303 if has_buttons else 403), action
    await api.owner.execute("delete from ledger.finding where kind = 'Walked'")


async def test_a_hostile_comment_is_shown_as_text_and_another_tenant_has_none_of_it(
    api: Api, browser: Browser
) -> None:
    [finding] = await of_kind(api, "Hostile", 1, "OUTCOME_CONFLICT")
    path = f"/console/reconciliation/findings/{finding}"
    text = "<script>alert(1)</script>\u202e"
    assert (await browser.send(f"{path}/comments", {"comment": text})).status == 303
    page = (await browser.open(path)).text
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert (await browser.send(f"{path}/comments", {"comment": HOSTILE})).status == 422
    async with open_browser(api) as stranger:
        await stranger.sign_in(await api.make_key("strange", *Scope, tenants=["umbra"]))
        assert (await stranger.open(path)).status == 404
        assert (await stranger.send(f"{path}/take", {})).status == 404
        for listed in ("/console/reviews", "/console/reviews/findings"):
            assert str(finding) not in (await stranger.open(listed)).text
