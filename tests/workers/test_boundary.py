"""Whatever a handler raises, returns or cancels, its items end and other items continue."""

import asyncio
import sys
from collections.abc import Callable
from typing import cast

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft

from .conftest import Site

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]


class Evil(BaseException):
    """Outside `Exception`, as a cancellation of somebody else's library may be."""


class Unspeakable(Exception):
    """An error whose text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


class Masked:
    """A result that raises when its type is checked."""

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise Evil


async def misbehave(how: str) -> Verdict:
    match how:
        case "evil":
            raise Evil("not an Exception")
        case "generator":
            raise GeneratorExit
        case "interrupt":
            raise KeyboardInterrupt
        case "exits":
            sys.exit("enough")
        case "unspeakable":
            raise Unspeakable
        case "masked":
            return cast("Verdict", Masked())
        case "cancels" | "late":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if how == "cancels":
                await asyncio.sleep(0)
            return Completed()
        case _:
            return Completed()


async def ended(site: Site, count: int) -> dict[str, list[str]]:
    async def all_ended() -> dict[str, list[str]] | None:
        events = await site.events()
        return events if len(events) == count else None

    return await site.eventually(all_ended)


WAYS = (
    "evil", "generator", "interrupt", "exits", "unspeakable", "masked", "cancels", "late", "fine",
)  # fmt: skip
EVENTS = {
    "evil": ["failed"],
    "generator": ["failed"],
    "interrupt": ["failed"],
    "exits": ["failed"],
    "unspeakable": ["failed"],
    "masked": ["parked"],
    "cancels": ["failed"],
    "late": ["completed"],
    "fine": ["completed"],
}


@pytest.mark.parametrize("form", ["single", "batch"])
async def test_g5_g9_an_item_ends_whatever_its_handler_raises_returns_or_cancels(
    site: Site, make_drafts: MakeDrafts, form: str
) -> None:
    handlers = Handlers()

    async def answer(item: DueItem) -> Verdict:
        return await misbehave(item.business_key.removesuffix("-000000"))

    if form == "single":
        handlers.on(site.kind)(answer)
    else:

        @handlers.on_batch(site.kind, batch_max=len(WAYS))
        async def answer_all(items: list[DueItem]) -> list[Verdict]:
            return [await answer(item) for item in items]

    await site.emit([draft for way in WAYS for draft in make_drafts(1, prefix=way)])
    await site.work(handlers)
    await site.allocate()
    events = await ended(site, len(WAYS))

    ends = {key.removesuffix("-000000"): [*dict.fromkeys(names)] for key, names in events.items()}
    assert ends == EVENTS  # on a slow machine one that failed is tried again meanwhile
    details = await site.details()
    assert details["evil-000000"] == {"error": "Evil", "message": "not an Exception"}
    assert details["unspeakable-000000"]["error"] == "Unspeakable"
    assert await site.reviews() == {"masked-000000": "bad verdict: reading it raised Evil"}
    assert await site.open_runs() == 0


async def test_g9_a_handler_that_swallows_its_cancellation_loses_its_item_and_stalls_no_other(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    released = asyncio.Event()

    @handlers.on(site.kind, timeout_seconds=0.2)
    async def answer(item: DueItem) -> Verdict:
        while item.business_key.startswith("deaf") and not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return Completed()

    await site.emit([*make_drafts(10), *make_drafts(1, prefix="deaf")])
    await site.work(handlers)
    await site.allocate()
    try:
        events = await ended(site, 11)
        details = await site.details()
    finally:
        released.set()

    assert events["deaf-000000"] == ["failed"]
    assert details["deaf-000000"]["error"] == "HandlerTimeout"
    assert await site.completed() == 10


async def test_g9_a_batch_that_swallows_its_cancellation_and_raises_later_is_not_called_again(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers, calls = Handlers(), list[set[str]]()
    released = asyncio.Event()

    @handlers.on_batch(site.kind, batch_max=4, concurrency=1, timeout_seconds=0.2)
    async def answer(items: list[DueItem]) -> list[Verdict]:
        calls.append({item.business_key for item in items})
        while len(calls) == 1 and not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        if len(calls) == 1:
            raise ValueError
        return [Completed() for _ in items]

    deaf = make_drafts(4, partition_key="one claim")
    later = make_drafts(1, prefix="later", partition_key="one claim")
    await site.emit(deaf)
    await site.set_kind(attempt_max=1)
    await site.work(handlers)
    await site.allocate()
    try:
        await ended(site, 4)
    finally:
        released.set()
    await site.emit(later)

    async def later_completed() -> bool:
        await site.allocate()
        return await site.completed() == 1

    await site.eventually(later_completed)  # it is called once the only call has ended
    assert calls == [{draft.business_key for draft in drafts} for drafts in (deaf, later)]
    assert (await site.reviews()).keys() == calls[0]


async def test_g9_a_coroutine_that_never_ends_fails_at_its_time_and_again_until_it_parks(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind, timeout_seconds=0.1, backoff_base_seconds=0.001)
    async def never(item: DueItem) -> Verdict:
        await asyncio.Event().wait()
        return Completed({"key": item.business_key})

    await site.emit(make_drafts(1))
    await site.set_kind(attempt_max=2)
    await site.work(handlers)

    async def parked() -> dict[str, str]:
        await site.allocate()
        return await site.reviews()

    await site.eventually(parked)
    assert await site.events() == {"key-000000": ["failed", "parked"]}
    assert (await site.details())["key-000000"]["error"] == "HandlerTimeout"


async def test_g4_a_handler_that_forges_fences_and_stirs_its_batch_settles_what_it_was_given(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_batch(site.kind, batch_max=50)
    async def forge(items: list[DueItem]) -> list[Verdict]:
        verdicts: list[Verdict] = [Completed({"key": item.business_key}) for item in items]
        for item in items:
            item.fence, item.position = item.fence + 1, item.position + 1
        items.reverse()
        del items[1:]
        return verdicts

    @handlers.on(f"{site.kind}Other")
    async def forge_one(item: DueItem) -> Verdict:
        item.fence, item.position = 10**9, 7
        return Completed({"key": item.business_key})

    await site.emit([*make_drafts(40), *make_drafts(1, kind=f"{site.kind}Other", prefix="one")])
    await site.work(handlers)

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 41

    await site.eventually(all_completed)
    events = await site.events()
    assert set(map(tuple, events.values())) == {("completed",)}
    assert await site.details() == {key: {"key": key} for key in events}
    assert not await site.rejected_writes()
    assert await site.open_runs() == 0


async def test_a_batch_that_returns_too_many_verdicts_parks_by_name(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_batch(site.kind, batch_max=50)
    async def answer(items: list[DueItem]) -> list[Verdict]:
        return [Completed() for _ in [*items, *items]]

    await site.emit(make_drafts(1))
    await site.allocate()
    await site.work(handlers)
    await ended(site, 1)

    assert await site.reviews() == {
        "key-000000": "bad verdict: the handler returned 2 verdicts for 1 items"
    }


async def test_g9_innocents_complete_beside_poison_on_two_workers(
    site: Site, make_drafts: MakeDrafts
) -> None:
    def poisoned() -> Handlers:
        handlers = Handlers()

        @handlers.on(site.kind, timeout_seconds=0.5, backoff_base_seconds=0.01)
        async def answer(item: DueItem) -> Verdict:
            if item.business_key == "poison-000000":
                raise Evil
            if item.business_key == "poison-000001":
                return await misbehave("cancels")
            return Completed()

        return handlers

    await site.emit([*make_drafts(6_000), *make_drafts(2, prefix="poison")])
    await site.connection.execute(
        "update ledger.pending p set batch_max = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like 'poison%'"
    )
    await site.work(poisoned())
    await site.work(poisoned())

    async def innocents_done() -> bool:
        await site.allocate()
        return await site.completed() == 6_000 and len(await site.reviews()) == 2

    await site.eventually(innocents_done)
