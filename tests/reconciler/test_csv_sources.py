"""Populations and evidence in CSV files: read as queries are, and believed wholly or not at all."""

import csv
import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pytest

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, load_sources
from dueledger.reconciler.csv_sources import CsvEvidence, CsvPopulation
from dueledger.reconciler.sources import PopulationBounds, SourceFailed, SourceTotals

from .conftest import NOON, mend

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]

COLUMNS: Final = ("tenant", "kind", "business_key", "cycle", "effective_date", "due_at", "payload")
HEADER: Final = b"tenant,kind,business_key,cycle,effective_date,due_at,note\r\n"
ROW: Final = b"acme,K,P-%d,1,2027-03-01,2027-03-01T09:00:00+01:00,\r\n"
ROWS: Final = ROW % 1 + ROW % 2 + ROW % 3
SOURCES: Final = """
sources:
  - population: policies
    tenant: acme
    kinds: [{kind}]
    complete: true
    csv: policies.csv
  - evidence: bookings
    tenant: acme
    kind: {kind}
    complete: true
    csv: bookings.csv
"""


def write_policies(file: Path, drafts: Sequence[ItemDraft]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow((*COLUMNS, "a note"))
        writer.writerows(
            [
                *(str(getattr(draft, name) or "") for name in COLUMNS),
                'with "quotes",\r\nand lines',
            ]
            for draft in drafts
        )


async def test_g11_files_name_what_is_owed_and_prove_what_happened(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Callable[..., Awaitable[None]],
    kind: str,
    actor_no: int,
    tmp_path: Path,
) -> None:
    drafts = make_drafts(4, due_at=NOON)
    write_policies(tmp_path / "policies.csv", drafts)
    bookings = tmp_path / "bookings.csv"
    bookings.write_text(f"item_id,reference\n{drafts[1].id},B-1\n{drafts[2].id},\n")
    file = tmp_path / "sources.yaml"
    file.write_text(SOURCES.format(kind=kind))
    await emit_items(frozen, drafts[1:3], actor_no=actor_no)
    await complete_all()
    reconciler = make_reconciler(load_sources(file))

    result = await reconciler.run_pass()

    assert result.found == {FindingType.MISSING: 2, FindingType.EFFECT_MISSING: 1}
    read = {each.name: each for each in result.sources}
    content = (tmp_path / "policies.csv").read_bytes()
    assert (read["policies"].origin, read["policies"].extract.row_count) == ("csv", 4)
    assert read["policies"].extract.digest == hashlib.sha256(content).hexdigest()
    assert [
        row["query_digest"]
        for row in await frozen.fetch(
            "select query_digest from ledger.population where name = 'policies'"
        )
    ] == [hashlib.sha256(content).hexdigest()]
    report = await reconciler.report()
    assert {row.query_digest for row in report.sources if row.name == "bookings"} == {
        hashlib.sha256(bookings.read_bytes()).hexdigest()
    }

    # An effect of an item that is missing, and one twice; then a pass reads the file anew.
    with bookings.open("a") as opened:
        opened.write(f"{drafts[3].id},B-3\n{drafts[2].id},B-2\n{drafts[2].id},B-2\n")
    assert (await reconciler.run_pass()).found == {
        FindingType.MISSING: 2,
        FindingType.EFFECT_UNRECORDED: 1,
        FindingType.EFFECT_REPEATED: 1,
    }
    await mend(reconciler)
    payloads = await frozen.fetch("select distinct payload::text as payload from ledger.due_item")
    assert [row["payload"] for row in payloads] == [drafts[0].payload]


BROKEN: Final = (
    (HEADER + ROWS + b"acme,K,P-4", "row 4 has 3 fields and the header 7: its file is cut off"),
    (HEADER + ROWS + b'acme,K,"P-4,1,2027-03-01\r\n', "is not CSV, or cut off"),
    (HEADER + ROWS + b'acme,K,P"4",1\r\n', "row 4 has 4 fields"),
    (HEADER + ROWS + b"acme,K,P-4,1,2027-03-01,2027-03-,", "in 1 due_at is not a timestamp"),
    (HEADER + ROWS + ROW.replace(b"+01:00", b"") % 4, "due_at is not a timestamp with time zone"),
    (HEADER + ROWS + ROW.replace(b"2027-03-01,", b"1.3.2027,") % 4, "effective_date is not a date"),
    (HEADER + ROWS + ROW.replace(b"P-%d", b""), "business_key is null"),
    (HEADER + ROWS + ROW.replace(b"acme", b"umbra") % 4, "a row is 'K' of 'umbra'"),
    (HEADER + ROWS + ROW.replace(b"K", b"Other") % 4, "a row is 'Other' of 'acme'"),
    (HEADER + ROWS + ROW.replace(b"P-%d", b"\xff"), "is not UTF-8"),
    (HEADER + ROWS + ROW.replace(b"P-%d", b"P" * 2_000_000), "field larger than field limit"),
    (HEADER.replace(b"due_at", b"due") + ROWS, "its rows lack due_at"),
    (HEADER.replace(b"note", b"kind") + ROWS, "two of its columns have one name"),
    (HEADER + ROWS + ROW % 3, "1 of its rows repeat another, as that of 'P-3'"),
    (HEADER + ROWS + ROW % 4 + ROW % 5 + ROW % 6, "more than the 5 rows that `rows_max` allows"),
    (HEADER, "it has 0 rows, fewer than the 1"),
    (b"", "its rows lack business_key"),
)


async def test_g11_a_file_that_is_broken_fails_its_source_and_nothing_is_concluded(
    frozen: Connection, make_reconciler: Make, tmp_path: Path
) -> None:
    whole = CsvPopulation(
        tmp_path / "whole.csv",
        "whole",
        tenant="acme",
        kinds=frozenset({"K"}),
        rows_max=5,
        bounds=PopulationBounds(rows_min=1, skipped_max=0),
    )
    whole.path.write_bytes(b"\xef\xbb\xbf" + HEADER + ROWS + b"\r\n")
    populations = [whole]
    for place, (content, _) in enumerate(BROKEN):
        populations.append(replace(whole, name=f"{place}", path=tmp_path / f"{place}.csv"))
        populations[-1].path.write_bytes(content)
    os.mkfifo(tmp_path / "fifo")
    for name, path in (("fifo", tmp_path / "fifo"), ("absent", tmp_path / "absent")):
        populations.append(replace(whole, name=name, path=path))
    populations.append(replace(whole, name="large", bytes_max=100))

    result = await make_reconciler(ReconcilerSources(tuple(populations))).run_pass()

    assert result.found == {FindingType.SOURCE_FAILED: len(BROKEN) + 3, FindingType.MISSING: 3}
    rows = await findings.list_findings(frozen)
    sentences = {row["subject"]: row["sentence"] for row in rows}
    for place, (_, reason) in enumerate(BROKEN):
        assert reason in sentences[str(place)]
    assert "it is not a file" in sentences["fifo"]
    assert "No such file" in sentences["absent"]
    assert "more than the 100 bytes that `bytes_max`" in sentences["large"]


async def test_a_file_says_which_items_have_ended(tmp_path: Path) -> None:
    file = tmp_path / "policies.csv"
    header, row = HEADER.replace(b"note", b"ended"), ROW.replace(b",\r", b",%s\r")
    population = CsvPopulation(file, "policies", tenant="acme", kinds=frozenset({"K"}))
    values = (b"true", b"false", b"", b"yes")
    file.write_bytes(header + b"".join(row % each for each in enumerate(values, 1)))
    extract = SourceTotals()

    rows = [each async for read in population.read(extract) for each in read]

    assert [each.ended for each in rows] == [True, False, False]
    assert extract.skipped == {"ended is not true or false": 1}


@pytest.mark.parametrize("change", ["append", "replace"])
async def test_g11_a_file_that_changes_while_it_is_read_fails(tmp_path: Path, change: str) -> None:
    population = CsvPopulation(tmp_path / "p.csv", "p", tenant="acme", kinds=frozenset({"K"}))
    population.path.write_bytes(HEADER + ROWS)
    reading = aiter(population.read(SourceTotals()))
    assert len(await anext(reading)) == 3
    if change == "append":
        with population.path.open("ab") as opened:
            opened.write(ROW % 4)
    else:
        (tmp_path / "new.csv").write_bytes(HEADER + ROWS)
        (tmp_path / "new.csv").replace(population.path)
    with pytest.raises(SourceFailed, match="changed while it was read"):
        await anext(reading)


async def test_effects_in_a_file_are_listed_by_key_and_those_of_a_range_of_dates(
    tmp_path: Path,
) -> None:
    file = tmp_path / "e.csv"
    file.write_text(
        "business_key,effective_date,reference\n"
        "P-1,2027-03-01,B-2\nP-1,2027-03-01,B-1\nP-2,2027-04-01,B-3\nP-3,2027-04-01,\n"
    )
    evidence = CsvEvidence(file, "acme", "K")
    march = date(2027, 3, 1)
    totals = SourceTotals()

    listed = [
        (each.business_key, each.effective_date, each.count, each.reference)
        async for effects in evidence.list_effects(totals, march, march + timedelta(days=31))
        for each in effects
    ]

    assert listed == [("P-1", march, 2, "B-1")]
    assert (totals.row_count, totals.skipped) == (3, {})
    file.write_text("business_key,effective_date,reference\nP-1,March,B-1\n")
    await evidence.find_lacking([], totals)
    assert totals.skipped.total() == 1
    with pytest.raises(SourceFailed, match="cannot be used"):
        await replace(evidence, bounds=PopulationBounds(skipped_max=0)).find_lacking([], totals)


@pytest.mark.parametrize("given", ["csv: p.csv, query: select 1", "csv: p.csv, dsn: x", "dsn: x"])
def test_a_source_is_a_file_or_a_query_with_its_address(tmp_path: Path, given: str) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(f"sources: [{{population: p, tenant: acme, kinds: [K], {given}}}]")
    with pytest.raises(InvalidSetting, match="csv"):
        load_sources(file)
