"""A window of Chromium: what tests do with it, in a thread, so that the console answers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from axe_selenium_python import Axe  # pyright: ignore[reportMissingTypeStubs]
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import (
    presence_of_element_located as element_located,
)
from selenium.webdriver.support.expected_conditions import (
    text_to_be_present_in_element as text_present,
)
from selenium.webdriver.support.wait import WebDriverWait

SCREENSHOTS = Path(__file__).resolve().parents[2] / ".tools" / "screenshots"
WIDTHS = (360, 768, 1440)
HEIGHT = 900
THEMES = ("light", "dark")
WAIT_SECONDS = 30.0
_HEIGHT_MAX = 6_000

_T = TypeVar("_T")


class Window:
    """One window on one console at `url`.

    It leaves the page of the console before: one that has ended by now makes messages.
    """

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver: Any = driver
        self.url = url
        self.driver.get("about:blank")
        self.messages()

    async def do(self, work: Callable[[], _T]) -> _T:
        """Do something in the browser, while this process serves its pages."""
        return await asyncio.to_thread(work)

    def open(self, path: str, *, width: int = 1440, theme: str = "light") -> None:
        """Open a page at a width, in a theme."""
        self.driver.set_window_size(width, HEIGHT)
        self.driver.get(self.url + path)
        self.driver.execute_script(f"document.documentElement.dataset.theme = '{theme}'")

    def linked(self, path: str, *selectors: str) -> str:
        """Return where the first link of each selector leads in turn, from a page."""
        for selector in selectors:
            self.open(path)
            path = str(self.find(selector)[0].get_attribute("href")).removeprefix(self.url)
        return path

    def wait_for(self, selector: str) -> Any:  # noqa: ANN401 - an element; selenium has no types
        """Return the first element of a selector, once there is one."""
        located: Any = element_located((By.CSS_SELECTOR, selector))
        return WebDriverWait(self.driver, WAIT_SECONDS).until(located)

    def find(self, selector: str) -> list[Any]:
        """Return the elements of a selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait_for_text(self, selector: str, text: str) -> None:
        """Wait until an element has a text."""
        has_text: Any = text_present((By.CSS_SELECTOR, selector), text)
        WebDriverWait(self.driver, WAIT_SECONDS).until(has_text)

    def wait_for_cookie(self, name: str, value: str) -> None:
        """Wait until the console has set a cookie of this name."""
        name = f"dueledger_{name}_{urlsplit(self.url).port}"

        def is_set(driver: Any) -> bool:  # noqa: ANN401 - selenium has no types
            found: Any = driver.get_cookie(name)
            return found is not None and found["value"] == value

        WebDriverWait(self.driver, WAIT_SECONDS).until(is_set)

    def unfold(self, words: str) -> None:
        """Fold out the one action of these words."""
        [folded] = [each for each in self.find(".action summary") if each.text == words]
        folded.click()

    def press_button(self, words: str) -> None:
        """Press the one button of these words."""
        [button] = [each for each in self.find("main button") if each.text == words]
        button.click()

    def act(self, words: str, notice: str, reason: str = "INC-1") -> None:
        """Do an action that asks why, and wait for what the next page says of it."""
        self.unfold(words)
        self.find(".action[open] [name=reason]")[0].send_keys(reason)
        self.press_button(words)
        self.wait_for_text(".notice", notice)

    def press(self, *keys: str) -> None:
        """Press keys, where the focus is."""
        actions: Any = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def focused(self, attribute: str) -> str:
        """Return an attribute of what has the focus."""
        return self.driver.switch_to.active_element.get_attribute(attribute)

    def messages(self) -> list[str]:
        """Return what the browser said since it was asked last."""
        return [
            each["message"] for each in self.driver.get_log("browser") if each["level"] != "DEBUG"
        ]

    def shoot(self, name: str, width: int, theme: str) -> None:
        """Keep a picture of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.driver.set_window_size(width, max(HEIGHT, min(height + 140, _HEIGHT_MAX)))
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}-{width}-{theme}.png"))
        self.driver.set_window_size(width, HEIGHT)

    def violations(self) -> list[str]:
        """Return what axe finds that makes the page harder to use: rule and elements."""
        axe: Any = Axe(self.driver)
        axe.inject()
        found = axe.run()["violations"]
        return [f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]}" for each in found]
