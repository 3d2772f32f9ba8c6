"""Actions as a person does them: fold out, write why, press, and read what the page says then."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.window import Window

pytestmark = pytest.mark.browser


async def test_a_person_pauses_a_flow_and_decides_about_what_is_parked(window: Window) -> None:
    def pause() -> None:
        window.open("/console/flows/acme/StatementDue")
        window.find("details.action summary")[0].click()
        window.find("#pause-reason")[0].send_keys("INC-1", Keys.ENTER)
        window.wait_for_text(".why h2", "is paused: INC-1")
        window.find(".why summary.primary")[0].click()
        window.find("#resume-1")[0].send_keys("INC-1 ended", Keys.ENTER)
        window.wait_for_text(".notice", "Resumed.")
        assert "INC-1 ended" in " ".join(each.text for each in window.find("td.c-prose"))

    def decide() -> None:
        window.open("/console/reviews")
        window.find("td.c-action a")[0].click()
        window.wait_for("#reason").send_keys("INC-2", Keys.ENTER)
        window.wait_for("progress")
        for verb, status in {"Pause": "Paused", "Resume": "Waiting", "Abort": "Aborted"}.items():
            [folded] = [each for each in window.find(".action summary") if each.text == verb]
            folded.click()
            window.find(".action[open] input[name=reason]")[0].send_keys("INC-3", Keys.ENTER)
            window.wait_for_text("h1", status)

    await window.do(pause)
    await window.do(decide)
    assert await window.do(window.messages) == []
