"""`why` names the real hindrance, and its remedy, carried out as printed, frees the item."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import pytest

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.processes import ProcessRole
from dueledger.why import explain

from .cases import CASES
from .cases_of_flows import rate
from .cases_of_items import behind_parked, paused_kind
from .cases_of_processes import kafka_down, no_direct_worker
from .conftest import Installation
from .hindered import Arrange

pytestmark = pytest.mark.long

FREED_SECONDS: Final = 10.0
"""From the remedy, or the start of the process that it starts, by the ledger's clock."""
MADE_ELSEWHERE: Final = {
    Hindrance.MOVED,  # below
    Hindrance.JOINING,  # in tests/ledger/test_why_processes.py
    Hindrance.PARTITION_STALLED,  # by the worker in tests/workers/test_stalled_partitions.py
    Hindrance.HANDLERS_STALLED,  # and there
}
SAMPLE: Final = (no_direct_worker, rate, paused_kind, behind_parked, kafka_down)
STARTED: Final = {
    "dueledger allocate": ProcessRole.ALLOCATOR,
    "dueledger work --direct": ProcessRole.DIRECT_WORKER,
    "dueledger work --outcomes": ProcessRole.OUTCOME_INTAKE,
}


def test_every_hindrance_is_made_once_at_least() -> None:
    assert {code for code, _ in CASES} | MADE_ELSEWHERE == set(Hindrance)


async def starts_none_that_lives(site: Installation, remedy: str) -> bool:
    """Return whether a process that the remedy starts is missing: no live one does its work."""
    roles = await site.roles()
    for command, role in STARTED.items():
        if f": `{command}" in remedy:
            does_it = role is not ProcessRole.DIRECT_WORKER or site.kind in roles[role].kinds
            return not (roles[role].live and does_it)
    return "tart one: `dueledger work module" not in remedy or not await site.granted()


async def check(site: Installation, code: Hindrance, arrange: Arrange) -> float:
    """Make a hindrance and follow its remedy; return in how many seconds it freed the item."""
    hindered = await arrange(site)
    await site.until(hindered.item, code)
    printed = await site.printed(hindered.item)
    assert printed["code"] == code
    remedy = printed["remedy"] or ""
    assert all(words in printed["sentence"] for words in hindered.says)
    assert await starts_none_that_lives(site, remedy)
    at = await site.follow(remedy)
    began = await site.now()
    await hindered.mend()
    seconds = 0.0
    if hindered.leads_to:
        await site.until_state(hindered.item, *hindered.leads_to)
        freed = await site.freed_at(hindered.item)
        seconds = (freed - max(at, began)).total_seconds()
    await hindered.ended()
    return seconds


@pytest.mark.full
@pytest.mark.parametrize(("code", "arrange"), CASES, ids=[arrange.__name__ for _, arrange in CASES])
async def test_each_hindrance_is_named_and_its_remedy_frees_the_item(
    site: Installation,
    code: Hindrance,
    arrange: Arrange,
    record_property: Callable[[str, object], None],
) -> None:
    seconds = await check(site, code, arrange)
    record_property("freed_seconds", seconds)
    assert seconds <= FREED_SECONDS


@pytest.mark.parametrize("arrange", SAMPLE)
async def test_a_hindrance_is_named_and_its_remedy_frees_the_item(
    site: Installation, arrange: Arrange
) -> None:
    [code] = [code for code, other in CASES if other is arrange]
    await check(site, code, arrange)


async def test_the_estimated_start_is_when_the_rate_has_served_the_items_before(
    site: Installation,
) -> None:
    hindered = await rate(site)
    explanation = await site.until(hindered.item, Hindrance.RATE)
    now = await site.now()
    _, _, start = explanation.sentence.rpartition(" at about ")
    estimated = datetime.strptime(f"{start.removesuffix(' UTC.')}Z", "%Y-%m-%d %H:%M:%S%z")
    assert 5000 < (estimated - now).total_seconds() <= 5100  # 51 items, one each 100 s


async def test_an_item_that_moves_on_between_two_reads_is_to_be_asked_for_again(
    site: Installation,
) -> None:
    [item] = await site.emit()
    before = await show_item(site.connection, item)
    assert before is not None
    await site.run("cancel", str(item), "--reason", "the policy lapsed")
    explanation = await explain(site.connection, before)
    assert explanation.code is Hindrance.MOVED
