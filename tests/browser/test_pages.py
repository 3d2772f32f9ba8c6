"""Each page as a browser shows it: at three widths, in both themes, by keys alone."""

import pytest

from tests.browser.window import THEMES, WIDTHS, Window

pytestmark = pytest.mark.browser

PAGES = {
    "now": "/console/",
    "items": "/console/items?open=true&kind=PolicyRenewalDue",
    "item": "/console/items?q=C-00001&tenant=acme",
    "problem": "/console/items?nothing=1",
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_fits_each_width_and_can_be_used_by_everybody(
    window: Window, name: str
) -> None:
    def walk() -> None:
        for theme in THEMES:
            for width in WIDTHS:
                window.open(PAGES[name], width=width, theme=theme)
                scrolls = window.driver.execute_script(
                    "return document.documentElement.scrollWidth > window.innerWidth"
                )
                assert not scrolls, f"{name} scrolls sideways at {width}"
                window.shoot(name, width, theme)
                assert window.violations() == []
        assert window.messages() == []

    await window.do(walk)
