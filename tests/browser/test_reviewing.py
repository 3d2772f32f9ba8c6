"""What one person decides, or says that one decides about: snoozing, taking and commenting."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.window import Window

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
