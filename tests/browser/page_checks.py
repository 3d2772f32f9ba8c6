"""What each page must be in a browser, whichever ledger it is of."""

from collections.abc import Sequence

from tests.browser.window import THEMES, WIDTHS, Window

BETWEEN = 1024
"""A width at which the columns of tables wrap."""
VIEWS = tuple((width, theme) for theme in THEMES for width in WIDTHS)
FOLDED = ((360, "light"), (1440, "dark"))
"""Widths and themes in which what is folded is looked at, too."""
OPEN_FOLDS = "document.querySelectorAll('main details').forEach(each => { each.open = true; })"
SCROLLING = """
return [...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.getAttribute('aria-label'))
"""
WRAPPED = """
return [...document.querySelectorAll(".figure .number")]
  .filter(each => each.offsetHeight > 1.5 * parseFloat(getComputedStyle(each).lineHeight)
    || each.scrollWidth > each.closest(".figure").clientWidth)
  .map(each => each.textContent)
"""
"""Figures that take more than one line, or more than their place."""


def check_page(
    window: Window, name: str, path: str, views: Sequence[tuple[int, str]] = VIEWS
) -> None:
    """Look at a page at widths and in themes: it fits, axe finds nothing, the console is silent."""
    for width, theme in views:
        window.open(path, width=width, theme=theme)
        _check_width(window, f"{name} at {width}")
        window.shoot(name, width, theme)
        if (width, theme) in FOLDED and window.find("main details"):
            window.driver.execute_script(OPEN_FOLDS)
            window.shoot(f"{name}-open", width, theme)
        violations = window.violations()
        assert violations == [], (name, width, theme, violations)
    window.open(path, width=BETWEEN)
    _check_width(window, f"{name} at {BETWEEN}")
    messages = [each for each in window.messages() if " 422 " not in each]
    assert messages == [], (name, messages)


def _check_width(window: Window, name: str) -> None:
    wider = window.driver.execute_script(
        "return document.documentElement.scrollWidth - window.innerWidth"
    )
    assert wider <= 0, f"{name} scrolls sideways by {wider} pixels"
    for script in (SCROLLING, WRAPPED):
        found = window.driver.execute_script(script)
        assert found == [], f"{name}: {found}"
