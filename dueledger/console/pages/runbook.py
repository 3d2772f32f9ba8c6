"""The runbook: what to do for each alert, as the documents have it."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from fastapi import Response
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from dueledger.console.page_routes import PageRoutes
from dueledger.console.view import CurrentView
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall

read = PageRoutes(Scope.READ, "console")

_FILE: Final = Path(__file__).parents[1] / "runbook.md"
_LINKS: Final = {"link_open", "link_close"}


@read.page("/runbook")
async def show_runbook(call: CurrentCall, view: CurrentView) -> Response:  # noqa: ARG001 - it is the request that is admitted
    """Show the runbook; each alert's section has its name, in small letters, as anchor."""
    return view.page("runbook.html", title="Runbook", text=_text())


@cache
def _text() -> Markup:
    """Return the runbook as HTML, without its title and without links to other documents."""
    markdown = MarkdownIt("commonmark", {"html": False})
    tokens = markdown.parse(_FILE.read_text(encoding="utf-8"))[3:]
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", content.content.lower())
    for token in tokens:
        if token.children:
            token.children = list(_own_links(token.children))
    rendered = markdown.renderer.render(tokens, markdown.options, {})
    return Markup(rendered)  # noqa: S704 - it is made of a file of this package


def _own_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens without the links to other documents, which the console does not have."""
    is_own = False
    for token in tokens:
        if token.type == "link_open":
            is_own = str(token.attrGet("href")).startswith("#")
        if is_own or token.type not in _LINKS:
            yield token
