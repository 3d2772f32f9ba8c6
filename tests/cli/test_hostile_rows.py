"""Commands that read back rows whose every text means harm: shown as text, or refused."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.store import Connection
from dueledger.stack import Endpoints
from tests.fuzz.hostile_inputs import HostileInputs, encoded
from tests.fuzz.test_doors import SCHEDULE, inputs_of, numbers
from tests.hostile_text import unsafe_characters

from .conftest import Given, Ran, RunAll

ROWS: Final = """
insert into ledger.actor (name, kind)
select 'person:' || text || n, 'person' from unnest($1::text[]) with ordinality t (text, n);
select ledger.emit('acme', 'K', n || left(text, 500), '2027-03-01', '2026-01-01',
  json_build_object(text, text), left(text, 200), left(text, 90), left(n || text, 512),
  jsonb_build_object(left(text, 100), left(text, 100)))
from unnest($1::text[]) with ordinality t (text, n);
update ledger.flow set paused_at = now(), pause_reason = lane, paused_by = 1;
insert into ledger.pause (tenant, kind, lane, paused_at, actor_no, reason)
select n || text, text, text, now(), 1 + n, text
from unnest($1::text[]) with ordinality t (text, n);
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select item_no, effective_date, flow_no, now(), 1, 1, business_key, actor_no
from ledger.due_item where item_no % 3 = 0;
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
select effective_date, item_no, 11, 1, 2, now(),
  jsonb_build_object('reason', business_key, business_key, payload)
from ledger.due_item where item_no % 3 = 1;
delete from ledger.pending where item_no % 3 < 2;
insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, detail)
select now(), 1 + n, text, text, jsonb_build_object(text, text)
from unnest($1::text[]) with ordinality t (text, n);
insert into ledger.failure_streak (flow_no, business_key, failures, first_at, last_at, reason)
select 1, n || text, 9, now(), now(), text from unnest($1::text[]) with ordinality t (text, n);
insert into ledger.reconciliation (started_at, as_of, actor_no, scope)
values (now(), now(), 1, '{}');
insert into ledger.population
  (reconciliation_no, name, origin, extracted_at, duration_seconds, row_count, skipped_count,
  hash_total, failure)
select 1, text, 'sql', now(), 1, 1, 1, 1, text from unnest($1::text[]) t (text);
insert into ledger.finding
  (id, type, severity, tenant, kind, subject, business_key, sentence, expected, actual, terms,
  first_seen_at, last_seen_at, reconciliation_no, resolution, reason)
select gen_random_uuid(), 'ORPHAN_RECORD', 'error', text, text, text, text, text,
  jsonb_build_object(text, text), to_jsonb(text), jsonb_build_array(text), now(), now(), 1,
  'open', text
from unnest($1::text[]) t (text);
insert into ledger.calendar
  (tenant, name, version, document, valid_to, created_at, actor_no, source)
select text, text, n, jsonb_build_object('first_day', '2027-01-01', 'last_day', '2027-12-31',
  'weekend', '[]'::jsonb, 'workdays', '[]'::jsonb, 'holidays', '["2027-01-01"]'::jsonb,
  'names', jsonb_build_object('2027-01-01', text)), '2027-12-31', now(), 1 + n, text
from unnest($1::text[]) with ordinality t (text, n);
insert into ledger.tz_change (change_no, digest, tzdata, tzdata_before, opened_at, actor_no)
select n, text, text, array[text], now(), 1 + n
from unnest($1::text[]) with ordinality t (text, n);
"""
LISTS: Final[tuple[tuple[str, ...], ...]] = (
    ("define", "all.json", "--effective-from", "2027-01-01"),
    *(("items", "--limit", "10000"), ("findings", "--limit", "10000"), ("reviews",), ("rejected",)),
    *(("status",), ("items", "--late"), ("findings", "--summary")),
    *(("failing",), ("flow", "list"), ("flow", "pauses"), ("definitions",), ("calendar", "list")),
    *(("materialise", "--check-tz", "--history"), ("plan",)),
    ("reconcile", "--once", "--report", "report"),
)
DAILY: Final[dict[str, Any]] = SCHEDULE | {"when": {"cron": "0 6 * * *", "timezone": "UTC"}}
NAMED_ONE_IN: Final = 300
DEFINED_ONE_IN: Final = 10


def _text(inputs: HostileInputs) -> str:
    """Return a text that a row can have."""
    return inputs.stored_text().replace("\0", "").replace("\x1f", "\x1e")


def _definitions(texts: Sequence[str]) -> bytes:
    """Return definitions that have the texts wherever they may."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        document: dict[str, Any] = DAILY | {
            "definition": text[:200],
            "business_key": text,
            "payload": [text],
        }
        with suppress(InvalidDefinition):
            found.setdefault(parse_definition(document).definition, document)
    return encoded(list(found.values()))


def _fault(ran: Ran) -> str | None:
    if ran.code not in {0, 1, 2, 4} or "Traceback" in ran.out + ran.err:
        return f"{ran.code}: {(ran.out + ran.err)[-1_000:]}"
    if unsafe := unsafe_characters(ran.out + ran.err):
        return f"shows {unsafe}"
    return None if ran.out or ran.err else "shows nothing"


@pytest.mark.damages
@pytest.mark.parametrize("count", [60, pytest.param(3_000, marks=pytest.mark.full)])
async def test_rows_that_mean_harm_are_shown_as_text(
    run_all: RunAll,
    database: str,
    connection: Connection,
    stack: Endpoints,
    tmp_path: Path,
    count: int,
) -> None:
    texts = [_text(inputs_of("row", number)) for number in numbers(count)]
    for statement in ROWS.strip().removesuffix(";").split(";\n"):
        await connection.fetch(statement, *([texts] if "$1" in statement else []))
    (tmp_path / "all.json").write_bytes(_definitions(texts[::DEFINED_ONE_IN]))
    shows = [
        (*command, f"{number + 1}{text[:500]}")
        for number, text in enumerate(texts)
        for command in (("show",), ("why",))
        if number % NAMED_ONE_IN == 0
    ]
    variables = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    given = [
        Given((*command, *form), variables, tmp_path)
        for command in (*LISTS, *shows)
        for form in ((), ("--json",))
    ]
    faults = {
        one.arguments: fault
        for one, ran in zip(given, run_all(given), strict=True)
        if (fault := _fault(ran))
    }
    assert faults == {}
    for page in (tmp_path / "report").iterdir():
        assert unsafe_characters(page.read_text(encoding="utf-8")) == set()
        assert page.suffix != ".html" or "<script>" not in page.read_text(encoding="utf-8")
