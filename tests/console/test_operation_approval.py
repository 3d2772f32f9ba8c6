"""Operations that wait for a second person on their page, and among what waits for people."""

from uuid import uuid4

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

APPROVE = '/approve"'
SCOPES = {
    "reads": (Scope.READ,),
    "operates": (Scope.READ, Scope.OPERATE),
    "approves": (Scope.READ, Scope.APPROVE),
}


async def ask(api: Api, browser: Browser, key: NewApiKey) -> tuple[str, str]:
    """Ask on a page for an operation that waits; return its kind, and its page."""
    kind = f"Checked{uuid4().hex[:8]}"
    await api.define("acme", kind, {"kind": kind, "operations": {"approval_above": 0}})
    await api.emit(key, api.item("C-1", kind=kind))
    decide = await browser.open(f"/console/reviews/acme/decide?kind={kind}&verb=cancel")
    waits = "It waits until another person approves it: a policy asks for that above 0 items."
    assert waits in decide.text
    fields = {"verb": "cancel", "kind": kind, "shown": "1", "reason": "INC-1"}
    done = await browser.send("/console/reviews/acme/decide", fields)
    assert done.status == 303, done.text
    return kind, done.location


@pytest.mark.parametrize("role", SCOPES)
async def test_only_who_may_approve_has_the_button_on_the_page_of_an_operation(
    api: Api, browser: Browser, key: NewApiKey, role: str
) -> None:
    _, page = await ask(api, browser, key)
    other = await api.make_key(f"{role}-{uuid4().hex[:8]}", *SCOPES[role])
    async with open_browser(api) as theirs:
        await theirs.sign_in(other)
        shown = await theirs.open(page)
        assert "It waits for a second person:" in shown.text
        assert "No process carries operations out" not in shown.text
        assert (APPROVE in shown.text) is (role == "approves")
        sent = await theirs.send(f"{page}/approve", {"reason": "INC-2"})
        assert sent.status == (303 if role == "approves" else 403)
        after = await theirs.open(page)
    assert ("by key:approves-" in after.text) is (role == "approves")
    assert APPROVE not in after.text


async def test_who_asked_sees_why_they_do_not_approve(api: Api, key: NewApiKey) -> None:
    maker = await api.make_key(f"both-{uuid4().hex[:8]}", Scope.READ, Scope.OPERATE, Scope.APPROVE)
    async with open_browser(api) as browser:
        await browser.sign_in(maker)
        _, page = await ask(api, browser, key)
        shown = await browser.open(page)
        assert APPROVE not in shown.text
        assert "you asked for it: somebody else approves it" in shown.text
        sent = await browser.send(f"{page}/approve", {"reason": "INC-2"})
        assert sent.status == 409
        assert "you asked for it: somebody else approves it" in sent.text


async def test_reviews_counts_the_operations_that_wait_and_lists_them(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    kind, page = await ask(api, browser, key)
    waits = await browser.open(f"/console/reviews?kind={kind}")
    assert "1 operation waits for a person." in waits.text
    assert "Operations that wait for a second person" in waits.text
    assert f'{page}"' in waits.text
    nobodys = await browser.open(f"/console/reviews?kind={kind}&taken=nobody")
    assert "1 operation waits for a person." in nobodys.text
    mine = await browser.open(f"/console/reviews?kind={kind}&taken=mine")
    assert "Nothing that waits for a person matches the filter." in mine.text
    listed = await browser.open("/console/reviews/operations?awaits_approval=true")
    assert f'{page}"' in listed.text
    await browser.send(f"{page}/abort", {"reason": "no"})
    ended = await browser.open(f"/console/reviews?kind={kind}")
    assert "Nothing that waits for a person matches the filter." in ended.text
    listed = await browser.open("/console/reviews/operations?awaits_approval=true")
    assert f'{page}"' not in listed.text
