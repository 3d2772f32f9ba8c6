"""Sources outside the ledger that have what no ledger can have, or more than a pass may read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, findings
from dueledger.reconciler import Reconciler, ReconcilerSources, SqlEvidence, SqlPopulation
from dueledger.reconciler.expect.build_expectation import build_expectation
from dueledger.reconciler.report.files import ReportFiles
from dueledger.reconciler.sources_file import load_sources

from .conftest import NOON

Make = Callable[..., Reconciler]

ROW = {
    "tenant": "'acme'",
    "kind": "'K'",
    "business_key": "'P-1'",
    "cycle": "'1'",
    "effective_date": "date '2027-03-01'",
    "due_at": "timestamptz '2027-03-01T00:00Z'",
    "payload": "'{}'",
}


def population(dsn: str, **changed: str) -> SqlPopulation:
    columns = ", ".join(f"{text} as {name}" for name, text in (ROW | changed).items())
    return SqlPopulation(dsn, f"select {columns} -- one row\n;", "policies", complete=True)


async def failures(connection: Connection) -> dict[str, str]:
    """Return the sentence of each source that failed."""
    rows: list[Any] = await findings.list_findings(connection, type_="SOURCE_FAILED")
    return {row["subject"]: row["sentence"] for row in rows}


IMPOSSIBLE_ROWS: Final = (
    ({"effective_date": "date '20000-01-01'"}, "a value cannot be read"),
    ({"effective_date": "date '0044-03-15 BC'"}, "a value cannot be read"),
    ({"effective_date": "date 'infinity'"}, "effective_date is outside 1970 to 2199"),
    ({"effective_date": "date '-infinity'"}, "effective_date is outside 1970 to 2199"),
    ({"effective_date": "date '1969-12-31'"}, "effective_date is outside 1970 to 2199"),
    ({"due_at": "timestamptz 'infinity'"}, "due_at is outside 1970 to 2199"),
    ({"due_at": "timestamptz '-infinity'"}, "due_at is outside 1970 to 2199"),
    ({"due_at": "timestamptz '0044-03-15 BC'"}, "a value cannot be read"),
    ({"due_at": "timestamptz '20000-01-01'"}, "a value cannot be read"),
    ({"due_at": "timestamp '20000-01-01'"}, "a value cannot be read"),
    ({"business_key": "repeat('k', 600)"}, "business_key is empty, or longer than 512"),
    ({"cycle": "repeat('c', 300)"}, "cycle is longer than 200"),
    ({"payload": "repeat('[', 100000) || repeat(']', 100000)"}, "payload is not JSON, or too"),
    ({"payload": "'{'"}, "payload is not JSON"),
    ({"payload": "to_json(repeat('x', 300000))::text"}, "payload is over 256 KiB"),
    ({"cycle": "1 / 0"}, "division by zero"),
    ({"tenant": "''"}, "tenant '' is empty, longer than 100 characters, or has others than A-Z"),
    ({"tenant": r"E'acme\x1b[31m'"}, "is empty, longer than 100"),
    ({"tenant": "'[/x]'"}, "is empty, longer than 100"),
    ({"tenant": r"E'acme\n'"}, "is empty, longer than 100"),
    ({"tenant": r"E'a\x1fb'"}, "is empty, longer than 100"),
    ({"kind": "repeat('k', 10000)"}, "is empty, longer than 100"),
    ({"kind": "U&'\\00e9'"}, "is empty, longer than 100"),
    ({"partition_key": "''"}, "partition_key is empty, or longer than 512"),
    ({"partition_key": "repeat('p', 600)"}, "partition_key is empty, or longer than 512"),
)
BAD_ADDRESSES: Final = (
    "postgresql://u:hunter2@" + "h" * 80 + "/x",
    "postgresql://u:hunter2@h:port/x",
)


async def test_g11_each_source_that_cannot_be_read_is_a_finding_of_its_own(
    frozen: Connection, make_reconciler: Make, database: str
) -> None:
    populations = [
        *(population(database, **changed) for changed, _ in IMPOSSIBLE_ROWS),
        *(population(address) for address in BAD_ADDRESSES),
        population(database),
    ]
    named = [replace(one, name=f"source-{place}") for place, one in enumerate(populations)]
    result = await make_reconciler(ReconcilerSources(tuple(named))).run_pass()
    found = await failures(frozen)
    assert result.found == {FindingType.SOURCE_FAILED: len(named) - 1, FindingType.MISSING: 1}
    for place, (_, reason) in enumerate(IMPOSSIBLE_ROWS):
        assert reason in found[f"source-{place}"]
    assert "hunter2" not in str(found)
    assert {mark.complete_before for mark in result.watermarks} == {None}


async def test_g11_columns_that_are_not_asked_for_are_not_read(
    frozen: Connection, make_reconciler: Make, database: str
) -> None:
    beside = population(database, oldest="date '4000-01-01 BC'")
    result = await make_reconciler(ReconcilerSources((beside,))).run_pass()
    assert result.found == {FindingType.MISSING: 1}
    assert len(await findings.list_findings(frozen)) == 1


async def test_g11_text_that_is_not_utf8_is_the_finding_of_its_source(
    frozen: Connection, make_reconciler: Make, database: str
) -> None:
    name = "not_utf8"
    admin = await asyncpg.connect(database)
    await admin.execute(
        f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0"
    )
    dsn = database.rpartition("/")[0] + f"/{name}"
    try:
        await _fill_raw(dsn)
        away = SqlPopulation(dsn, "select * from raw", "policies")
        proof = SqlEvidence(dsn, "select * from raw", "acme", "K", "proof")
        result = await make_reconciler(ReconcilerSources((away,), (proof,))).run_pass()
    finally:
        await admin.execute(f"drop database {name} with (force)")
        await admin.close()
    assert result.found == {FindingType.SOURCE_FAILED: 1}
    assert "invalid byte sequence" in str(await failures(frozen))


async def _fill_raw(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    await raw.execute(
        "create table raw as select text 'acme' as tenant, text 'K' as kind, text '1' as cycle,"
        " date '2027-03-01' as effective_date, now() as due_at, convert_from('\\xff', 'SQL_ASCII')"
        " as business_key, text 'x' as reference"
    )
    await raw.close()


async def test_g11_a_population_beyond_its_bounds_counts_as_not_read(
    frozen: Connection, make_reconciler: Make, database: str
) -> None:
    query = population(database, business_key="'P-' || n").query
    many = query.replace("-- one row", "from generate_series(1, 1000) n -- many")
    policies = replace(population(database), query=many)
    long, large = (
        replace(policies, name="long", rows_max=250),
        replace(policies, name="large", bytes_max=5_000),
    )
    result = await make_reconciler(ReconcilerSources((long, large))).run_pass()
    assert result.found[FindingType.SOURCE_FAILED] == 2
    found = await failures(frozen)
    assert "more than the 250 rows that `rows_max` allows" in found["long"]
    assert "more than the 5,000 bytes that `bytes_max` allows" in found["large"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[" * 200_000,
        b"sources: " + b"[" * 100 + b"]" * 100,
        b"sources: [{population: 2027-13-45}]",
        b"sources: 5",
        b"- &a [*a]",
        b"\x00",
        b"sources: !!python/object:os.system []",
        b"sources: [" + b"0," * 30_000 + b"]",
    ],
)
def test_a_file_of_sources_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "sources.yaml"
    file.write_bytes(content)
    with pytest.raises(InvalidSetting, match="file of sources"):
        load_sources(file)


@pytest.mark.parametrize(
    ("source", "field", "accepted"),
    [
        ("population: p, dsn: a, qurey: b, query: c", "sources.0", "query"),
        ("evidence: p, dsn: a, query: b, kind: K, tenat: acme", "sources.0.tenant", None),
        ("population: p, 'postgresql://u:hunter2@h/x': a", "sources.0.query", None),
        ("population: p, dsn: [hunter2], query: b", "sources.0.dsn", None),
    ],
)
def test_an_unknown_field_of_a_source_is_not_shown(
    tmp_path: Path, source: str, field: str, accepted: str | None
) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(f"sources: [{{{source}}}]")
    with pytest.raises(InvalidSetting) as refused:
        load_sources(file)
    assert (field, accepted) in {(each.field, each.accepted) for each in refused.value.problems}
    assert not any(word in str(refused.value) for word in ("hunter2", "qurey", "tenat"))


async def test_a_report_is_for_its_owner_alone(
    frozen: Connection,  # noqa: ARG001 - the ledger that is reconciled
    make_reconciler: Make,
    tmp_path: Path,
) -> None:
    reconciler = make_reconciler()
    result = await reconciler.run_pass()
    files = ReportFiles.of(tmp_path, result)
    files.json.write_text("an earlier one")
    files.json.chmod(0o644)
    report = await reconciler.report(directory=tmp_path)
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 4
    assert files.json.read_bytes() == report.as_json()


async def test_payloads_of_a_population_wait_in_memory_only_up_to_their_bound(
    frozen: Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueledger.reconciler.expect.spool._BUFFERED_CHARS_MAX", 1_000_000)
    large = population(
        database,
        business_key="'P-' || generate_series(1, 9)",
        payload="to_json(repeat('x', 250000))::text",
    )
    async with build_expectation(frozen, [large], NOON) as expectation:
        assert sum(expectation.spool.counts.values()) == 9
        assert expectation.spool.buffered_count == 1, "two blocks of four rows are in its file"
