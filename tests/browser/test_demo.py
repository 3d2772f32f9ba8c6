"""The console that `make demo ARGS=--serve` leaves open: its pages, and what people do there.

The processes of the demo go on meanwhile. Two of its renewals fail, because a table of the insurer
is not there for a while, and two bookings are lost.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from dueledger.cli.exit_codes import ExitCode
from dueledger.dev.examples import example
from dueledger.ledger.store import Connection, open_connection
from tests.browser.page_checks import check_page
from tests.browser.test_pages import LINKED, PAGES
from tests.browser.window import Window
from tests.demo.served_demo import ServedDemo, serve_demo

pytestmark = pytest.mark.browser

KIND = "PolicyRenewalDue"
PAGES_OF_DEMO = {
    **PAGES,
    "items-of-kind": f"/console/items?open=true&tenant=insurer&kind={KIND}",
    "schedule": "/console/schedules/insurer/policy-renewal",
    "schedule-editor": "/console/schedules/insurer/policy-renewal/edit",
    "topic": f"/console/system/topic?name=due.{KIND}",
}
COMPLETED = f"/console/items?kind={KIND}&state=Completed"
LINKED_OF_DEMO = {
    **LINKED,
    "item": ("/console/reviews/parked", "tbody th a"),
    "item-due": (f"/console/items?kind={KIND}&state=Scheduled", "tbody th a"),
    "item-completed": (COMPLETED, "tbody th a"),
    "periodic": ("/console/schedules?tenant=kubernetes", "tbody th a"),
    "flow": ("/console/reviews/parked", "tbody th a", ".terms a[href*='/flows/']"),
    "flow-quarters": (
        *("/console/reviews/parked", "tbody th a", ".terms a[href*='/flows/']"),
        "a[href*='table=quarters']",
    ),
    "flow-circuit": ("/console/flows?tenant=kubernetes", "tbody th a"),
    "decide-items": (f"/console/items?open=true&tenant=insurer&kind={KIND}", "p.bulk a"),
    "search-several": (COMPLETED, "tbody th a", ".timeline a[href*='/search']"),
}
"""Pages by links: those of the demo's own things."""
MAIN = {
    *("now", "items", "schedules", "flows", "reviews", "reconciliation", "audit", "system"),
    *("item", "item-completed", "schedule", "flow", "finding", "operation", "calendar-past"),
}
VIEW = ((1440, "light"),)
MAIN_VIEWS = (*VIEW, (360, "light"), (360, "dark"), (1440, "dark"))
WAITING = """
select i.id, f.lane from ledger.pending p join ledger.due_item i using (item_no)
join ledger.flow f on f.flow_no = i.flow_no join ledger.kind k using (kind_no)
where k.name = $1 order by f.lane, i.item_no limit 2
"""
LOSE_BOOKINGS = """
delete from insurer.premium_booked where policy_number in (
  select b.policy_number from insurer.premium_booked b join insurer.policy p using (policy_number)
  where p.status = 'active' order by b.policy_number limit 2)
"""


class Demo(NamedTuple):
    """What tests use of the demo: a window that is signed in, and its ledger."""

    window: Window
    ledger: Connection


@pytest.fixture(scope="module")
async def demo(chrome: Chrome, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Demo]:
    """A window on the demo's console, once there is something to decide about."""
    with serve_demo(tmp_path_factory.mktemp("demo")) as served:
        address, _, key = served.link.partition("#")
        window = Window(chrome, address.removesuffix("/console/sign-in"))

        def sign_in() -> None:
            window.open(f"/console/sign-in#{key}")
            window.wait_for(".figures")

        async with open_connection(served.dsn, application_name="test") as ledger:
            demo = Demo(window, ledger)
            await window.do(sign_in)
            await _park_two(demo)
            await _lose_bookings(demo, served)
            yield demo
    assert served.ended
    assert served.ended.returncode == ExitCode.DONE, served.ended.stderr


async def _park_two(demo: Demo) -> None:
    """Start two renewals while a table is missing, pause their flow, park them, and go on."""
    window = demo.window
    items = await demo.ledger.fetch(WAITING, KIND)
    lane = items[0]["lane"]
    flow = f"/console/flows/insurer/{KIND}?lane={quote(lane)}"
    retrying = f"/console/items?tenant=insurer&kind={KIND}&state=RetryableFailure"

    def fail() -> None:
        for item in items:
            window.open(f"/console/items/{item['id']}")
            window.act("Start now", "Done: start now.", "INC-20: the policyholder asks")
            window.wait_for_text("h1", "Retrying")

    def park() -> None:
        window.open(flow)
        window.unfold("Pause")
        window.find("#pause-reason")[0].send_keys("INC-21: no table of renewals", Keys.ENTER)
        window.wait_for_text(".notice", "Paused.")
        for item in items:  # one that was claimed before the pause fails once more
            window.open(f"/console/items/{item['id']}")
            window.wait_for_text("h1", "Retrying")
        window.open(retrying)
        window.find("p.bulk a")[0].click()
        window.wait_for("nav[aria-label=Decision] a[href*='verb=park']").click()
        window.wait_for("nav[aria-label=Decision] a[href*='verb=park'][aria-current]")
        window.wait_for("#reason").send_keys("INC-21: ask the insurer", Keys.ENTER)
        window.wait_for_text("h1", "Done")

    def go_on() -> None:
        window.open(flow)
        window.find(".why summary.primary")[0].click()
        window.find("#resume-1")[0].send_keys("INC-21 ended", Keys.ENTER)
        window.wait_for_text(".notice", "Resumed.")

    await demo.ledger.execute("alter table insurer.renewal_issued rename to renewal_moved")
    await window.do(fail)
    await window.do(park)
    await demo.ledger.execute("alter table insurer.renewal_moved rename to renewal_issued")
    await window.do(go_on)


async def _lose_bookings(demo: Demo, served: ServedDemo) -> None:
    """Lose two bookings, and reconcile."""
    await demo.ledger.execute(LOSE_BOOKINGS)
    sources = str(example("insurer/sources.yaml"))
    reconcile = [sys.executable, "-m", "dueledger", "reconcile", "--once", "--sources", sources]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own command
            [*reconcile, "--dsn", served.dsn],
            env={**os.environ, "INSURER_DSN": served.dsn},
            capture_output=True,
            text=True,
            check=False,
        )

    found = await demo.window.do(run)
    assert found.returncode == ExitCode.FINDINGS, found.stderr


@pytest.mark.parametrize("name", [*(PAGES_OF_DEMO | LINKED_OF_DEMO)])
async def test_a_page_of_the_demo_fits_and_can_be_used_by_everybody(demo: Demo, name: str) -> None:
    window = demo.window

    def walk() -> None:
        links = LINKED_OF_DEMO.get(name)
        path = window.linked(*links) if links else PAGES_OF_DEMO[name]
        check_page(window, f"demo-{name}", path, MAIN_VIEWS if name in MAIN else VIEW)

    await window.do(walk)


async def test_the_system_page_has_the_age_of_a_watermark_by_the_simulated_clock(
    demo: Demo,
) -> None:
    window = demo.window

    def read() -> None:
        window.open("/console/system")
        said = [each.text for each in window.find("main p") if "complete before" in each.text]
        assert [" ago " in each for each in said] == [True], said

    await window.do(read)


async def test_a_report_of_the_demo_is_a_page_that_says_what_was_found(demo: Demo) -> None:
    window = demo.window

    def read() -> None:
        window.open(window.linked("/console/reconciliation/reports", "tbody a[href*='/page']"))
        assert "Not complete: " in window.find("body")[0].text
        window.shoot("demo-report", 1440, "light")
        window.open("/console/")
        window.messages()  # a report has no icon, for which a browser asks

    await window.do(read)


async def test_a_person_takes_a_parked_item_by_keys_and_it_completes_while_its_page_is_open(
    demo: Demo,
) -> None:
    window = demo.window

    def take() -> str:
        window.open("/console/reviews/parked")
        window.press("j", Keys.ENTER)
        window.wait_for("[aria-label='Taken by']")
        window.press_button("Take")
        window.wait_for_text(".notice", "Taken")
        assert "Taken by" in window.find("[aria-label='Taken by'] p")[0].text
        return str(window.driver.current_url).removeprefix(window.url).partition("?")[0]

    def redrive(path: str) -> None:
        window.open(path)
        window.act("Redrive", "Done: redrive.", "INC-22: the table is back")
        window.wait_for_text("h1", "Completed")
        steps = " ".join(each.text for each in window.find(".timeline > li"))
        assert all(words in steps for words in ("Failed", "Parked", "INC-22", "Completed")), steps
        assert window.violations() == []
        window.shoot("demo-item-redriven", 1440, "light")

    await window.do(lambda: redrive(take()))
    assert await window.do(window.messages) == []


async def test_a_person_pauses_and_resumes_a_flow_of_the_demo(demo: Demo) -> None:
    window = demo.window

    def pause() -> None:
        window.open(window.linked("/console/flows?tenant=kubernetes", "tbody th a"))
        window.unfold("Pause")
        window.find("#pause-reason")[0].send_keys("INC-23: no cluster", Keys.ENTER)
        window.wait_for_text(".why h2", "is paused: INC-23")
        assert window.violations() == []
        window.shoot("demo-flow-paused", 1440, "light")
        window.find(".why summary.primary")[0].click()
        window.find("#resume-1")[0].send_keys("INC-23 ended", Keys.ENTER)
        window.wait_for_text(".notice", "Resumed.")
        assert "INC-23 ended" in " ".join(each.text for each in window.find("td.c-prose"))

    await window.do(pause)
    assert await window.do(window.messages) == []


async def test_a_person_explains_a_finding_of_the_demo(demo: Demo) -> None:
    window = demo.window

    def explain() -> None:
        path = window.linked("/console/reviews/findings", "tbody th a")
        window.open(path)
        window.act("Explain", "Explained.", "INC-24: booked by hand")
        window.open(path)
        assert "Explained" in window.find("h1")[0].text
        assert window.violations() == []

    await window.do(explain)
    assert await window.do(window.messages) == []


async def test_a_person_triggers_a_schedule_of_the_demo_and_puts_another_version_in_force(
    demo: Demo,
) -> None:
    window = demo.window

    def trigger() -> str:
        path = window.linked("/console/schedules?tenant=kubernetes", "tbody th a")
        window.open(path)
        window.act("Trigger", "Triggered", "INC-25: the build was lost")
        window.wait_for_text("h1", "Completed")
        assert "INC-25" in window.find(".timeline")[0].text
        return path

    def edit(path: str) -> None:
        window.open(f"{path}/edit")
        [field] = window.find("textarea")
        text = field.get_attribute("value")
        field.clear()
        field.send_keys(f"{text.rstrip()}\noverlap: skip")
        window.wait_for("[data-preview-of] ins")
        window.press_button("Put in force")
        window.wait_for_text(".notice", "Version 2 is defined.")
        assert window.violations() == []

    await window.do(lambda: edit(trigger()))
    assert await window.do(window.messages) == []
