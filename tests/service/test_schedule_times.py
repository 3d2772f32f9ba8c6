"""What schedules owe next: kept while it holds, and right at each instant."""

from datetime import UTC, datetime, timedelta

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.preview.occurrences import preview_definition
from dueledger.service.schedule_times import ScheduleTimes
from tests.console.test_schedules import NIGHTLY

BEGINS = datetime(2027, 3, 27, tzinfo=UTC)
STEPS = [timedelta(minutes=45 * number) for number in range(100)]
STEPS_BACK = [*STEPS[::-9], timedelta(days=900), timedelta()]


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/5 7-9 * * *", "0 0 29 2 *"])
async def test_the_next_time_is_that_of_each_instant_whatever_was_asked_before(cron: str) -> None:
    when = {"cron": cron, "timezone": "Europe/Berlin"}
    definition = parse_definition({"tenant": "acme", "definition": "d", **NIGHTLY, "when": when})
    times = ScheduleTimes()
    for step in (*STEPS, *STEPS_BACK):
        since = BEGINS + step
        window = preview_definition(
            definition, since=since, until=None, effective_date=None, count=1
        )
        [due_at] = await times.next_due([(definition, since)])
        assert due_at == window.occurrences[0].due_at
        assert await times.next_due([(definition, window.occurrences[0].due_at)]) == [due_at]


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/5 7-9 * * *", "0 9 1 * *"])
async def test_the_last_time_is_that_before_each_instant_whatever_was_asked_before(
    cron: str,
) -> None:
    when = {"cron": cron, "timezone": "Europe/Berlin"}
    definition = parse_definition({"tenant": "acme", "definition": "d", **NIGHTLY, "when": when})
    times = ScheduleTimes()
    start = BEGINS - timedelta(days=40)
    for step in (*STEPS, *STEPS[::-9]):
        now = BEGINS + step
        window = preview_definition(definition, since=start, until=now, effective_date=None)
        expected = window.occurrences[-1].due_at
        assert await times.last_due([(definition, start)], now) == [expected]
        assert await times.last_due([(definition, expected)], now) == [expected]
        after = expected + timedelta(minutes=1)
        assert await times.last_due([(definition, after)], max(now, after)) == [None]
