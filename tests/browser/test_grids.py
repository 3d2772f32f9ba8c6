"""The cells of the strip and of the past calendar, by keys alone."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.window import Window

pytestmark = pytest.mark.browser

GRIDS = {
    ".strip": "/console/",
    ".past-days": "/console/schedules/past",
    ".calendar:not(.past-days)": "/console/schedules/past",
}
BEGIN = """
window.reached = new Set();
document.addEventListener("focusin", event => reached.add(event.target.getAttribute("href")));
document.querySelector(arguments[0]).closest(".wide").focus();
"""
"""Stands at the frame of a grid, as Tab does, and notes where the keys get from there."""
ROWS = """
const rows = [...document.querySelectorAll(`${arguments[0]} tbody tr`)];
return rows.filter(row => row.querySelector("td a")).length;
"""
CELLS = """
return [...(document.activeElement.closest(".cells tr")?.querySelectorAll("td a") ?? [])]
  .map(each => each.getAttribute("href"))
"""
"""Where the cells lead of the row at which the keys are."""
AT = """
const at = document.activeElement;
if (!at.matches(".cells td a")) return null;
return [at.closest("tr").rowIndex, at.parentElement.cellIndex, at.title];
"""
MISSED = """
return [...document.querySelectorAll(`${arguments[0]} td a`)].map(each => each.getAttribute("href"))
  .filter(each => !reached.has(each))
"""
WIDER = """
const frame = document.querySelector(".strip").closest(".wide");
return frame.scrollWidth - frame.clientWidth;
"""
STOPS_MAX = 16
"""Links from a cell to the next one that Tab reaches: two of each row between that has none."""


def next_row(window: Window) -> list[str]:
    """Go by Tab to the next cell that it reaches; return where the cells of its row lead."""
    for _ in range(STOPS_MAX):
        window.press(Keys.TAB)
        if window.driver.execute_script(AT):
            return window.driver.execute_script(CELLS)
    pytest.fail("Tab reaches no cell of the row.")


@pytest.mark.parametrize("grid", GRIDS)
async def test_each_cell_is_reached_by_tab_and_arrow_keys(window: Window, grid: str) -> None:
    def walk() -> None:
        window.open(GRIDS[grid])
        window.driver.execute_script(BEGIN, grid)
        rows = window.driver.execute_script(ROWS, grid)
        assert rows > 1
        for _ in range(rows):
            cells = next_row(window)
            window.press(*[Keys.ARROW_RIGHT] * (len(cells) - 1))
            assert window.focused("href").endswith(cells[-1])
            window.press(Keys.HOME, Keys.END)
        assert window.driver.execute_script(MISSED, grid) == []

    await window.do(walk)


async def test_arrow_keys_go_through_the_strip_and_enter_opens_the_items_of_a_cell(
    window: Window,
) -> None:
    def walk() -> None:
        window.open("/console/")
        window.driver.execute_script(BEGIN, ".strip")
        next_row(window)
        row, first, title = window.driver.execute_script(AT)
        [words] = window.find(".heat .at-cell span:first-child")
        assert words.is_displayed()
        assert words.text == title
        window.press(Keys.ARROW_DOWN)
        below, _, title = window.driver.execute_script(AT)
        assert (below > row, words.text == title) == (True, True)
        window.press(Keys.ARROW_UP, Keys.HOME)
        assert window.driver.execute_script(AT)[:2] == [row, first]
        window.press(Keys.ARROW_LEFT, Keys.ARROW_UP)
        assert window.driver.execute_script(AT)[:2] == [row, first]
        window.press(Keys.END)
        window.shoot("now-strip-by-keys", 1440, "light")
        assert window.violations() == []
        leads_to = window.focused("href")
        window.press(Keys.ENTER)
        window.wait_for("td.c-state")
        assert window.driver.current_url == leads_to

    await window.do(walk)


async def test_the_strip_fits_a_wide_screen_with_the_age_of_each_count(window: Window) -> None:
    def walk() -> None:
        window.open("/console/")
        assert window.driver.execute_script(WIDER) <= 0
        ages = [each.text for each in window.find(".strip .age")]
        assert ages
        assert all(each.endswith(" s ago") for each in ages), ages

    await window.do(walk)
