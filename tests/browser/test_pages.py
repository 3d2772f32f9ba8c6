"""Each page as a browser shows it: at three widths, in both themes, by keys alone."""

import re

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.page_checks import SCROLLING, check_page
from tests.browser.seeded_ledger import LONG_KEY
from tests.browser.window import WIDTHS, Window

pytestmark = pytest.mark.browser

PAGES = {
    "now": "/console/",
    "items": "/console/items?open=true&kind=PolicyRenewalDue",
    "item": f"/console/items?q={LONG_KEY}&tenant=acme",
    "item-due": "/console/items?q=P-00003&tenant=acme&kind=PaymentDue",
    "items-of-kind": "/console/items?open=true&tenant=acme&kind=PolicyRenewalDue",
    "items-none": "/console/items?tenant=nobody",
    "schedules": "/console/schedules",
    "schedule-new": "/console/schedules/new",
    "schedule": "/console/schedules/acme/nightly-close",
    "schedule-editor": "/console/schedules/acme/nightly-close/edit",
    "schedule-calendar": "/console/schedules/calendar",
    "calendar-past": "/console/schedules/past",
    "calendar-past-numbers": "/console/schedules/past?table=past_days",
    "schedule-import": "/console/schedules/import",
    "search": "/console/search",
    "search-none": "/console/search?q=due.PaymentDue/3/4711",
    "problem": "/console/items?nothing=1",
    "flows": "/console/flows",
    "flow": "/console/flows/umbra/PaymentDue?lane=north",
    "flow-quarters": "/console/flows/umbra/PaymentDue?lane=north&table=quarters",
    "flow-circuit": "/console/flows/acme/LetterDue",
    "reviews": "/console/reviews",
    "operations": "/console/reviews/operations",
    "parked": "/console/reviews/parked",
    "undecided": "/console/reviews/findings",
    "reconciliation": "/console/reconciliation",
    "missing": "/console/reconciliation/missing",
    "watermarks": "/console/reconciliation/watermarks",
    "findings-none": "/console/reconciliation/findings?tenant=nobody",
    "findings": "/console/reconciliation/findings",
    "repairs": "/console/reconciliation/repairs",
    "reports": "/console/reconciliation/reports",
    "audit": "/console/audit",
    "system": "/console/system",
    "runbook": "/console/runbook",
    "topic": "/console/system/topic?name=due.InvoiceDue",
}
LINKED = {
    "schedule-calendar-hour": ("/console/schedules/calendar", "a.load[href*='hour=']"),
    "decide": ("/console/reviews", "td.c-action a"),
    "decide-items": ("/console/items?open=true&tenant=acme&kind=PolicyRenewalDue", "p.bulk a"),
    "operation": ("/console/reviews/operations", "tbody th a"),
    "finding": ("/console/reconciliation/findings", "tbody th a"),
    "process": ("/console/system", "tbody th a[href*='/system/process']"),
    "search-several": (
        "/console/items?kind=InvoiceDue&in_flight=true",
        "tbody th a",
        ".timeline a[href*='/search']",
    ),
}
"""Pages by the links that lead to them from another one."""
COPY = """
const range = document.createRange();
range.selectNode(document.querySelector(arguments[0]));
getSelection().removeAllRanges();
getSelection().addRange(range);
const copy = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), bubbles: true });
document.querySelector(arguments[0]).dispatchEvent(copy);
return copy.clipboardData.getData("text/plain");
"""
"""Copies an element as a person who has selected it."""
MOVING = """
const parts = [...document.querySelectorAll("*")].flatMap(each => ["", "::before", "::after"]
  .map(part => getComputedStyle(each, part || null)));
return parts.filter(each => each.animationName !== "none").length
"""
"""How many parts of a page move by themselves."""

WIDE = """
return [...document.querySelectorAll(".wide")].filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.getAttribute("aria-label"))
"""
BROKEN = """
const cells = [...document.querySelectorAll("main tbody :is(td, th)")];
return cells.filter(each => !each.textContent.includes("<script>")).flatMap(cell => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let node; node = walker.nextNode();) {
    for (const { 0: word, index } of node.data.matchAll(/[a-zA-Z0-9-]{3,15}/g)) {
      if (/[0-9-]/.test(word)) continue;
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map(each => each.top)).size > 1) found.push(word);
    }
  }
  return found;
})
"""
"""Words of tables that take more than one line, but for texts that are hostile."""


@pytest.mark.parametrize("name", [*PAGES, *LINKED])
async def test_a_page_fits_each_width_and_can_be_used_by_everybody(
    window: Window, name: str
) -> None:
    def walk() -> None:
        check_page(window, name, PAGES[name] if name in PAGES else window.linked(*LINKED[name]))

    await window.do(walk)


async def test_the_console_is_used_by_keys_alone(window: Window) -> None:
    def walk() -> None:
        window.open("/console/")
        window.press(Keys.TAB)
        assert window.focused("textContent") == "Skip to the content"
        window.press(Keys.ENTER)
        window.press("/")
        assert window.focused("name") == "q"
        window.press("C-0000")
        window.wait_for("#key-suggestions option[value='C-00001']")
        window.press("1", Keys.ESCAPE, "?")
        assert window.find("dialog[open]")
        window.shoot("keys", 1440, "light")
        window.press(Keys.ESCAPE)
        assert not window.find("dialog[open]")
        window.press("j", "j", "k", "j")
        [row] = window.find("tbody tr.at")
        assert "PaymentDue" in row.text
        window.press("x", "j", "x")
        window.wait_for_text(".selection", "2 selected")
        window.press("k", "x")
        window.wait_for_text(".selection", "1 selected")
        window.find("[data-clear]")[0].click()
        assert not window.find(".selection")[0].is_displayed()
        window.press("j", "k")
        [row] = window.find("tbody tr.at")
        assert "PaymentDue" in row.text
        window.press(Keys.ENTER)
        window.wait_for("dl.limits")
        assert "/PaymentDue" in window.driver.current_url
        window.press("/", "C-00001 ", Keys.ENTER)
        window.wait_for("tbody td.c-state")
        assert {each.text for each in window.find("tbody th")} == {"C-00001"}
        links = window.find("tbody th a")
        window.press("j", "x")
        ids = window.driver.execute_script(
            "return [...document.querySelectorAll('tr.selected')].map(idOf)"
        )
        assert [str(links[0].get_attribute("href")).partition("?")[0].rpartition("/")[2]] == ids

    await window.do(walk)


async def test_a_person_chooses_theme_and_zone_and_the_next_page_has_them(window: Window) -> None:
    def theme_of_next_page() -> str:
        window.driver.refresh()
        return window.find("html")[0].get_attribute("data-theme")

    def choose_theme() -> None:
        window.open("/console/items")
        window.find(".account summary")[0].click()
        window.find("button[value=dark]")[0].click()
        assert window.find("button[value=dark][aria-pressed=true]")
        window.wait_for_cookie("theme", "dark")
        assert theme_of_next_page() == "dark"
        assert window.violations() == []
        window.press("t")
        window.wait_for_cookie("theme", "auto")
        assert theme_of_next_page() == "auto"

    def choose_zone(value: str, name: str) -> None:
        window.find(".account summary")[0].click()
        window.find(f"button[value={value}]")[0].click()
        window.wait_for_text(".zone", f"Times in {name}")
        window.open("/console/items?kind=PaymentDue&tenant=acme&limit=2")
        [shown] = window.find(".zone")
        assert shown.text == f"Times in {name}"

    def choose_zones() -> None:
        zone = "Australia/Eucla"  # +08:45, of no machine of the tests
        window.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
        try:
            window.open("/console/items")
            choose_zone("browser", zone)
            assert window.find("footer time")[0].text.endswith("+08:45")
            choose_zone("utc", "UTC")
        finally:
            window.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})

    await window.do(choose_theme)
    await window.do(choose_zones)
    assert await window.do(window.messages) == []


async def test_a_printed_page_is_light_and_has_no_controls(window: Window) -> None:
    controls = "nav, .find, .filters, .fold, .account, .pager, [data-pulse], button, summary.button"

    def walk() -> None:
        texts = {"items": "Scheduled", "item": "What happened", "flow": "umbra", "now": "last hour"}
        for name, text in texts.items():
            window.open(PAGES[name], theme="dark")
            window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            try:
                assert [each.text for each in window.find(controls) if each.is_displayed()] == []
                assert text in window.find("main")[0].text
                colours = (
                    "const s = getComputedStyle(document.body); return [s.color, s.colorScheme]"
                )
                colour, scheme = window.driver.execute_script(colours)
                assert (scheme, max(map(int, re.findall(r"\d+", colour)[:3])) < 64) == (
                    "light",
                    True,
                )
                window.shoot(f"{name}-printed", 1440, "light")
            finally:
                window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    await window.do(walk)


async def test_no_word_of_the_audit_is_broken_on_a_wide_screen(window: Window) -> None:
    def walk() -> None:
        for width in (1280, 1440, 1920):
            window.open("/console/audit", width=width)
            assert window.driver.execute_script(BROKEN) == [], width
            assert window.driver.execute_script(SCROLLING) == [], width

    await window.do(walk)


async def test_filters_are_folded_on_a_narrow_screen(window: Window) -> None:
    def walk() -> None:
        window.open("/console/items", width=min(WIDTHS))
        [form] = window.find("form.filters")
        assert not form.is_displayed()
        window.find(".fold")[0].click()
        assert form.is_displayed()
        labels = [each.rect for each in window.find(".filters label")]
        assert max(each["x"] + each["width"] for each in labels) <= min(WIDTHS)
        window.find(".account summary")[0].click()
        window.shoot("account", min(WIDTHS), "light")
        window.open("/console/items")
        assert window.find("form.filters")[0].is_displayed()
        assert not window.find(".fold")[0].is_displayed()

    await window.do(walk)


async def test_the_status_of_a_late_flow_is_beside_its_name_on_a_narrow_screen(
    window: Window,
) -> None:
    def walk() -> None:
        window.open("/console/flows?tenant=acme&kind=PaymentDue", width=768)
        [name, status] = window.find("tbody th, td.c-status")
        assert window.find("td.c-flag:not(.nil)")
        assert status.rect["y"] < name.rect["y"] + name.rect["height"]
        assert status.rect["x"] > name.rect["x"] + name.rect["width"] / 2

    await window.do(walk)


@pytest.mark.parametrize("width", [360, 768, 1440])
async def test_the_calendar_of_the_past_begins_where_its_present_is_seen(
    window: Window, width: int
) -> None:
    def walk() -> None:
        window.open("/console/schedules/past", width=width)
        [frame, *_] = window.find(".past-load .wide")
        present = window.find(".past-days thead .ahead")[0]
        end = present.rect["x"] + present.rect["width"]
        assert frame.rect["x"] < present.rect["x"]
        assert end <= frame.rect["x"] + frame.rect["width"]

    await window.do(walk)


@pytest.mark.parametrize("name", ["now", "flow", "schedule-calendar", "calendar-past"])
async def test_strips_and_calendars_fit_a_wide_screen(window: Window, name: str) -> None:
    def walk() -> None:
        window.open(PAGES[name], width=1440)
        assert window.find(".wide")
        assert window.driver.execute_script(WIDE) == []

    await window.do(walk)


async def test_nothing_moves_for_who_wants_no_motion(window: Window) -> None:
    def walk() -> None:
        for wish, moves in (("no-preference", True), ("reduce", False)):
            features = [{"name": "prefers-reduced-motion", "value": wish}]
            window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            window.open("/console/")
            window.wait_for('[data-pulse="live"]')
            assert bool(window.driver.execute_script(MOVING)) == moves, wish
        window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    await window.do(walk)


async def test_what_is_copied_has_times_in_utc_and_columns(window: Window) -> None:
    def walk() -> None:
        window.open("/console/items?kind=PaymentDue&tenant=acme&limit=2")
        utc = window.find("tbody td time")[0].get_attribute("datetime")
        copied = window.driver.execute_script(COPY, "tbody tr")
        key, _, _, due, *_ = copied.split("\t")
        assert (due, key) == (utc, window.find("tbody th")[0].text)
        copied = window.driver.execute_script(COPY, "footer time")
        assert copied == window.find("footer time")[0].get_attribute("datetime")

    await window.do(walk)


async def test_sparklines_are_side_by_side_on_a_wide_screen_and_no_words_overlap(
    window: Window,
) -> None:
    def walk() -> None:
        for width, columns in ((360, 1), (768, 2), (1440, 2)):
            window.open("/console/", width=width)
            cards = window.find(".sparks li")
            assert len({each.rect["x"] for each in cards}) == columns, width
            for card in cards:
                label, number = card.find_elements("css selector", ".label, .number")
                begin, end = number.rect["x"], label.rect["x"] + label.rect["width"]
                assert end <= begin or label.rect["y"] < number.rect["y"], width
            assert window.find(".sparks path"), width

    await window.do(walk)


async def test_a_cell_of_the_heat_strip_leads_to_its_items(window: Window) -> None:
    def walk() -> None:
        window.open("/console/")
        failed = window.find(".strip a.failed")
        assert "failed or in review" in failed[0].get_attribute("title")
        window.driver.execute_script("arguments[0].scrollIntoView({ inline: 'center' })", failed[0])
        failed[0].click()
        window.wait_for("td.c-state")
        assert "In review" in window.find("tbody tr")[0].text

    await window.do(walk)
