"""What the version that an item names makes of it, where a newer version is what is expected."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.store import Connection
from dueledger.reconciler.compared_items import ExpectedItem
from dueledger.reconciler.expect import named_terms
from dueledger.reconciler.expect.expected_rows import occurrence_row
from dueledger.reconciler.expect.named_terms import list_named_drafts
from dueledger.reconciler.expect.schedules import ExpectedDraft, schedule_drafts
from dueledger.reconciler.expect.versions import DefinitionSpan

START = datetime(2027, 3, 1, 12, tzinfo=UTC)
AT = START + timedelta(hours=1)


def version(number: int, cron: str, zone: str) -> DefinitionSpan:
    document: dict[str, Any] = {
        "definition": "tick",
        "tenant": "acme",
        "kind": "Tick",
        "business_key": "tick",
        "when": {"cron": cron, "timezone": zone},
    }
    definition = parse_definition(document)
    return DefinitionSpan(number, "tick", number, definition, START, None, None)


@pytest.mark.parametrize(
    ("cron", "zone", "expanded_max"),
    [("* * * * *", "UTC", 1), ("0 * * * *", "Etc/GMT+5", 54)],
    ids=["at the same time", "in another zone"],
)
async def test_the_occurrence_of_an_older_version_is_found_without_two_days_around_it(
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    cron: str,
    zone: str,
    expanded_max: int,
) -> None:
    older, newer = version(1, cron, zone), version(2, "0 * * * *", "UTC")
    [(draft, _)] = schedule_drafts(newer, AT, AT + timedelta(minutes=1))
    expected = ExpectedItem._make(occurrence_row(2, draft, None, is_live=True))
    expanded = 0

    def counted(of: DefinitionSpan, start: datetime, end: datetime) -> Iterator[ExpectedDraft]:
        nonlocal expanded
        for each in schedule_drafts(of, start, end):
            expanded += 1
            yield each

    monkeypatch.setattr(named_terms, "schedule_drafts", counted)
    row: Any = {"item_no": 7, "definition_no": 1, "event_no": None}
    found = await list_named_drafts(connection, {1: older, 2: newer}, [(expected, row)])
    [named] = found[7]
    assert named.cycle == draft.cycle
    assert named.due_at - draft.due_at == timedelta(hours=5 if zone != "UTC" else 0)
    assert expanded <= expanded_max
