"""Chromium of the system on a real console: pages as people see them."""

import shutil
from collections.abc import AsyncGenerator, Generator

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from dueledger.console import open_console
from dueledger.ledger.store.api_keys import Scope
from tests.browser.seeded_ledger import seed_ledger
from tests.browser.window import Window
from tests.databases import MakeDatabase
from tests.service.conftest import Api, open_api

_MISSING = "needs chromium and chromedriver: apt-get install chromium chromium-driver"


def _find(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(_MISSING)
    return found


@pytest.fixture(scope="session")
def chrome() -> Generator[Chrome]:
    """One browser for all tests; nothing is downloaded for it."""
    options = ChromeOptions()
    options.binary_location = _find("chromium", "chromium-browser")
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(_find("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    """A console on a ledger in which something is late for each of several reasons."""
    async with open_api(make_database, open_console) as opened:
        await seed_ledger(opened)
        yield opened


@pytest.fixture(scope="module")
async def window(chrome: Chrome, api: Api) -> Window:
    """A window that is signed in by a key with every scope and tenant, as `dueledger dev` links."""
    key = await api.make_key("jane", *Scope, tenants=None)
    opened = Window(chrome, api.service.url)

    def sign_in() -> None:
        opened.open(f"/console/sign-in#{key.text}")
        opened.wait_for(".figures")

    await opened.do(sign_in)
    return opened
