"""Statements open the table partitions of their own claims and runs, and no others.

An index scan that finds nothing is cheap, but a statement opens each of its scans before it begins:
with 84 months each start and settlement took four times as long.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import parse_statement, statement_paths

PARTITION_KEYS = {
    "claim": "claimed_at",
    "run": "started_at",
    "due_item": "effective_date",
    "transition": "effective_date",
    "event": "occurred_at",
}
WAITS = re.compile(r"\b(?:update ledger\.|delete from ledger\.|for update)")
PATHS = {path.stem: path for path in statement_paths()}
VALUES = {
    "bigint": "1",
    "integer": "1",
    "smallint": "5",
    "boolean": "false",
    "double precision": "60",
    "date": "'2027-03-01'",
    "text": "'00c0ffee00c0ffee'",
    "uuid": "'0b8f7f1e-2f53-8c1d-9a64-5b3a0c9d7e21'",
    "bit varying": "b'1'",
}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in (*plan.get("Plans", ()), *plan.get("Target Tables", ())):
        yield from _nodes(child)


async def _opened(connection: Connection, name: str) -> set[str]:
    """Return the partitions that the generic plan has left once its parameters are known."""
    parsed = parse_statement(PATHS[name])
    now = f"'{await connection.fetchval('select ledger.now()')}'"
    values = VALUES | {"timestamptz": now}
    arguments = [
        f"array[{values[each.type_name[:-2]]}]::{each.type_name}"
        if each.type_name.endswith("[]")
        else f"{values[each.type_name]}::{each.type_name}"
        for each in parsed.parameters
    ]
    await connection.execute(f"prepare pruned as {parsed.text}")
    explained = await connection.fetchval(
        f"explain (format json) execute pruned({', '.join(arguments)})"
    )
    await connection.execute("deallocate pruned")
    (plan,) = orjson.loads(explained) if isinstance(explained, str) else explained
    return {node["Relation Name"] for node in _nodes(plan["Plan"]) if "Relation Name" in node}


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("start_runs", {"claim"}),
        ("start_plain_runs", {"claim"}),
        ("settle_runs", {"claim", "run"}),
        ("settle_completed_runs", {"claim", "run"}),
        ("settle_completed_run", {"claim", "run"}),
        ("reap_claims", {"claim"}),
        ("reap_runs", {"claim", "run"}),
        ("extend_leases", {"run"}),
        ("mark_published", {"claim", "run"}),
        ("release_claims", {"claim"}),
        ("start_topic_runs", {"claim"}),
        ("lock_topic_runs", {"claim"}),
        ("find_outcome_targets", {"claim"}),
    ],
)
async def test_a_statement_opens_the_partition_of_its_claims_and_no_other(
    connection: Connection, name: str, tables: set[str]
) -> None:
    month = await connection.fetchval("select to_char(ledger.now() at time zone 'UTC', 'YYYYMM')")
    partitions = await connection.fetchval(
        "select count(*) from ledger.partition_span where parent = any ($1::text[])", list(tables)
    )
    assert partitions > len(tables), "there is nothing to prune"

    opened = await _opened(connection, name)

    of_tables = {each for each in opened if each.rpartition("_")[0] in tables}
    assert of_tables == {f"{table}_{month}" for table in tables}


@pytest.mark.parametrize(
    "name",
    [
        "claim_items",
        "claim_serial_items",
        "claim_and_start_items",
        "release_claims",
        "reap_claims",
        "start_topic_runs",
        "find_outcome_targets",
        "item_timeline",
    ],
)
async def test_a_statement_opens_no_month_of_items_that_it_does_not_know(
    connection: Connection, name: str
) -> None:
    """Its arguments name an item of the year 4044; months of others are read by functions."""
    assert await connection.fetchval(
        "select count(*) from ledger.partition_span where parent = 'due_item'"
    )
    opened = await _opened(connection, name)
    assert not {each for each in opened if re.fullmatch(r"(?:due_item|transition)_\d+", each)}


async def test_the_partition_keys_are_those_of_the_tables(connection: Connection) -> None:
    rows = await connection.fetch(
        "select c.relname as name, a.attname as key from pg_partitioned_table p"
        " join pg_class c on c.oid = p.partrelid"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum = p.partattrs[0]"
    )
    assert {row["name"]: row["key"] for row in rows} == PARTITION_KEYS


def test_where_a_lock_may_be_waited_for_a_partition_key_has_no_equality_beside_a_bound() -> None:
    """With both, PostgreSQL 18 misses rows after it waited for another's lock (adr/0012)."""
    waiting = {
        name: code
        for name, path in PATHS.items()
        if WAITS.search(code := re.sub(r"--.*", "", path.read_text()))
    }
    assert waiting
    faults = [
        f"{name}: {alias}.{key}: write `is not distinct from`"
        for name, code in waiting.items()
        for table, key in PARTITION_KEYS.items()
        for alias in set(re.findall(rf"\bledger\.{table} (?:as )?(\w+)", code))
        if _has_equality_beside_a_bound(code, rf"\b{alias}\.{key}")
    ]
    assert faults == []


def _has_equality_beside_a_bound(code: str, column: str) -> bool:
    bound = re.search(rf"{column} (?:between|[<>]=?) ", code)
    equality = re.search(rf"{column} (?:=|in) |= {column}\b|{column}[^()]*\) in ", code)
    return bool(bound and equality)
