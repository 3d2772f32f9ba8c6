"""The colours of states: readable as text, and distinct for those who see no red or no green."""

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import pytest

from dueledger.console.pages.badges import COLOURS
from dueledger.console.states import STATE_BADGES

_Triple = tuple[float, float, float]
_Matrix = tuple[_Triple, _Triple, _Triple]

SHEET: Final = Path(__file__).parents[2] / "dueledger" / "console" / "assets" / "console.css"
PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
BACKS: Final = {
    "good": "good-back",
    "warn": "warn-back",
    "bad": "bad-back",
    "active": "active-back",
    "quiet": "raised",
}
"""Colours of states, each with the background of its badge."""
DELTA_E_MIN: Final = 20.0
CONTRAST_MIN: Final = 4.5
"""WCAG 2.2, success criterion 1.4.3, level AA."""
SIGHTS: Final[dict[str, _Matrix]] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
"""Severity 1.0 of Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
Color Vision Deficiency", IEEE TVCG 15(6), 2009; for linear RGB."""
_XYZ_OF_RGB: Final[_Matrix] = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
"""IEC 61966-2-1, white point D65."""
_PAIR: Final = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")


def _palettes() -> dict[str, dict[str, _Triple]]:
    """Return the variables of the sheet by theme, as linear RGB."""
    [root] = re.findall(
        r"^:root \{(.*?)^\}", SHEET.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    pairs = _PAIR.findall(root)
    return {
        "light": {name: _linear(light) for name, light, _ in pairs},
        "dark": {name: _linear(dark) for name, _, dark in pairs},
    }


def _linear(colour: str) -> _Triple:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _part(red), _part(green), _part(blue)


def _part(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _times(matrix: _Matrix, values: _Triple) -> _Triple:
    first, second, third = (
        sum(factor * value for factor, value in zip(row, values, strict=True)) for row in matrix
    )
    return first, second, third


def _seen(colour: _Triple, sight: str) -> _Triple:
    """Return a colour as it is seen, in CIE Lab."""
    red, green, blue = (min(1.0, max(0.0, each)) for each in _times(SIGHTS[sight], colour))
    white = _times(_XYZ_OF_RGB, (1.0, 1.0, 1.0))
    parts = zip(_times(_XYZ_OF_RGB, (red, green, blue)), white, strict=True)
    x, y, z = (_root(value / most) for value, most in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(value: float) -> float:
    edge = 6 / 29
    return value ** (1 / 3) if value > edge**3 else value / (3 * edge**2) + 4 / 29


def _delta_e(one: _Triple, other: _Triple) -> float:
    """Return the distance of two colours of CIE Lab (CIE 1976)."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5


def _contrast(one: _Triple, other: _Triple) -> float:
    darker, lighter = sorted(_times(_XYZ_OF_RGB, each)[1] for each in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_states_differ_for_who_sees_no_red_or_no_green(theme: str, sight: str) -> None:
    palette = _palettes()[theme]
    for one, other in combinations(BACKS, 2):
        distance = _delta_e(_seen(palette[one], sight), _seen(palette[other], sight))
        assert distance >= DELTA_E_MIN, (one, other, round(distance, 1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_states_are_readable_as_text(theme: str) -> None:
    palette = _palettes()[theme]
    for name, back in BACKS.items():
        for behind in (back, "page", "surface", "raised"):
            contrast = _contrast(palette[name], palette[behind])
            assert contrast >= CONTRAST_MIN, (name, behind, round(contrast, 2))


def test_badges_have_the_colours_of_the_light_theme_under_white_text() -> None:
    light = _palettes()["light"]
    for name, colour in COLOURS.items():
        assert _linear(colour) == light[name]
        assert _contrast(_linear(colour), (1.0, 1.0, 1.0)) >= CONTRAST_MIN


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.svg")), ids=lambda each: each.stem)
def test_pictures_of_the_documents_have_the_colours_of_the_console(picture: Path) -> None:
    drawn = picture.read_text(encoding="utf-8")
    light, _, dark = drawn.partition("prefers-color-scheme: dark")
    palettes = _palettes()
    for theme, style in (("light", light), ("dark", dark)):
        drawn_colours = re.findall(r"\.(good|warn|bad) \{ fill: (\S+); stroke: (\S+);", style)
        assert drawn_colours, theme
        for name, fill, stroke in drawn_colours:
            expected = palettes[theme][BACKS[name]], palettes[theme][name]
            assert (_linear(fill), _linear(stroke)) == expected, (theme, name)


def test_states_have_in_their_picture_the_colours_of_their_badges() -> None:
    drawn = (PICTURES / "states.svg").read_text(encoding="utf-8")
    found = re.findall(r'<rect class="(\w+)"[^>]*/>\s*<text[^>]*>(\w+)</text>', drawn)
    assert len(found) == len(re.findall('<rect class="(?!page)', drawn)) == 6
    for drawn_tone, state in found:
        tone = STATE_BADGES[state].tone
        assert drawn_tone == (tone if tone in {"good", "warn", "bad"} else "box"), state


def test_the_distances_are_those_of_known_colours() -> None:
    red, black, white = (_linear(each) for each in ("#ff0000", "#000000", "#ffffff"))
    assert _contrast(black, white) == pytest.approx(21)
    for sight, matrix in SIGHTS.items():
        assert all(abs(sum(row) - 1) < 1e-5 for row in matrix), "grey stays grey"
        assert _delta_e(_seen(black, sight), _seen(white, sight)) == pytest.approx(100, abs=0.01)
    darker = [_seen(red, sight)[0] for sight in ("protanopia", "deuteranopia")]
    assert all(one < other for one, other in pairwise(darker))
