"""The pictures of the console are of today's pages: their words are those of the pages."""

import json
from collections.abc import AsyncGenerator

import pytest

from dueledger.console import open_console
from dueledger.ledger.store.api_keys import Scope
from tests.browser.seeded_ledger import seed_ledger
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.documents.pictures import FOLDER, PICTURES, WORDS, last_item_of, words_of
from tests.service.conftest import open_api


@pytest.fixture(scope="module")
async def browser(make_database: MakeDatabase) -> AsyncGenerator[Browser]:
    """A browser on the ledger of the pictures."""
    async with open_api(make_database, open_console) as api, open_browser(api) as opened:
        await seed_ledger(api)
        await opened.sign_in(await api.make_key("jane", *Scope, tenants=None))
        yield opened


@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_has_the_words_that_its_page_has_now(browser: Browser, name: str) -> None:
    page = (await browser.open(PICTURES[name])).text
    if "<h1>Items" in page:
        page = (await browser.open(last_item_of(page))).text
    then, now = set(json.loads(WORDS.read_text("utf-8"))[name]), set(words_of(page))
    assert (then - now, now - then) == (set(), set()), "take the pictures again: make pictures"


def test_each_picture_of_the_console_has_its_words() -> None:
    names = {path.stem for path in FOLDER.glob("*.png")}
    assert names == set(PICTURES) == set(json.loads(WORDS.read_text("utf-8")))


def test_words_are_those_that_name_things_and_no_numbers_or_cells() -> None:
    page = """<h2>Outside</h2><main><h1>7 flows are late</h1>
      <h2>Late <span class="quiet">12</span></h2>
      <p class="note">2,000+ past their SLA for 3 min</p><table><caption>By age</caption>
      <thead><tr><th>Flow<br></th></tr></thead><tbody><tr><th>acme</th></tr></tbody></table>
      <ul class="legend"><li><i></i>due, open</li></ul><button>Until <time>12:00 UTC</time></button>
      </main><dt>Outside</dt>"""
    assert words_of(page) == ["By age", "Flow", "Late", "Until", "due, open", "past their SLA for"]
