"""What one person decides, or says that one decides about: snoozing, taking, approving."""

import pytest
from selenium.webdriver.common.keys import Keys

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.operations import ItemFilter, record_operation
from tests.browser.window import Window
from tests.service.conftest import Api

pytestmark = pytest.mark.browser


async def test_a_person_snoozes_an_item_and_takes_and_comments_on_a_finding(
    window: Window,
) -> None:
    def snooze() -> None:
        window.open("/console/items?q=P-00005&tenant=acme&kind=PaymentDue")
        window.unfold("Snooze")
        window.driver.execute_script(
            "document.querySelector('.action[open] [name=until]').value = '2199-01-01T09:00'"
        )
        window.find(".action[open] [name=reason]")[0].send_keys("INC-4", Keys.ENTER)
        window.wait_for_text(".notice", "Done: snooze.")
        assert "snoozed it until 2199-01-01" in window.find(".why h2")[0].text
        window.shoot("item-snoozed", 1440, "light")

    def take() -> None:
        window.open(window.linked("/console/reviews/findings", "tbody th a"))
        window.press_button("Take from person:test")
        window.wait_for_text(".notice", "Taken.")
        assert "Taken by key:jane" in window.find("[aria-label='Taken by'] p")[0].text
        window.unfold("Comment")
        window.find("#comment")[0].send_keys("INC-5: the archive is asked", Keys.ENTER)
        window.wait_for_text(".notice", "Written.")
        assert "INC-5" in window.find("[aria-label='Taken by'] td.c-prose")[0].text
        window.shoot("finding-taken", 1440, "light")
        assert window.violations() == []
        window.press_button("Return")
        window.wait_for_text(".notice", "Returned.")
        assert window.find("[aria-label='Taken by'] p")[0].text == "Nobody has taken it."

    def mine() -> None:
        window.open("/console/reviews")
        window.find("nav[aria-label='Taken by'] a")[2].click()
        window.wait_for("nav[aria-label='Taken by'] a[aria-current][href*='nobody']")
        assert window.find("#findings + .scroll tbody tr")

    await window.do(snooze)
    await window.do(take)
    await window.do(mine)
    assert await window.do(window.messages) == []


async def test_a_person_takes_parked_items_comments_on_them_and_returns_them(
    window: Window,
) -> None:
    taken_by = "[aria-label='Taken by']"

    def take() -> None:
        window.open("/console/reviews?kind=ClaimReviewDue")
        window.find("td.c-action a")[0].click()
        window.wait_for(taken_by)
        assert window.find(f"{taken_by} p")[0].text == "Nobody has taken any of them."
        window.press_button("Take")
        window.wait_for_text(".notice", "Taken: 3 items.")
        assert "Taken by key:jane." in window.find(f"{taken_by} p")[0].text

    def comment() -> None:
        window.unfold("Comment")
        window.find("#comment")[0].send_keys("INC-14: the archive is asked", Keys.ENTER)
        window.wait_for_text(".notice", "Written.")
        assert "INC-14" in window.find(f"{taken_by} td.c-prose")[0].text
        window.shoot("parked-taken", 1440, "light")
        assert window.violations() == []
        window.press_button("Return")
        window.wait_for_text(".notice", "Returned: 3 items.")
        assert window.find(f"{taken_by} p")[0].text == "Nobody has taken any of them."

    await window.do(take)
    await window.do(comment)
    assert await window.do(window.messages) == []


async def test_a_person_approves_an_operation_of_another(window: Window, api: Api) -> None:
    kind = "CheckedDue"
    await api.define("acme", "checked", {"kind": kind, "operations": {"approval_above": 0}})
    await api.emit(await api.make_key("emits", Scope.EMIT), api.item("C-1", kind=kind))
    await record_operation(
        api.owner,
        OperationVerb.CANCEL,
        ItemFilter("acme", kind),
        reason="INC-15: sent twice",
        actor_no=api.person_no,
    )

    def approve() -> None:
        window.open(window.linked(f"/console/reviews?kind={kind}", "#operations + .scroll th a"))
        assert "It waits for a second person:" in window.find("main")[0].text
        window.shoot("operation-awaits-approval", 1440, "light")
        window.act("Approve", "Approved.", "INC-15: asked the domain")
        shown = window.find("main")[0].text
        assert "by key:jane: INC-15: asked the domain" in shown
        assert "It waits for a second person:" not in shown
        assert window.violations() == []

    await window.do(approve)
    assert await window.do(window.messages) == []
