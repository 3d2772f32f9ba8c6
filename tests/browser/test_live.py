"""Pages that change while they are shown, and the stream that says so."""

from datetime import datetime

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowScope, pause_flows, resume_flows
from dueledger.ledger.store.items import emit_items
from tests.browser.window import Window
from tests.service.conftest import Api

pytestmark = pytest.mark.browser

HIDE = """
Object.defineProperty(document, "hidden", { value: arguments[0] === "hidden", configurable: true });
const before = stream;
document.dispatchEvent(new Event("visibilitychange"));
return [before.readyState === EventSource.CLOSED, stream.readyState === EventSource.CLOSED];
"""
"""Hides or shows the tab; returns whether its stream, and the one it has now, are closed."""


async def test_a_page_shows_what_changes_and_waits_while_a_form_is_edited(
    window: Window, api: Api
) -> None:
    [item] = await api.owner.fetch(
        "select i.id, i.item_no from ledger.due_item i join ledger.review r using (item_no) limit 1"
    )

    async def change(reason: str) -> None:
        """Change why the item is parked; the server counts it at once."""
        await api.owner.execute(
            "update ledger.review set reason = $1 where item_no = $2", reason, item["item_no"]
        )
        await api.owner.execute("select pg_stat_force_next_flush()")

    def begin() -> None:
        window.open(f"/console/items/{item['id']}")
        window.wait_for('[data-pulse="live"]')

    def edit() -> None:
        window.wait_for_text(".why h2", "changed once")
        window.find(".action summary")[0].click()
        window.find(".action[open] input[name=reason]")[0].send_keys("INC-1")
        window.wait_for('[data-pulse="paused"]')

    def leave() -> None:
        assert window.find(".action[open] input[name=reason]")[0].get_attribute("value") == "INC-1"
        assert "changed once" in window.find(".why h2")[0].text
        window.driver.execute_script("document.activeElement.blur()")
        window.find(".action[open] summary")[0].click()
        window.wait_for_text(".why h2", "changed twice")

    await window.do(begin)
    await change("changed once")
    await window.do(edit)
    await change("changed twice")
    await window.do(leave)


async def test_a_page_that_is_paused_does_not_change(window: Window) -> None:
    is_loading = "loadedAt = 0; isStale = true; tick(); return isLoading"

    def walk() -> None:
        window.open("/console/")
        window.wait_for('[data-pulse="live"]').click()
        assert window.find('[data-pulse="paused"][aria-pressed="true"]')
        assert not window.driver.execute_script(is_loading)
        window.find("[data-pulse]")[0].click()
        assert window.driver.execute_script(is_loading)
        window.wait_for('[data-pulse="live"][aria-pressed="false"]')

    await window.do(walk)


UPDATE = """
document.querySelectorAll("main [data-live] table").forEach((each) => { each.dataset.old = ""; });
loadedAt = 0; isStale = true; tick(); return isLoading;
"""
UPDATED = "main [data-live] table:not([data-old])"


async def test_an_update_keeps_the_row_that_keys_have_reached(window: Window) -> None:
    def walk() -> None:
        window.open("/console/")
        window.wait_for('[data-pulse="live"]')
        window.press("j", "j", "j")
        [row] = window.find("tr.at")
        name, address = row.find_element("css selector", "th").text, window.focused("href")
        assert window.driver.execute_script(UPDATE)
        window.wait_for(UPDATED)
        [row] = window.find("tr.at")
        assert row.find_element("css selector", "th").text == name
        assert window.focused("href") == address
        window.press("j", "k", "x")
        [selected] = window.find("tr.selected")
        assert selected.find_element("css selector", "th").text == name

    await window.do(walk)


async def test_an_update_leaves_a_row_that_is_gone_to_the_one_before_it(window: Window) -> None:
    gone = "document.querySelector('tr.at a').href = '/gone'"

    def walk() -> None:
        window.open("/console/")
        window.wait_for('[data-pulse="live"]')
        window.press("j", "j")
        names = [row.find_element("css selector", "th").text for row in window.find("tr.at")]
        window.press("j")
        window.driver.execute_script(gone)
        assert window.driver.execute_script(UPDATE)
        window.wait_for(UPDATED)
        assert [
            row.find_element("css selector", "th").text for row in window.find("tr.at")
        ] == names

    await window.do(walk)


async def test_an_update_leaves_the_strip_where_a_person_scrolled_it(window: Window) -> None:
    scroll = "const strip = document.querySelector('.wide'); const was = strip.scrollLeft;"

    def walk() -> None:
        window.open("/console/", width=360)
        window.wait_for('[data-pulse="live"]')
        assert window.driver.execute_script(f"{scroll} strip.scrollLeft = 40; return was") > 40
        assert window.driver.execute_script(UPDATE)
        window.wait_for(UPDATED)
        assert window.driver.execute_script(f"{scroll} return was") == 40

    await window.do(walk)


async def test_a_tab_has_one_stream_while_it_is_shown_and_asks_itself_without_one(
    window: Window,
) -> None:
    def walk() -> None:
        window.open("/console/")
        window.wait_for('[data-pulse="live"]')
        assert window.driver.execute_script(HIDE, "hidden") == [True, True]
        assert window.driver.execute_script(HIDE, "shown") == [True, False]
        window.wait_for('[data-pulse="live"]')
        window.driver.execute_script("stream.close(); loadedAt = Date.now(); tick()")
        assert window.find('[data-pulse="polling"]')
        window.driver.execute_script("loadedAt = 0; tick()")
        window.wait_for('[data-pulse="live"]')
        assert window.find("time[data-until]")[0].text.startswith("in ")
        window.driver.execute_script("Date.now = () => performance.timeOrigin + 9e7")
        window.wait_for_text("time[data-until]", "now")

    await window.do(walk)


async def test_a_list_says_how_many_of_its_rows_have_changed(window: Window, api: Api) -> None:
    def begin() -> None:
        window.open("/console/reviews/parked")
        window.wait_for('[data-pulse="live"]')
        assert not window.find(".changed")[0].is_displayed()

    await window.do(begin)
    await api.owner.execute(
        "update ledger.review set reason = 'changed again' where item_no ="
        " (select item_no from ledger.review order by parked_at, item_no limit 1)"
    )
    await api.owner.execute("select pg_stat_force_next_flush()")
    await window.do(lambda: window.wait_for_text(".changed", "1 row differs"))


async def test_a_list_without_a_stream_asks_itself_for_changes(window: Window, api: Api) -> None:
    def lose_stream() -> None:
        window.open("/console/reviews/parked")
        window.wait_for('[data-pulse="live"]')
        window.driver.execute_script("listen = () => stream.close(); listen(); tick()")
        assert window.find('[data-pulse="polling"]')

    await window.do(lose_stream)
    await api.owner.execute(
        "update ledger.review set reason = 'changed unseen' where item_no ="
        " (select item_no from ledger.review order by parked_at, item_no limit 1)"
    )

    def poll() -> None:
        window.driver.execute_script("tick()")
        assert not window.find(".changed")[0].is_displayed()
        window.driver.execute_script("loadedAt = 0; tick()")
        window.wait_for_text(".changed", "1 row differs")

    await window.do(poll)


async def test_a_schedule_shows_a_pause_that_begins_and_a_decision_says_that_items_changed(
    window: Window, api: Api
) -> None:
    def begin() -> None:
        window.open("/console/schedules/acme/nightly-close")
        window.wait_for('[data-pulse="live"]')
        assert not window.find("main .banner")

    await window.do(begin)
    scope = FlowScope("acme", "NightlyCloseDue")
    await pause_flows(api.owner, scope, reason="INC-90", actor_no=api.person_no)
    await api.owner.execute("select pg_stat_force_next_flush()")
    await window.do(lambda: window.wait_for_text("main .banner", "INC-90"))

    def decide() -> None:
        window.open("/console/schedules/calendar?tenant=acme")
        window.wait_for_text("main .banner", "INC-90")
        window.open("/console/reviews/acme/decide?kind=LetterDue&verb=cancel")
        window.wait_for('[data-pulse="live"]')
        assert not window.find(".changed")[0].is_displayed()

    await window.do(decide)
    await resume_flows(api.owner, scope, actor_no=api.person_no)
    now = await read_now(api.owner)
    await emit_items(api.owner, [_letter(now)], actor_no=api.person_no)
    await api.owner.execute("select pg_stat_force_next_flush()")
    await window.do(lambda: window.wait_for_text(".changed", "1 row differs"))


def _letter(now: datetime) -> ItemDraft:
    return ItemDraft(
        tenant="acme",
        kind="LetterDue",
        business_key="L-of-today",
        cycle="2027",
        effective_date=now.date(),
        due_at=now,
        payload="{}",
    )
