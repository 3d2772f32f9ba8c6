"""The runbook: what to do for each alert, as the documents have it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from fastapi import Response
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from dueledger.console.navigation import NAVIGATION
from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall

read = PageRoutes(Scope.READ, "console")

PAGES: Final[Mapping[str, str]] = {
    **{entry.name: entry.path for entry in NAVIGATION},
    "Late items": "/items?late=true",
    "Findings": "/reconciliation/findings",
    "Repairs": "/reconciliation/repairs",
}
"""Pages of the console that the runbook names, by the text of their link to `PAGES_LINK`."""
PAGES_LINK: Final = "console.md#pages"
_FILE: Final = Path(__file__).parents[1] / "runbook.md"


@read.page("/runbook")
async def show_runbook(call: CurrentCall, view: CurrentView) -> Response:  # noqa: ARG001 - it is the request that is admitted
    """Show the runbook; each alert's section has its name, in small letters, as anchor."""
    alerts, text = _text(view.url(""), frozenset(entry.path for entry in view.navigation))
    return view.page("runbook.html", title="Runbook", alerts=alerts, text=text)


@cache
def _text(root: str, shown: frozenset[str]) -> tuple[Sequence[str], Markup]:
    """Return the names of the alerts, and the runbook as HTML, without its title.

    It leads to pages below the entries of the navigation that are `shown`, at `root`. Other pages,
    and those of the documents, are named in italics.
    """
    markdown = MarkdownIt("commonmark", {"html": False})
    tokens = markdown.parse(_FILE.read_text(encoding="utf-8"))[3:]
    alerts: list[str] = []
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", content.content.lower())
            alerts.append(content.content)
    for token in tokens:
        if token.children:
            token.children = list(_own_links(token.children, root, shown))
    rendered = markdown.renderer.render(tokens, markdown.options, {})
    return alerts, Markup(rendered)  # noqa: S704 - it is made of a file of this package


def _own_links(tokens: Sequence[Token], root: str, shown: frozenset[str]) -> Iterator[Token]:
    """Yield tokens whose links lead to pages of the console, or else are emphasis."""
    is_own = False
    for index, token in enumerate(tokens):
        match token.type:
            case "link_open":
                href = str(token.attrGet("href"))
                path = _path(href, tokens[index + 1].content, shown)
                is_own = path is not None
                if path is not None:
                    token.attrSet("href", root + path)
                    yield token
                else:
                    yield Token("em_open", "em", 1)
            case "link_close":
                yield token if is_own else Token("em_close", "em", -1)
            case _:
                yield token


def _path(href: str, name: str, shown: frozenset[str]) -> str | None:
    """Return the path below the console that a link of the runbook is of; None if there is none."""
    if href != PAGES_LINK:
        return None
    path = PAGES[name]
    entry = path.partition("?")[0].split("/")[1]
    return path if f"/{entry}" in shown else None
