"""Event rules with a calendar by name: the intake asks the newest, the reconciler what counted."""

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime

import pytest

from dueledger.calendars.import_calendar import CalendarImport
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidEvent
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.calendar_cache import CalendarCache, calendar_name_of
from dueledger.ledger.store.definitions import define, list_event_rules, read_rules_version
from dueledger.reconciler.expect.versions import read_version_spans

Put = Callable[..., Awaitable[CalendarImport]]
RENEWAL = {
    "definition": "renewal",
    "tenant": "acme",
    "kind": "RenewalDue",
    "event": "Activated",
    "business_key": "data.policy",
    "cycle": "data.term",
    "effective_date": "data.expires_on",
    "when": {"relative": "P0D", "at": "09:00", "timezone": "UTC"},
    "calendar": {"name": "us", "roll": "following"},
}


@pytest.fixture
async def rule(connection: Connection) -> None:
    await define(
        connection,
        parse_definition(RENEWAL, calendars=None).normalised(),
        tenant="acme",
        name="renewal",
        kind="RenewalDue",
        event_type="Activated",
        effective_from=None,
        actor_no=await register_actor(connection, "author", ActorKind.PERSON),
    )


def event(expires_on: str) -> DomainEvent:
    data = {"policy": "P-1", "term": "2027", "expires_on": expires_on}
    at = datetime(2027, 1, 1, tzinfo=UTC)
    return DomainEvent("acme", "/policies", "1", "Activated", at, None, data)


async def due_of(connection: Connection, expires_on: str) -> date:
    rows = await list_event_rules(connection)
    named = {(row.tenant, name) for row in rows if (name := calendar_name_of(row.document))}
    calendars = await CalendarCache().newest_versions(connection, named)
    rules = RulesInForce(await read_rules_version(connection), rows, calendars)
    assert rules.refused == []
    (meaning,) = rules.effects_of(event(expires_on)) or []
    assert isinstance(meaning.draft, ItemDraft)
    return meaning.draft.due_at.date()


@pytest.mark.usefixtures("rule")
async def test_a_rule_is_read_again_with_the_newest_version_of_its_calendar(
    put: Put, connection: Connection
) -> None:
    await put()
    before = await read_rules_version(connection)
    assert await due_of(connection, "2027-12-24") == date(2027, 12, 24)
    await put("2027-12-24")
    assert await read_rules_version(connection) != before
    assert await due_of(connection, "2027-12-24") == date(2027, 12, 27)
    with pytest.raises(InvalidEvent, match="calendar us ends on 2027-12-31"):
        await due_of(connection, "2028-01-03")


@pytest.mark.usefixtures("rule")
async def test_g11_an_event_is_expected_by_the_version_that_counted_when_it_came(
    put: Put, connection: Connection
) -> None:
    await put()
    between = await connection.fetchval("select clock_timestamp()")
    await put("2027-12-24")
    ((version,), failures) = await read_version_spans(connection)
    assert failures == []
    after = await connection.fetchval("select clock_timestamp()")
    holidays = [
        observance.calendar.holidays
        for at in (between, after)
        if (observance := version.definition_at(at).observance()) is not None
    ]
    assert holidays == [(), (date(2027, 12, 24),)]


@pytest.mark.usefixtures("rule")
async def test_a_rule_whose_calendar_is_not_there_is_refused_alone(connection: Connection) -> None:
    rules = RulesInForce(await read_rules_version(connection), await list_event_rules(connection))
    (refused,) = rules.refused
    assert "unknown calendar" in refused.reason
    versions, (failed,) = await read_version_spans(connection)
    assert versions == []
    assert "unknown calendar" in failed.reason
