"""The pictures of the console in the documents: `make pictures` writes them, and their words."""

import json
import os

import pytest

from tests.browser.few_colours import in_few_colours
from tests.browser.window import SCREENSHOTS, Window
from tests.documents.pictures import FOLDER, PICTURES, WORDS, words_of

pytestmark = pytest.mark.browser

WIDTH = 1080
LAST_ROW = "tbody tr:last-child th a"
SHOWN = {
    "console": ("late", "tbody tr"),
    "console-item": ("In review", ".timeline li"),
    "console-schedule": ("nightly-close", "tbody tr"),
    "console-flow": ("PaymentDue", "[aria-label='Actions and changes'] tbody tr"),
}
"""What the heading of each page says, and the rows that it has."""
HIDE_HOSTILE_ROWS = """
for (const row of document.querySelectorAll("tbody tr")) {
  if (row.textContent.includes("<")) row.remove();
}
"""
AS_SENT = "fetch(location.href).then(page => page.text()).then(arguments[0])"


@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_of_the_documents_shows_a_page_with_its_rows(
    window: Window, name: str
) -> None:
    path, (heading, rows) = PICTURES[name], SHOWN[name]

    def take() -> list[str]:
        is_item = name == "console-item"
        window.open(window.linked(path, LAST_ROW) if is_item else path, width=WIDTH)
        assert heading in window.wait_for("h1").text
        window.driver.execute_script(HIDE_HOSTILE_ROWS)
        assert window.find(rows)
        window.shoot(name, WIDTH, "light")
        return words_of(window.driver.execute_async_script(AS_SENT))

    words = await window.do(take)
    assert words
    if "DUELEDGER_UPDATE_PICTURES" in os.environ:
        taken = SCREENSHOTS / f"{name}-{WIDTH}-light.png"
        (FOLDER / f"{name}.png").write_bytes(in_few_colours(taken.read_bytes()))
        document = {**json.loads(WORDS.read_text("utf-8")), name: words}
        text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
        WORDS.write_text(f"{text}\n", encoding="utf-8")
