"""The pages that are made of the code, the pictures, and the size of pages."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dueledger.cli.commands import COMMANDS
from dueledger.failures import KINDS
from tests.document_blocks import ROOT
from tools.check_site import findings
from tools.reference_pages import reference_pages
from tools.write_site import page_of

DOCS = ROOT / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
LINES_BELOW = 150
LONG = {"design.md"}
"""For developers: it may be longer."""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def test_the_reference_has_every_command_with_its_options(pages: dict[str, str]) -> None:
    headings = re.findall(r"^### dueledger (.*)$", pages["commands.md"], re.MULTILINE)
    assert {each.split()[0] for each in headings} == set(COMMANDS)
    assert "`--effective-date <str>`" in pages["commands.md"]


def test_the_reference_has_every_route(pages: dict[str, str]) -> None:
    document = json.loads((DOCS / "openapi.json").read_text("utf-8"))
    routes = {
        f"{method.upper()} {path}" for path, each in document["paths"].items() for method in each
    }
    assert set(re.findall(r"^### `(.*)`$", pages["rest.md"], re.MULTILINE)) == routes


def test_the_reference_has_every_error_and_every_topic(pages: dict[str, str]) -> None:
    codes = re.findall(r"^\| `([A-Z_]+)` \|", pages["errors.md"], re.MULTILINE)
    assert set(codes) >= set(KINDS)
    for topic in ("due.{kind}", "due-outcomes", "domain-events", "due-repairs", "due-rejected"):
        assert f"### `{topic}`" in pages["kafka.md"]


def test_a_page_of_the_site_shows_what_the_repository_shows() -> None:
    text = (
        "Said:\n- one\n- two\n\n| a |\n|---|\n\n<!-- not run: x -->\n```text\nSaid:\n- one\n```\n"
    )
    assert page_of(text) == (
        "Said:\n\n- one\n- two\n\n| a |\n|---|\n\n```text\nSaid:\n- one\n```\n"
    )


def test_a_broken_link_and_what_is_of_another_host_are_found(tmp_path: Path) -> None:
    page = """<h1 id="here">One</h1><a href="two.html#there">right</a><a href="https://a.example">right</a>
      <a href="#gone">1</a><a href="two.html#gone">2</a><a href="three.html">3</a>
      <script src="https://a.example/b.js"></script>"""
    (tmp_path / "one.html").write_text(page, encoding="utf-8")
    (tmp_path / "two.html").write_text('<h2 id="there">Two</h2>', encoding="utf-8")
    (tmp_path / "site.css").write_text("@import '//a.example/font.css';", encoding="utf-8")
    assert [line.partition(": ")[2] for line in findings(tmp_path)] == [
        "@import '//a.example/font.css is loaded from elsewhere",
        "#gone has no such heading",
        "two.html#gone has no such heading",
        "three.html does not exist",
        "https://a.example/b.js is loaded from elsewhere",
    ]


def test_each_picture_has_a_description_and_both_themes_and_loads_nothing() -> None:
    assert PICTURES
    for path in PICTURES:
        text = path.read_text("utf-8")
        picture = ET.fromstring(text)  # noqa: S314 - our own
        names = {each.get("id"): each.text for each in picture if each.get("id")}
        assert picture.get("role") == "img", path.name
        assert all(names[each] for each in (picture.get("aria-labelledby") or "").split())
        assert "prefers-color-scheme: dark" in text, path.name
        assert "href" not in text, path.name
        assert set(re.findall(r"url\((.*?)\)", text)) == {"#head"}, path.name


def test_each_concept_has_one_picture() -> None:
    _, *concepts = (DOCS / "concepts.md").read_text("utf-8").split("\n## ")
    found = [re.findall(r"^!\[.+\]\((.+)\)$", each, re.MULTILINE) for each in concepts]
    assert [len(names) for names in found] == [1] * len(concepts)
    pictures = [name for names in found for name in names]
    assert len(pictures) == len(PICTURES)
    assert {DOCS / name for name in pictures} == set(PICTURES)


def test_each_page_is_short() -> None:
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in DOCS.glob("*.md")}
    assert {name for name, count in lines.items() if count >= LINES_BELOW} <= LONG


def test_the_index_of_decisions_has_each() -> None:
    listed = re.findall(r"\]\((0.*\.md)\)", (DOCS / "adr" / "README.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in (DOCS / "adr").glob("0*.md"))
