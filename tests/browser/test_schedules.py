"""Definitions that a person writes, imports and puts in force."""

from pathlib import Path

import pytest

from tests.browser.window import Window

pytestmark = pytest.mark.browser

DROP = """
const data = new DataTransfer();
data.items.add(new File([arguments[0]], "letters.crontab"));
const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
document.querySelector("#import-text").dispatchEvent(drop);
"""
"""Drops a file on the field of an import: a driver can drop none from outside."""


async def test_an_editor_shows_what_its_text_would_change_while_it_is_written(
    window: Window,
) -> None:
    def walk() -> None:
        window.open("/console/schedules/acme/nightly-close/edit")
        assert "Nothing changes" in window.find("[data-preview-of]")[0].text
        [field] = window.find("textarea")
        text = field.get_attribute("value")
        field.clear()
        field.send_keys(text.replace("30 2 * * *", "15 4 * * *"))
        window.wait_for("[data-preview-of] ins")
        assert "04:15:00" in window.find("[data-preview-of]")[0].text
        field.send_keys("x: [")
        window.wait_for("[data-preview-of] .problem")
        assert window.messages() == []

    await window.do(walk)


async def test_a_change_of_many_occurrences_that_is_refused_keeps_its_text(
    window: Window,
) -> None:
    def walk() -> None:
        window.open("/console/schedules/acme/rate-feed/edit")
        [field] = window.find("textarea")
        text = field.get_attribute("value").replace("*/10 7-19 * * 1-5", "0 5 1 * *")
        field.clear()
        field.send_keys(text)
        label = window.wait_for("label[for=typed]").text
        for width in (1440, 360):
            window.shoot("schedule-typed", width, "light")
            assert window.driver.execute_script(
                "return document.querySelector('.diff').scrollWidth <= window.innerWidth"
            )
        window.driver.set_window_size(1440, 900)
        window.press_button("Put in force")
        window.wait_for_text(".problem", "Type their number")
        assert window.find("textarea")[0].get_attribute("value") == text
        assert window.find("h1")[0].text == "Edit rate-feed"
        for width in (360, 1440):
            window.shoot("schedule-refused", width, "light")
        assert window.violations() == []
        number = label.partition(" ")[0].replace(",", "")
        window.find("#typed")[0].send_keys(number)
        window.press_button("Put in force")
        window.wait_for_text(".notice", "Version 2 is defined.")
        assert [each for each in window.messages() if " 422 " not in each] == []

    await window.do(walk)


async def test_a_file_that_is_chosen_or_dropped_is_converted_and_put_in_force(
    window: Window, tmp_path: Path
) -> None:
    crontab = tmp_path / "nightly.crontab"
    crontab.write_text("15 4 * * * /usr/local/bin/close-books\n", encoding="utf-8")
    dropped = "30 5 * * * /usr/local/bin/send-letters\n"

    def walk() -> None:
        window.open("/console/schedules/import")
        window.find("input[type=file]")[0].send_keys(str(crontab))
        window.wait_for('button[formaction$="/define"]')
        assert "close-books" in window.find("tbody tr")[0].text
        window.shoot("schedule-imported", 1440, "light")
        assert window.violations() == []
        window.open("/console/schedules/import")
        assert not window.find('button[formaction$="/define"]')
        window.driver.execute_script(DROP, dropped)
        window.wait_for('button[formaction$="/define"]')
        assert "send-letters" in window.find("tbody tr")[0].text
        [name] = window.find("input[name=file_name]")
        assert name.get_attribute("value") == "letters.crontab"
        window.press_button("Put 1 in force")
        window.wait_for_text(".notice", "1 of 1 definitions are new.")
        assert "send-letters" in " ".join(each.text for each in window.find("tbody th"))
        assert window.messages() == []

    await window.do(walk)


async def test_a_person_puts_a_definition_in_force_and_pauses_and_triggers_it(
    window: Window,
) -> None:
    def edit() -> None:
        window.open("/console/schedules/acme/statements")
        window.find("a.button[href$='/edit']")[0].click()
        [field] = [window.wait_for("textarea")]
        text = field.get_attribute("value")
        field.clear()
        field.send_keys(text.replace("0 9 1 * *", "45 3 1 * *"))
        window.wait_for("[data-preview-of] ins")
        window.press_button("Put in force")
        window.wait_for_text(".notice", "Version 2 is defined.")
        assert "03:45:00" in window.find("tbody")[0].text
        versions = [each.text for each in window.find(".timeline > li")]
        assert ["Version 2" in versions[0], "Version 1" in versions[1]] == [True, True]
        assert "key:jane" in versions[0]
        assert window.violations() == []

    def act() -> None:
        window.act("Pause", "Paused the kind of acme statements.", "INC-1")
        assert "INC-1" in window.find("main")[0].text
        window.act("Resume", "Resumed", "INC-1 ended")
        window.act("Trigger", "Triggered statements", "the file came late")
        assert "statements" in window.find("h1")[0].text
        assert window.violations() == []

    await window.do(edit)
    await window.do(act)
    assert await window.do(window.messages) == []
