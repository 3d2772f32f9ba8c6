"""Outcomes that Postgres refuses do not delay others."""

from collections.abc import Callable

import orjson
import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.verdict_outcomes import outcome_of_verdict

from .conftest import Site
from .test_claim_slices import claim_id, record

MakeDrafts = Callable[..., list[ItemDraft]]


@pytest.mark.parametrize(
    "number", ["1e-20000", "1E+301", "9" * 20_000, "0." + "1" * 20_000, "-1e-0301"]
)
def test_evidence_with_a_number_that_cannot_be_stored_is_refused_by_name(number: str) -> None:
    ending = outcome_of_verdict(
        Completed(f'{{"text": "1e9", "a": {number}}}'),
        DueItem(record(0, 1, 1), claim_id(1), 1),
        HandlerOptions(),
    )

    assert isinstance(ending, Outcome)
    assert ending.event is TransitionEvent.COMPLETED
    assert ending.detail is not None
    assert set(orjson.loads(ending.detail)) == {"evidence_refused"}


def test_evidence_keeps_its_text_where_its_numbers_can_be_stored() -> None:
    text = '{"a": 1.50e3, "b": 12345678901234567890.10, "c": "1e-20000 \\" 1e999"}'

    ending = outcome_of_verdict(
        Completed(text), DueItem(record(0, 1, 1), claim_id(1), 1), HandlerOptions()
    )

    assert ending.detail == text


async def test_g2_evidence_that_postgres_refuses_parks_alone_and_delays_no_other(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()
    # orjson does not check a fragment, so this is accepted: half a surrogate pair.
    evidence = {"document": orjson.Fragment(b'"\\ud800"')}

    @handlers.on_batch(site.kind, batch_max=100)
    async def answer(items: list[DueItem]) -> list[Verdict]:
        return [
            Completed(evidence if item.business_key.startswith("poison") else {"ok": True})
            for item in items
        ]

    await site.emit([*make_drafts(300), *make_drafts(2, prefix="poison")])
    await site.work(handlers)
    await site.allocate()

    async def all_ended() -> bool:
        return len(await site.events()) == 302

    await site.eventually(all_ended)
    assert await site.completed() == 300
    assert set(await site.reviews()) == {"poison-000000", "poison-000001"}
