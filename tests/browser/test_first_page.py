"""What a new user finds on a broken installation, by what the first page shows and links to.

Each breakage is made on real processes. The user opens the console, reads the first page, follows
links, and reads what is late, for whom, and why.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

import pytest
from pydantic import SecretStr
from selenium.webdriver import Chrome

from dueledger.cli.exit_codes import ExitCode
from dueledger.console import open_console
from dueledger.ledger.states import State
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope, create_key
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.processes import ProcessRole
from dueledger.service import ServiceSettings, open_service
from tests.browser.window import Window
from tests.hindrances import conftest as installations
from tests.hindrances.cases_of_flows import rate
from tests.hindrances.cases_of_items import behind_parked
from tests.hindrances.conftest import Installation, kill
from tests.logins import with_login

pytestmark = pytest.mark.browser
make_database, site = installations.make_database, installations.site

CLICKS_MAX: Final = 3
FLOW_ITEMS: Final = "[aria-label='Flows with open items'] td a"
"""The first number of the first flow."""
Seed = Callable[[Installation], Awaitable[object]]


async def dead_consumer(site: Installation) -> None:
    """A worker is killed while it has items, and nobody reads its topic."""
    await site.start("allocate")
    worker = await site.start_worker(TEST_CONCURRENCY="1")
    items = await site.emit("hang", 5, partition_key="one")

    async def one_runs() -> bool:
        states = [(await site.shown(item))["state"] for item in items]
        return State.RUNNING.label in states

    await site.eventually(one_runs)
    await kill(worker)
    await site.end_hang()

    async def is_gone() -> bool:
        return not (await site.roles())[ProcessRole.WORKER].live

    await site.eventually(is_gone)


async def paused_region(site: Installation) -> None:
    await site.emit_direct(lane="north")
    await site.emit("key", lane="south", due_at=await read_now(site.connection) + timedelta(days=1))
    await site.run("pause", "acme", site.kind, "--lane", "north", "--reason", "INC-7: no archive")
    await site.start_direct()


async def missed_event(site: Installation) -> None:
    """The policies have one whose event never arrived."""
    await site.put_kind()
    (site.folder / "policies.csv").write_text(
        "tenant,kind,business_key,cycle,effective_date,due_at,payload\n"
        f"acme,{site.kind},P-77,2025,2025-03-01,2025-01-30T08:00:00Z,{{}}\n"
    )
    (site.folder / "sources.yaml").write_text(
        "sources:\n  - {population: policies in force, tenant: acme, csv: policies.csv,"
        f" kinds: [{site.kind}]}}\n"
    )
    reconciler = await site.start("reconcile", "--once", "--sources", "sources.yaml")
    assert await reconciler.wait() == ExitCode.FINDINGS


CASES: Final[dict[Seed, tuple[list[str], tuple[str, ...]]]] = {
    rate: ([FLOW_ITEMS, "tbody th a"], ("limited to 0.01 items a second",)),
    dead_consumer: (
        [FLOW_ITEMS, "tbody th a"],
        (r"no (live worker reads|worker runs that)",),
    ),
    behind_parked: (["td[data-label='In review'] a", "tbody th a"], ("no such policy",)),
    paused_region: ([FLOW_ITEMS, "tbody th a"], ("INC-7: no archive", "north")),
    missed_event: ([".figure.bad a", "tbody th a"], ("P-77",)),
}
"""How each is made, the links that are followed, and what is read at their end."""
FIRST: Final[dict[Seed, str]] = {
    rate: "More items are due than",
    dead_consumer: "worker",
    behind_parked: "They wait for a person.",
    paused_region: "INC-7: no archive",
    missed_event: "finding",
}
"""What the first page says already, of its kind and tenant."""
AT_ONCE: Final[dict[Seed, tuple[str, str]]] = {
    missed_event: (".figure.bad", "missing"),
    paused_region: (".banner", "INC-7: no archive"),
    rate: (".reasons li", "More items are due than"),
    behind_parked: (".reasons li", "They wait for a person."),
    dead_consumer: (".reasons li", "worker"),
}
"""Where the first page names each, and its reason, while all five are there.

The pass that finds the missed event is before the others, so that it finds nothing else.
"""
WITHIN: Final = """
const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
const range = document.createRange(), texts = [];
while (walker.nextNode()) {
  range.selectNodeContents(walker.currentNode);
  const box = range.getBoundingClientRect();
  if (box.height && box.bottom <= innerHeight) texts.push(walker.currentNode.data);
}
return texts.join(" ").replace(/\\s+/g, " ");
"""
"""The text that is read without scrolling."""


@pytest.fixture
async def window(chrome: Chrome, site: Installation) -> AsyncGenerator[Window]:
    """A window on the installation's console, of somebody who has just signed in."""
    settings = ServiceSettings.model_validate(
        {"dsn": SecretStr(with_login(site.dsn, "service")), "service_port": 0}
    )
    person = await register_actor(site.connection, "person:new", ActorKind.PERSON)
    key = await create_key(
        site.connection,
        "key:new",
        scopes=[*Scope],
        tenants=None,
        expires_at=None,
        created_by=person,
    )
    assert key is not None
    async with open_service(settings, open_console) as service:
        opened = Window(chrome, service.url)

        def sign_in() -> None:
            chrome.delete_all_cookies()
            opened.open(f"/console/sign-in#{key.text}")
            opened.wait_for(".figures")

        await opened.do(sign_in)
        yield opened


@pytest.mark.parametrize("seed", CASES, ids=[seed.__name__ for seed in CASES])
async def test_what_is_late_for_whom_and_why_is_found_from_the_first_page(
    site: Installation,
    window: Window,
    seed: Seed,
) -> None:
    await seed(site)
    links, answer = CASES[seed]
    assert len(links) <= CLICKS_MAX

    def walk() -> None:
        window.open("/console/")
        window.wait_for_text("main", FIRST[seed])
        verdict = window.find("h1")[0].text
        name = seed.__name__.replace("_", "-")
        assert "late" in verdict or "finding" in verdict, verdict
        for width in (1440, 360):
            window.open("/console/", width=width)
            window.wait_for("h1")
            read = window.driver.execute_script(WITHIN)
            assert all(words in read for words in (FIRST[seed], "acme", site.kind)), read
            window.shoot(f"first-page-{name}", width, "light")
        window.open("/console/")
        for number, link in enumerate(links):
            found = window.wait_for(link)
            found.click()
            window.wait_for("main")
            window.shoot(f"first-page-{name}-{number + 1}", 1440, "light")
        shown = window.find("main")[0].text
        assert all(re.search(words, shown) for words in (*answer, "acme", site.kind)), shown

    await window.do(walk)


def of_kind(site: Installation, kind: str) -> Installation:
    """Return the installation around another kind."""
    settings = {name: text.replace(site.kind, kind) for name, text in site.settings.items()}
    make_drafts = partial(site.make_drafts, kind=kind)
    return replace(site, kind=kind, make_drafts=make_drafts, settings=settings)


async def test_five_breakages_are_named_at_once_each_with_its_reason(
    site: Installation, window: Window
) -> None:
    kinds: dict[Seed, str] = {}
    for number, seed in enumerate(AT_ONCE):
        kinds[seed] = f"{site.kind}Of{number}"
        await seed(of_kind(site, kinds[seed]))

    def read() -> None:
        window.open("/console/")
        window.wait_for_text("h1", "4 flows are late.")
        window.wait_for_text(".reasons", FIRST[behind_parked])
        window.shoot("first-page-all-five", 1440, "light")
        within = window.driver.execute_script(WITHIN)
        for seed, (selector, words) in AT_ONCE.items():
            [named] = [each.text for each in window.find(selector) if kinds[seed] in each.text]
            assert words in named, named
            assert kinds[seed] in within, within
            assert words in within, within

    await window.do(read)
