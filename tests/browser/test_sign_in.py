"""Signing in at an issuer, as a browser does it: two redirects, a cookie, and a page."""

from collections.abc import AsyncGenerator

import pytest
from selenium.webdriver import Chrome

from dueledger.console import open_console
from tests.browser.window import THEMES, WIDTHS, Window
from tests.databases import MakeDatabase
from tests.service.conftest import Api, open_api
from tests.service.issuer import Issuer, login_at, open_issuer

pytestmark = pytest.mark.browser


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        yield opened


@pytest.fixture
async def api(make_database: MakeDatabase, issuer: Issuer) -> AsyncGenerator[Api]:
    async with open_api(make_database, open_console, **login_at(issuer.url)) as opened:
        yield opened


async def test_a_person_signs_in_at_the_issuer_and_out_again(
    chrome: Chrome, api: Api, issuer: Issuer
) -> None:
    window = Window(chrome, api.service.url)

    def sign_in() -> None:
        for theme in THEMES:
            for width in WIDTHS:
                window.open("/console/items?kind=LetterDue", width=width, theme=theme)
                window.shoot("sign-in", width, theme)
                assert window.violations() == []
        window.find("a.button.primary")[0].click()
        window.wait_for("form.filters")
        assert window.driver.current_url.endswith("/console/items?kind=LetterDue")
        assert window.find(".account summary")[0].text == "oidc:jane"
        assert window.driver.execute_script("return document.cookie").find("session") < 0
        window.find(".account summary")[0].click()
        window.find(".account form:last-of-type button")[-1].click()
        window.wait_for("#key")
        window.driver.get(f"{window.url}/console/items")
        assert window.find("#key")
        assert window.messages() == []

    def fail() -> None:
        window.find("a.button.primary")[0].click()
        window.wait_for(".problem")
        assert "refuses the code" in window.find(".problem")[0].text
        assert window.violations() == []
        [refused] = window.messages()
        assert " 403 " in refused

    await window.do(sign_in)
    issuer.refuses_codes = True
    await window.do(fail)
