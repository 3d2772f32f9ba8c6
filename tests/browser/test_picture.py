"""The pictures of the console in the documents: docs/pictures has a copy of each."""

import pytest

from tests.browser.window import Window

pytestmark = pytest.mark.browser

WIDTH = 1080
LAST_ROW = "tbody tr:last-child th a"
PICTURES = {
    "console": ("/console/", "late", "tbody tr"),
    "console-item": (
        "/console/items?kind=InvoiceDue&state=ManualReview",
        "In review",
        ".timeline li",
    ),
    "console-schedule": ("/console/schedules/acme/nightly-close", "nightly-close", "tbody tr"),
    "console-flow": ("/console/flows/umbra/PaymentDue?lane=north", "PaymentDue", ".limits dd"),
}
"""Pages that the documents show, each with what its heading says and the rows that it has."""
HIDE_HOSTILE_ROWS = """
for (const row of document.querySelectorAll("tbody tr")) {
  if (row.textContent.includes("<")) row.remove();
}
"""


@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_of_the_documents_shows_a_page_with_its_rows(
    window: Window, name: str
) -> None:
    path, heading, rows = PICTURES[name]

    def take() -> None:
        is_item = name == "console-item"
        window.open(window.linked(path, LAST_ROW) if is_item else path, width=WIDTH)
        assert heading in window.wait_for("h1").text
        window.driver.execute_script(HIDE_HOSTILE_ROWS)
        assert window.find(rows)
        window.shoot(name, WIDTH, "light")

    await window.do(take)
