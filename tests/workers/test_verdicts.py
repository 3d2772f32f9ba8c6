"""Each verdict ends where it should, and so does everything that is none."""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NoReturn, cast

import pytest

from dueledger import Completed, DueItem, Handlers, NotDue, Park, Retry, Snooze, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store.clock import read_now
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.verdict_outcomes import (
    EVIDENCE_BYTES_MAX,
    outcome_of_verdict,
    outcomes_of_verdicts,
)

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]


async def worked(
    site: Site, make_drafts: MakeDrafts, handlers: Handlers, *prefixes: str, **changed: object
) -> dict[str, list[str]]:
    """Let a worker settle one item a prefix; return the journal once all have an entry."""
    await site.emit([draft for prefix in prefixes for draft in make_drafts(1, prefix=prefix)])
    await site.work(handlers, **changed)
    await site.allocate()

    async def all_ended() -> dict[str, list[str]] | None:
        events = await site.events()
        return events if len(events) == len(prefixes) else None

    return await site.eventually(all_ended)


async def test_g2_each_verdict_ends_in_a_recorded_state(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    until = await read_now(site.connection) + timedelta(hours=2)
    answers: dict[str, Verdict] = {
        "bare": Completed(),
        "mapping": Completed({"document": "R-1"}),
        "text": Completed('{"document": "R-2"}'),
        "retry": Retry(after_seconds=3600, reason="printer"),
        "backoff": Retry(),
        "snooze": Snooze(seconds=1800, reason="weekend"),
        "until": Snooze(until=until),
        "park": Park("needs an underwriter"),
        "answered": Retry(after_seconds=3600, reason="503", evidence={"status": 503}),
        "refused": Park("422", '{"status": 422}'),
        "notdue": NotDue("lapsed"),
    }

    @handlers.on(site.kind, backoff_base_seconds=40, backoff_cap_seconds=50)
    async def answer(item: DueItem) -> Verdict:
        return answers[item.business_key.removesuffix("-000000")]

    events = await worked(site, make_drafts, handlers, *answers)

    assert {key.removesuffix("-000000"): names for key, names in events.items()} == {
        "bare": ["completed"],
        "mapping": ["completed"],
        "text": ["completed"],
        "retry": ["failed"],
        "backoff": ["failed"],
        "snooze": ["snoozed"],
        "until": ["snoozed"],
        "park": ["parked"],
        "answered": ["failed"],
        "refused": ["parked"],
        "notdue": ["cancelled"],
    }
    details = await site.details()
    assert details["bare-000000"] is None
    assert details["mapping-000000"] == {"document": "R-1"}
    assert details["text-000000"] == {"document": "R-2"}
    assert details["retry-000000"] == {"reason": "printer"}
    assert details["notdue-000000"] == {"reason": "not due: lapsed"}
    assert details["park-000000"] == {"reason": "needs an underwriter"}
    assert details["answered-000000"] == {"reason": "503", "evidence": {"status": 503}}
    assert details["refused-000000"] == {"reason": "422", "evidence": {"status": 422}}
    assert await site.reviews() == {
        "park-000000": "needs an underwriter", "refused-000000": "422",
    }  # fmt: skip
    waiting = await site.pending()
    assert set(waiting) == {
        "retry-000000", "backoff-000000", "answered-000000", "snooze-000000", "until-000000",
    }  # fmt: skip
    assert waiting["retry-000000"]["state"] == State.RETRYABLE_FAILURE
    assert waiting["retry-000000"]["attempt"] == 1
    assert 3000 < waiting["retry-000000"]["wait_seconds"] <= 3600
    assert waiting["backoff-000000"]["wait_seconds"] <= 40
    assert waiting["snooze-000000"]["state"] == State.SCHEDULED
    assert waiting["snooze-000000"]["attempt"] == 0
    assert 1200 < waiting["snooze-000000"]["wait_seconds"] <= 1800
    assert 6600 < waiting["until-000000"]["wait_seconds"] <= 7200
    assert await site.completed() == 3


async def test_what_is_no_verdict_parks_by_name(site: Site, make_drafts: MakeDrafts) -> None:
    handlers = Handlers()
    answers: dict[str, object] = {
        "none": None,
        "string": "done",
        "class": Completed,
        "both": Snooze(),
        "never": Retry(after_seconds=float("inf")),
    }

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        return cast("Verdict", answers[item.business_key.removesuffix("-000000")])

    events = await worked(site, make_drafts, handlers, *answers)

    assert set(map(tuple, events.values())) == {("parked",)}
    reasons = {
        key.removesuffix("-000000"): reason for key, reason in (await site.reviews()).items()
    }
    assert all(reason.startswith("bad verdict: ") for reason in reasons.values())
    assert reasons["none"] == "bad verdict: the handler returned None"
    assert reasons["string"] == "bad verdict: the handler returned str 'done'"


class Unreadable(dict[str, object]):
    def values(self) -> NoReturn:
        raise RuntimeError("not for you")


async def test_g6_a_verdict_counts_though_its_evidence_cannot_be_kept(
    site: Site, make_drafts: MakeDrafts
) -> None:
    """Otherwise completed items would run again, and items to retry would not."""
    handlers = Handlers()
    answers: dict[str, Verdict] = {
        "set": Completed({"seen": {1, 2}}),
        "half": Completed({"server": "caf\udce9"}),
        "prose": Completed("it worked"),
        "list": Completed("[1]"),
        "nul": Completed({"name": "a\x00b"}),
        "nultext": Completed('{"name": "a\\u0000b"}'),
        "own": Completed(Unreadable(name="a")),
        "retried": Retry(after_seconds=3600, reason="503", evidence={"server": "caf\udce9"}),
        "parked": Park("for this", '{"name": "a\\u0000b"}'),
    }

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        return answers[item.business_key.removesuffix("-000000")]

    events = await worked(site, make_drafts, handlers, *answers)

    ended = {key.removesuffix("-000000"): names for key, names in events.items()}
    assert (ended.pop("retried"), ended.pop("parked")) == (["failed"], ["parked"])
    assert set(map(tuple, ended.values())) == {("completed",)}
    details = {
        key.removesuffix("-000000"): detail for key, detail in (await site.details()).items()
    }
    assert details["retried"]["reason"] == "503"
    assert "not JSON" in details["retried"]["evidence"]["evidence_refused"]
    assert details["parked"]["reason"] == "for this"
    assert "NUL" in details["parked"]["evidence"]["evidence_refused"]
    refused = {
        key: detail["evidence_refused"] for key, detail in details.items() if len(detail) == 1
    }
    assert "not JSON" in refused["set"]
    assert "not JSON" in refused["half"]
    assert "not JSON" in refused["prose"]
    assert "not a JSON object" in refused["list"]
    assert "NUL" in refused["nul"]
    assert "NUL" in refused["nultext"]
    assert refused["own"] == "cannot be read: RuntimeError"


STORABLE = [Completed('{"reference": "7"}'), Completed("{}")]


@pytest.mark.parametrize(
    "other",
    [
        Completed('{"reference": "8"}'),
        Completed('{"name": "a\\u0000b"}'),
        Completed('{"number": 1e999}'),
        Completed('{"name": "' + "x" * EVIDENCE_BYTES_MAX + '"}'),
        Completed("it worked"),
        Completed("[1]"),
        Completed({"seen": 2}),
        Completed(),
        Park("for this"),
        "no verdict",
    ],
)
def test_g6_verdicts_of_a_batch_have_the_outcomes_of_each_alone(other: object) -> None:
    verdicts = [*STORABLE, other]
    items = [cast("DueItem", None)] * len(verdicts)
    options = HandlerOptions()
    assert outcomes_of_verdicts(verdicts, items, options) == [
        outcome_of_verdict(verdict, item, options)
        for verdict, item in zip(verdicts, items, strict=True)
    ]


async def test_a_handler_that_raises_or_takes_too_long_fails_with_its_error(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    never = threading.Event()

    @handlers.on(site.kind, timeout_seconds=2)  # long enough for a thread on a busy machine
    def answer(item: DueItem) -> Verdict:
        match item.business_key:
            case "raises-000000":
                raise ValueError("no such policy: \x00 \ud800")
            case "exits-000000":
                raise SystemExit("enough")
            case _:
                never.wait()
                return Completed()

    events = await worked(
        site, make_drafts, handlers, "raises", "exits", "hangs", worker_drain_seconds=0
    )
    details = await site.details()
    never.set()

    assert set(map(tuple, events.values())) == {("failed",)}
    assert details["raises-000000"]["error"] == "ValueError"
    assert details["raises-000000"]["message"].startswith("no such policy")
    assert details["exits-000000"]["error"] == "SystemExit"
    assert details["hangs-000000"] == {
        "error": "HandlerTimeout", "message": "no verdict within 2 s",
    }  # fmt: skip


async def test_a_failure_that_names_no_time_backs_off_as_its_kinds_definitions_say(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        if item.business_key.startswith("raises"):
            raise ValueError("no printer")
        return Retry()

    await site.emit([*make_drafts(30), *make_drafts(30, prefix="raises")])
    await site.set_kind(backoff_base_seconds=1e6, backoff_cap_seconds=1e6)
    await site.allocate()
    await site.work(handlers)

    async def all_failed() -> bool:
        return len(await site.pending()) == len(await site.events()) == 60

    await site.eventually(all_failed)
    waits = {key: row["wait_seconds"] for key, row in (await site.pending()).items()}
    # Full jitter: that 30 of a million seconds all end below the usual cap of 600 is no chance.
    assert max(wait for key, wait in waits.items() if key.startswith("key")) > 600
    assert max(wait for key, wait in waits.items() if key.startswith("raises")) > 600
    assert max(waits.values()) <= 1e6


async def test_g9_failures_beyond_the_cap_park(site: Site, make_drafts: MakeDrafts) -> None:
    handlers = Handlers()
    attempts: list[int] = []

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        attempts.append(item.attempt)
        return Retry(after_seconds=0, reason="still no printer")

    await worked(site, make_drafts, handlers, "stubborn")

    async def parked() -> dict[str, str]:
        await site.allocate()
        return await site.reviews()

    assert await site.eventually(parked) == {"stubborn-000000": "still no printer"}
    assert attempts == [1, 2, 3, 4, 5]
    assert await site.completed() == 0


async def test_g9_a_failure_after_the_total_time_parks_though_attempts_are_left(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    due_at = await read_now(site.connection)
    drafts = [
        *make_drafts(1, prefix="old"),
        *make_drafts(1, prefix="patient", due_at=due_at),
        *make_drafts(1, prefix="soon", due_at=due_at),
    ]

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        # No retry after the total time: the item is parked now.
        return Retry(after_seconds=7200 if item.business_key.startswith("patient") else 60)

    await site.emit(drafts)
    await site.set_kind(total_seconds=3600)
    await site.allocate()
    await site.work(handlers)

    async def all_ended() -> dict[str, list[str]] | None:
        events = await site.events()
        return events if len(events) == 3 else None

    assert await site.eventually(all_ended) == {
        "old-000000": ["parked"],
        "patient-000000": ["parked"],
        "soon-000000": ["failed"],
    }


async def test_g9_snoozes_count_no_attempt_but_count_as_starts_until_their_cap(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    attempts: list[int] = []

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        attempts.append(item.attempt)
        return Snooze(seconds=0, reason="not before lunch")

    await site.emit(make_drafts(1))
    await site.set_kind(attempt_max=2, start_max=4)
    await site.work(handlers)

    async def parked() -> dict[str, str]:
        await site.allocate()
        return await site.reviews()

    assert await site.eventually(parked) == {"key-000000": "not before lunch"}
    assert attempts == [1, 1, 1, 1]


async def test_a_plain_function_blocks_its_thread_and_nothing_else(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    both_run = threading.Barrier(2)

    @handlers.on(site.kind)
    def answer(item: DueItem) -> Verdict:
        both_run.wait()  # ends only if both are called at once
        return Completed({"key": item.business_key})

    await worked(site, make_drafts, handlers, "one", "two")

    assert await site.completed() == 2


async def test_a_batch_returns_a_verdict_for_each_and_its_poison_fails_alone(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_batch(site.kind, batch_max=100)
    async def answer(items: list[DueItem]) -> list[Verdict]:
        if any(item.business_key.startswith("poison") for item in items):
            raise RuntimeError("cannot stomach this")
        return [Completed({"key": item.business_key}) for item in items]

    await site.emit([*make_drafts(300), *make_drafts(1, prefix="poison")])
    await site.work(handlers)
    await site.allocate()

    async def all_ended() -> bool:
        return len(await site.events()) == 301

    await site.eventually(all_ended)
    assert await site.completed() == 300
    assert list(await site.pending()) == ["poison-000000"]
    details = await site.details()
    assert details["poison-000000"]["message"] == "cannot stomach this"
    assert details["key-000007"] == {"key": "key-000007"}


async def test_a_batch_with_too_few_verdicts_parks_by_name(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_batch(site.kind)
    async def answer(items: list[DueItem]) -> Sequence[Verdict]:
        return [Completed() for _ in items][1:]

    await worked(site, make_drafts, handlers, "short")

    assert await site.reviews() == {
        "short-000000": "bad verdict: the handler returned 0 verdicts for 1 items"
    }


async def test_g2_an_unknown_kind_parks_with_its_payload(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await worked(site, make_drafts, Handlers(), "orphan", worker_topics=(f"due.{site.kind}",))

    assert await site.reviews() == {
        "orphan-000000": f"unknown_kind: no handler here for {site.kind}"
    }
    payload = await site.connection.fetchval("select payload from ledger.due_item")
    assert payload == {"premium": "123.45"}


async def test_an_item_gives_its_handler_what_was_emitted(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    seen: list[dict[str, object]] = []

    @handlers.on(site.kind)
    async def answer(item: DueItem) -> Verdict:
        seen.append(
            {
                "id": item.id,
                "tenant": item.tenant,
                "kind": item.kind,
                "business_key": item.business_key,
                "cycle": item.cycle,
                "effective_date": item.effective_date,
                "due_at": item.due_at,
                "attempt": item.attempt,
                "payload": item.json(),
            }
        )
        return Completed()

    await worked(site, make_drafts, handlers, "shown")

    draft = make_drafts(1, prefix="shown")[0]
    assert seen == [
        {
            "id": draft.id,
            "tenant": "acme",
            "kind": site.kind,
            "business_key": "shown-000000",
            "cycle": "2027",
            "effective_date": draft.effective_date,
            "due_at": draft.due_at,
            "attempt": 1,
            "payload": {"premium": "123.45"},
        }
    ]
