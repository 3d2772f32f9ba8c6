"""The picture of the console in the documents: docs/pictures/console.png is a copy of it."""

import pytest

from tests.browser.window import Window

pytestmark = pytest.mark.browser

WIDTH = 1080
HIDE_HOSTILE_ROWS = """
for (const row of document.querySelectorAll("tbody tr")) {
  if (row.textContent.includes("<")) row.remove();
}
"""


async def test_the_picture_of_the_documents_shows_what_is_late_for_whom_and_why(
    window: Window,
) -> None:
    def take() -> None:
        window.open("/console/", width=WIDTH)
        headline = window.wait_for("h1").text
        assert "late" in headline
        window.driver.execute_script(HIDE_HOSTILE_ROWS)
        assert window.find("tbody tr")
        window.shoot("documents", WIDTH, "light")

    await window.do(take)
