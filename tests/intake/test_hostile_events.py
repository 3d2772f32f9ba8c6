"""Events that mean harm are recorded or rejected, and leave nothing half-written."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from dueledger.ledger.intake.event_recorder import EventRecorder
from dueledger.ledger.kafka.rejects import ConsumedRecord
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.items import read_accounting
from tests.fuzz.hostile_inputs import encoded
from tests.fuzz.test_doors import (
    COUNTS,
    EVENT,
    EVENT_DATA,
    RULE,
    event_record,
    find_faults,
    inputs_of,
)

ROWS: Final = """
select array[
  (select count(*) from ledger.event), (select count(*) from ledger.event_key),
  (select count(*) from ledger.event where matched), (select count(*) from ledger.due_item),
  (select count(*) from ledger.pending), (select count(*) from ledger.transition),
  (select count(*) from ledger.event_other_key), (select count(*) from ledger.withdrawal),
  (select count(*) from ledger.kind), (select count(*) from ledger.flow)]
"""
OWED: Final = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
"""The rows that an event which owes an item adds."""


def _event(name: str) -> dict[str, Any]:
    return EVENT | {"id": name, "data": EVENT_DATA | {"policy_number": name}}


def _record(headers: list[tuple[str, bytes | None]], value: bytes) -> ConsumedRecord:
    return ConsumedRecord("domain-events", 0, 0, None, value, headers)


@pytest.mark.parametrize("count", COUNTS)
async def test_a_hostile_event_is_recorded_or_leaves_no_row_and_the_one_beside_it_is_owed(
    pool: Pool,
    connection: Connection,
    actor_no: int,
    set_rule: Callable[[Mapping[str, Any]], Awaitable[int]],
    count: int,
) -> None:
    await set_rule(RULE)
    recorder = EventRecorder(pool, actor_no=actor_no)
    structured: list[tuple[str, bytes | None]] = [("content-type", b"application/cloudevents+json")]
    await recorder.record([_record(structured, encoded(_event("first")))])  # makes the flow
    before, attempts = await connection.fetchval(ROWS), 0

    async def record(number: int) -> None:
        nonlocal before, attempts
        attempts += 1
        hostile = _record(*event_record(inputs_of("event", number), _event(f"P-{number}")))
        good = _record(structured, encoded(_event(f"good-{attempts}")))
        result = await recorder.record([hostile, good])
        after = await connection.fetchval(ROWS)
        added = [new - old for new, old in zip(after, before, strict=True)]
        before = after
        assert result.events + len(result.rejected) == 2
        assert all(one.record is hostile for one in result.rejected)
        if result.rejected:
            assert added == OWED
        else:
            events, emitted = result.events - result.duplicates, result.emitted
            assert added[:2] == [events, events]
            assert added[3:5] == [emitted + result.skipped, emitted - result.withdrawn]
            assert added[5] == result.skipped + result.withdrawn + result.revised

    assert await find_faults(record, count) == {}
    for account in await read_accounting(connection):
        assert account.difference == 0, account
