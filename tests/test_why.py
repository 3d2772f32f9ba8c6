"""Why an item did not happen: what ended it, in words, and the list of all hindrances."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Final
from uuid import UUID

import pytest

from dueledger.hindrance_texts import TEXTS, Hindrance
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items, show_item, skip_items, withdraw_items
from dueledger.tenant_hindrances import (
    PRIVATE_FACTS,
    TENANT_SENTENCES,
    facts_named,
    text_for_tenants,
)
from dueledger.why import explain

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "why.md"
INTRODUCTION: Final = """\
# Why an item has not happened yet

`dueledger why ITEM` names what hinders an item, in one sentence, and what to do about it; `--json`
has the same as `code`, `sentence` and `remedy`. `dueledger status` groups the flows with open items
by the codes that have a text for a flow, and `dueledger doctor` checks the processes that some
codes name. Numbers that stop at a limit have a `+`.

Words in capitals are filled in: `ID` is the item's. A command in backticks can be run as it is
printed; for `module:handlers` and `…` write your own. `make schema` makes this page from the texts
in the code.

| code | sentence | remedy | text for a flow |
|---|---|---|---|
"""
LEFT_OUT: Final = {"next": " from offset NEXT on", "since": ", the last of them since SINCE"}
"""Parts of sentences that are left out where they are not known."""
MakeDrafts = Callable[..., list[ItemDraft]]


async def why(connection: Connection, item: UUID) -> str:
    shown = await show_item(connection, item)
    assert shown is not None
    explanation = await explain(connection, shown)
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


def test_every_code_has_its_texts_in_the_order_of_the_list() -> None:
    assert list(TEXTS) == list(Hindrance)


def describe_hindrances() -> str:
    def cell(text: str | None) -> str:
        if text is None:
            return "—"
        named = {name: name.upper() for _, name, *_ in Formatter().parse(text) if name}
        named |= {name: words for name, words in LEFT_OUT.items() if name in named}
        return re.sub(r"\s+", " ", text.format_map(named)).replace("|", "\\|")

    rows = [
        f"| `{code}` | {cell(text.sentence)} | {cell(text.remedy)} | {cell(text.of_flow)} |\n"
        for code, text in TEXTS.items()
    ]
    return INTRODUCTION + "".join(rows)


def test_docs_show_every_hindrance() -> None:
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        DOCUMENT.write_text(describe_hindrances())
    assert DOCUMENT.read_text() == describe_hindrances(), (
        "run `make schema` and read the difference"
    )


@pytest.mark.parametrize("code", Hindrance)
def test_a_text_for_a_caller_of_some_tenants_has_no_private_fact_and_no_unknown_one(
    code: Hindrance,
) -> None:
    sentence, remedy = text_for_tenants(code)
    named = facts_named(sentence) | facts_named(remedy or "")
    assert not named & PRIVATE_FACTS
    assert facts_named(sentence) <= facts_named(TEXTS[code].sentence)
    assert (code in TENANT_SENTENCES) == (sentence != TEXTS[code].sentence)
