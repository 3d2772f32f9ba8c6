"""A start and a settlement open the table partitions of their own claims, and no others.

An index scan that finds nothing is cheap, but a statement opens each of its scans before it begins:
with 84 months each start and settlement took four times as long.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import parse_statement, statement_paths

PATHS = {path.stem: path for path in statement_paths()}
VALUES = {
    "bigint": "1",
    "integer": "1",
    "smallint": "5",
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
        ("settle_runs", {"claim", "run"}),
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
