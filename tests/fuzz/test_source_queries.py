"""Queries of sources, and their rows, that mean harm: read, or the source's failure."""

from contextlib import suppress
from datetime import date
from typing import Final

import pytest

from dueledger.ledger.store import Connection
from dueledger.reconciler.sources import EvidenceQuery, SourceFailed, SourceTotals
from dueledger.reconciler.sql_sources import SqlEvidence, SqlPopulation
from tests.fuzz.hostile_inputs import HostileInputs
from tests.fuzz.test_doors import COUNTS, find_faults, inputs_of

COLUMNS: Final[dict[str, str]] = {
    "tenant": "'acme'",
    "kind": "'K'",
    "business_key": "'P-1'",
    "cycle": "'1'",
    "effective_date": "date '2027-03-01'",
    "due_at": "timestamptz '2027-03-01'",
    "payload": "'{}'",
    "partition_key": "null",
}
VALUES: Final = (
    *("null", "1", "1.5::numeric", "'NaN'::numeric", "array['a']", "array[null]::text[]", "1/0"),
    *("'{}'::json", "'[1]'::jsonb", "row(1, 'a')", "'\\x00'::bytea", "'1'::bit(3)", "''", "x"),
    *("interval '178000000 years'", "point '(1,2)'", "int4range(1, 5)", "'10.0.0.1'::inet"),
    *("gen_random_uuid()", "current_user", "'a'::name", "'x'::char(5)", "repeat('x', 100000)"),
    *("chr(27) || '[31m'", "E'a\\x1fb'", "date '0044-03-15 BC'", "date 'infinity'", "now()"),
    *("timestamp '2027-03-01'", "timestamptz 'infinity'", "date '20000-01-01'", "time '24:00'"),
    *("'1'::oid", "'pg_class'::regclass", "'a b'::tsvector", "'2027-03-01'", "$1", "$1::text"),
    *("current_setting('no.such')", "(select 1 union select 2)", "'a';--", "'", "txid_current()"),
    *("pg_terminate_backend(pg_backend_pid())", "generate_series(1, 3)", "jsonpath '$'"),
)
QUERIES: Final = (
    *("", ";", "select", "select 1", "select 1; select 2", "begin", "commit", "set role none"),
    *(
        "update ledger.kind set name = 'K'",
        "copy (select 1) to stdout",
        "select 1 /*",
        "select 1 --",
    ),
    *("with x as (delete from ledger.kind returning *) select * from x", "values (1)", "vacuum"),
    *("select 1 as tenant, 2 as tenant", "listen x", "prepare p as select 1", "table ledger.kind"),
    *("do $$begin end$$", "explain select 1", "create temp table x as select 1"),
)


def _query(inputs: HostileInputs, columns: dict[str, str]) -> str:
    if inputs.random.randrange(5) == 0:
        return inputs.random.choice((*QUERIES, inputs.stored_text().replace("\0", "")))
    columns = dict(columns)
    for name in inputs.random.sample(list(columns), k=inputs.random.randrange(3)):
        columns[name] = inputs.random.choice(VALUES)
    return "select " + ", ".join(f"{value} as {name}" for name, value in columns.items())


async def _read(inputs: HostileInputs, dsn: str) -> None:
    if inputs.random.randrange(3):
        source = SqlPopulation(dsn, _query(inputs, COLUMNS))
        async for _ in source.read(SourceTotals()):
            pass
        return
    key = inputs.random.choice(("item_id", "business_key"))
    proof = SqlEvidence(
        dsn, _query(inputs, COLUMNS | {"reference": "1", key: "'P-1'"}), "acme", "K"
    )
    wanted = EvidenceQuery(bytes(16), "P-1", "1", date(2027, 3, 1))
    await proof.find_lacking([wanted], SourceTotals())


@pytest.mark.parametrize("count", COUNTS)
async def test_a_query_of_a_source_is_read_or_fails_it(
    database: str, connection: Connection, count: int
) -> None:
    async def read(number: int) -> None:
        with suppress(SourceFailed):
            await _read(inputs_of("query", number), database)

    assert await find_faults(read, count) == {}
    assert await connection.fetchval("select count(*) from ledger.kind") == 0
