"""Actions as a person does them: fold out, write why, press, and read what the page says then."""

import re
from collections.abc import Callable
from urllib.parse import quote
from uuid import UUID

import pytest
from selenium.webdriver.common.keys import Keys

from dueledger.ledger.presence import open_presence
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import State
from dueledger.ledger.store.processes import ProcessRole
from tests.browser.window import Window
from tests.ledger.conftest import Ledger
from tests.logins import with_login
from tests.service.conftest import Api

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
            window.unfold(verb)
            window.find(".action[open] input[name=reason]")[0].send_keys("INC-3", Keys.ENTER)
            window.wait_for_text("h1", status)

    await window.do(pause)
    await window.do(decide)
    assert await window.do(window.messages) == []


@pytest.mark.parametrize(
    ("over", "covered"), [("kind", "acme LetterDue"), ("tenant", "acme (all kinds)")]
)
async def test_a_person_pauses_a_kind_or_a_tenant_and_types_how_many_items_are_due(
    window: Window, over: str, covered: str
) -> None:
    def pause() -> None:
        window.open("/console/flows/acme/LetterDue")
        window.unfold("Pause")
        [option] = window.find(f"#over option[value={over}]")
        option.click()
        due = re.findall(r"([\d,]+)\+? due in", option.text)[0].replace(",", "")
        if int(due) > 100:
            window.find("#typed")[0].send_keys(due)
        window.find("#pause-reason")[0].send_keys("INC-12", Keys.ENTER)
        window.wait_for_text(".notice", "Paused.")
        assert f"{covered} is paused: INC-12" in window.find(".why h2")[0].text
        assert window.violations() == []
        window.shoot(f"paused-{over}", 1440, "light")

    def resume() -> None:
        window.find(".why summary.primary")[0].click()
        window.find("#resume-1")[0].send_keys("INC-12 ended", Keys.ENTER)
        window.wait_for_text(".notice", "Resumed.")
        assert not window.find(".why h2")

    await window.do(pause)
    await window.do(resume)
    assert await window.do(window.messages) == []


async def test_a_number_that_is_not_the_one_to_type_is_refused_before_the_form_is_sent(
    window: Window,
) -> None:
    def pause() -> None:
        window.open("/console/flows/acme/PaymentDue")
        window.unfold("Pause")
        label = window.find("label[for=typed]")[0].text
        assert label.startswith("To confirm, type what is due: 1,000 (this flow), 1,000 (the kind")
        window.find("#pause-reason")[0].send_keys("INC-8")
        typed = window.find("#typed")[0]
        typed.send_keys("1,000+", Keys.ENTER)
        assert window.find("#typed:invalid")
        assert window.find("#pause-reason")[0].get_attribute("value") == "INC-8"
        window.shoot("pause", 1440, "light")
        window.shoot("pause", 360, "light")
        typed.clear()
        typed.send_keys("1,000", Keys.ENTER)
        window.wait_for_text(".why h2", "is paused: INC-8")
        window.find(".why summary.primary")[0].click()
        window.find("#resume-1")[0].send_keys("INC-8 ended", Keys.ENTER)
        window.wait_for_text(".notice", "Resumed.")

    await window.do(pause)


async def test_a_person_changes_the_limits_of_a_flow(window: Window) -> None:
    def change() -> None:
        window.open("/console/flows/acme/PaymentDue")
        assert _term(window, "Items per second") == "5"
        window.unfold("Change limits")
        window.find("#rate_per_second")[0].clear()
        window.find("#rate_per_second")[0].send_keys("7.5")
        window.find("#limits-reason")[0].send_keys("INC-6: the partner takes more", Keys.ENTER)
        window.wait_for_text(".notice", "Changed, from the next claim on.")
        assert _term(window, "Items per second") == "7.5"
        [changed] = [each.text for each in window.find("tbody tr") if "INC-6" in each.text]
        assert "key:jane" in changed
        assert window.violations() == []

    await window.do(change)
    assert await window.do(window.messages) == []


@pytest.mark.parametrize(
    ("path", "words", "state", "step"),
    [
        ("q=S-00007&kind=StatementDue", "Start now", "Scheduled", "Expedited"),
        ("q=S-00008&kind=StatementDue", "Cancel", "Cancelled", "Cancelled"),
        ("q=C-00000&kind=ClaimReviewDue", "Redrive", "Scheduled", "Redriven"),
        ("q=C-00002&kind=ClaimReviewDue", "Write off", "Written off", "Written off"),
    ],
)
async def test_a_person_decides_about_an_item(
    window: Window, path: str, words: str, state: str, step: str
) -> None:
    def decide() -> None:
        window.open(f"/console/items?tenant=acme&{path}")
        window.act(words, f"Done: {words.lower()}.", "INC-7: it is needed")
        assert state in window.find("h1")[0].text
        last = window.find(".timeline > li")[-1].text
        assert all(each in last for each in (step, "key:jane", "INC-7: it is needed")), last
        assert window.violations() == []

    await window.do(decide)
    assert await window.do(window.messages) == []


async def test_a_person_parks_an_item_that_waits_for_a_retry(
    window: Window, api: Api, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    failed = await ledger.place(State.RETRYABLE_FAILURE)

    def park() -> None:
        window.open(f"/console/items/{failed.id}")
        window.act("Park", "Done: park.", "INC-13: ask the domain")
        assert "In review" in window.find("h1")[0].text
        last = window.find(".timeline > li")[-1].text
        assert all(each in last for each in ("Parked", "key:jane", "INC-13")), last
        assert window.violations() == []

    await window.do(park)
    assert await window.do(window.messages) == []


async def test_a_person_explains_and_accepts_findings(window: Window, api: Api) -> None:
    explained, accepted = await api.find("acme", 2)

    def resolve(finding: UUID, words: str, said: str) -> None:
        window.open(f"/console/reconciliation/findings/{finding}")
        window.act(words, said, "INC-9: known")
        assert said.removesuffix(".") in window.find("h1")[0].text
        assert (_term(window, "Resolved by"), _term(window, "Reason")) == (
            "key:jane",
            "INC-9: known",
        )
        assert not window.find(".action form[action$=explain]")
        assert window.violations() == []

    await window.do(lambda: resolve(explained, "Explain", "Explained."))
    await window.do(lambda: resolve(accepted, "Accept", "Accepted."))
    assert await window.do(window.messages) == []


async def test_g11_a_person_proposes_a_repair_and_approves_that_of_another(
    window: Window, api: Api
) -> None:
    [proposed, approved] = await api.find("acme", 2)
    await api.propose(approved, api.person_no)

    def propose() -> None:
        window.open(f"/console/reconciliation/findings/{proposed}")
        assert "Repair: Emit LetterDue of P-secret" in window.find(".why h2")[0].text
        window.press_button("Propose the repair")
        window.wait_for_text(".notice", "Proposed.")
        assert "proposed by key:jane" in window.find("main")[0].text
        refused = window.find(".refused")[-1]
        refused.find_element("css selector", "summary").click()
        assert "somebody else approves it" in refused.text
        assert window.violations() == []
        window.shoot("repair-proposed", 1440, "light")

    def approve() -> None:
        window.open(f"/console/reconciliation/findings/{approved}")
        window.act("Approve", "Approved.", "INC-10: asked the domain")
        window.open(f"/console/reconciliation/findings/{approved}")
        assert "approved by key:jane: INC-10" in window.find("main")[0].text
        assert window.violations() == []

    await window.do(propose)
    await window.do(approve)
    assert await window.do(window.messages) == []


async def test_a_person_asks_a_process_to_drain(window: Window, api: Api) -> None:
    name, stop = "materialiser:app-9:4711:77aa", Stop()
    dsn = with_login(api.dsn, "materialiser")

    def drain() -> None:
        window.open(f"/console/system/process?name={quote(name)}")
        assert "It takes work." in window.find(".why h2")[0].text
        window.act("Drain", "It is asked to drain and stop.", "INC-11: a new machine")

    def read() -> None:
        window.wait_for_text(".why h2", "It drains since")
        assert "key:jane" in window.find(".why")[0].text
        assert "INC-11: a new machine" in window.find(".why")[0].text
        assert not window.find(".action")
        assert window.violations() == []

    async with open_presence(dsn, name, ProcessRole.MATERIALISER, stop=stop):
        await window.do(drain)
        assert await stop.wait(60)
        await window.do(read)
    assert await window.do(window.messages) == []


def _term(window: Window, name: str) -> str:
    """Return what a page says of a term."""
    [term] = [each for each in window.find("dl.terms dt") if each.text == name]
    return term.find_element("xpath", "following-sibling::dd[1]").text
