"""Why an item did not happen: what ended it, in words."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items, show_item, skip_items, withdraw_items
from dueledger.why import explain

MakeDrafts = Callable[..., list[ItemDraft]]


async def why(connection: Connection, item: UUID) -> str:
    shown = await show_item(connection, item)
    assert shown is not None
    explanation = explain(shown)
    assert explanation.code == "ENDED"
    return explanation.sentence


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("overlap", "definition's `overlap`"),
        ("catch_up", "it was missed, and by `catch_up`"),
        ("calendar", ": 2027-03-14 is not a business day"),
        ("gap", ": 2027-03-14 02:30 in America/New_York does not exist"),
    ],
)
async def test_g2_a_skipped_item_is_shown_with_its_reason(
    connection: Connection, actor_no: int, make_drafts: MakeDrafts, reason: str, words: str
) -> None:
    (draft,) = make_drafts()
    draft = replace(draft, nominal="2027-03-14T02:30", zone="America/New_York")
    (answer,) = await skip_items(connection, [draft], [reason], actor_no=actor_no)
    sentence = await why(connection, answer.id)
    assert sentence.startswith("It ended as Skipped at ")
    assert words in sentence


@pytest.mark.parametrize(
    ("event", "reason", "words"),
    [
        (TransitionEvent.CANCELLED, "the policy lapsed {today}.", "the policy lapsed {today}."),
        (TransitionEvent.SUPERSEDED, "version", "a newer version of its definition"),
        (TransitionEvent.SUPERSEDED, "PolicyRenewed", ": PolicyRenewed."),
    ],
)
async def test_a_withdrawn_item_is_shown_with_its_reason(
    connection: Connection,
    actor_no: int,
    make_drafts: MakeDrafts,
    event: TransitionEvent,
    reason: str,
    words: str,
) -> None:
    (answer,) = await emit_items(connection, make_drafts(), actor_no=actor_no)
    await withdraw_items(connection, [answer.id], event=event, reason=reason, actor_no=actor_no)
    assert words in await why(connection, answer.id)
