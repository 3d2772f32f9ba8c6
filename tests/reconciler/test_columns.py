"""The comparison in columns: what it finds, on two engines, and what it may leave out."""

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dueledger.reconciler.columns.engine import comparison_statement
from dueledger.reconciler.columns.fixed_width import (
    RowLayout,
    UnexpectedCopy,
    array_elements,
    repeated,
)
from dueledger.reconciler.columns.terms import NO_INSTANT, all_mixed, double_bits, mixed

TABLES = {
    "expected": "high low day kind due terms definition event payload start_by complete_by"
    " is_asserted is_plain is_repeated",
    "item": "high low day item_no flow due start_by complete_by emitted definition event key terms"
    " payload is_named",
    "ending": "day item_no event ended_at is_repeated",
    "place": "item_no",
    "flow": "flow kind grace is_single needs_evidence",
    "moment": "as_of",
}
AS_OF = 1_000
ABSENT = -(2**63)
VALUES = (-1, 0, 1, 5, 7, 8, 9, 11, 90, 140, 999, 1_001, 9_000, ABSENT)
DIFFERENCES = [2**place for place in range(14)]

Rows = dict[str, list[dict[str, int]]]


def right_rows(count: int) -> Rows:
    """Return tables of items that are right: even ones ended, of three schedules and one event."""
    rows: Rows = {name: [] for name in TABLES}
    rows["moment"] = [{"as_of": AS_OF}]
    rows["flow"] = [
        {"flow": 7, "kind": 1, "grace": 50, "is_single": 0, "needs_evidence": 0},
        {"flow": 8, "kind": 2, "grace": 50, "is_single": 1, "needs_evidence": 0},
        {"flow": 9, "kind": 3, "grace": 50, "is_single": 0, "needs_evidence": 1},
    ]
    for n in range(count):
        ended = n % 2 == 0
        due = 100 + n % 50 if ended else 2_000 + n
        identity = {"high": n % 5 - 2, "low": n * 7_919 - 10_000, "day": n % 30}
        terms = {"due": due, "terms": n * 31, "definition": n % 3, "event": -1}
        outside = {"payload": -1, "start_by": -1, "complete_by": -1, "is_asserted": 0}
        if n % 3 == 0:  # a population alone names it
            outside = {"payload": n, "start_by": ABSENT, "complete_by": 9_000, "is_asserted": 1}
            terms |= {"definition": -1}
        own = {"kind": 1, "is_plain": 1}
        rows["expected"].append({**identity, **terms, **outside, **own})
        place = {"item_no": n, "flow": 7, "key": n % 11, "payload": n, "start_by": ABSENT}
        times = {"complete_by": ABSENT if n % 3 else 9_000, "emitted": 10}
        rows["item"].append({**identity, **terms, **place, **times, "is_named": 1})
        if ended:
            rows["ending"].append({"day": n % 30, "item_no": n, "event": 5, "ended_at": due + 5})
        else:
            rows["place"].append({"item_no": n})
    return repeats_shown(rows)


def repeats_shown(rows: Rows) -> Rows:
    """Return tables that say which of their rows are not alone."""
    for name, column in (("expected", "low"), ("ending", "item_no")):
        shown = repeated(np.array([row[column] for row in rows[name]], dtype=np.int64))
        for row, is_repeated in zip(rows[name], shown.tolist(), strict=True):
            row["is_repeated"] = is_repeated
    return rows


def damaged(count: int, seed: int) -> Rows:
    """Return such tables with many random edits of every column."""
    chance, rows = random.Random(seed), right_rows(count)  # noqa: S311 - a seed names the case
    for name in ("expected", "item", "ending", "place"):
        for _ in range(count // 10):
            table = rows[name]
            at = chance.randrange(len(table))
            edit = chance.randrange(4)
            if edit == 0:
                del table[at]
            elif edit == 1:
                table.append(dict(table[at]))
            else:
                column = chance.choice(list(table[at]))
                values = (0, 1) if column.startswith("is_") else VALUES
                table[at] |= {column: chance.choice(values)}
    return repeats_shown(rows)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"temp_directory": str(tmp_path)}) as connection:
        yield connection


def open_other_engine() -> Any:  # noqa: ANN401 - imported here: pandas takes 0.4 s in each process
    """Open an engine of Arrow's."""
    return import_module("datafusion").SessionContext()


def write_parquet(engine: duckdb.DuckDBPyConnection, rows: Rows, folder: Path) -> None:
    for name, columns in TABLES.items():
        engine.register(
            "made",
            {
                column: np.array([row[column] for row in rows[name]], dtype=np.int64)
                for column in columns.split()
            },
        )
        engine.table("made").write_parquet(str(folder / f"{name}.parquet"))


def read_parquet(engine: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for name in TABLES:
        engine.read_parquet(str(folder / f"{name}.parquet")).create_view(name)


def differences_of(rows: list[tuple[int, ...]]) -> set[int]:
    return {number for row in rows for number in DIFFERENCES if row[-1] & number}


@pytest.mark.parametrize("seed", range(3))
def test_two_engines_find_the_same_differences_in_the_same_parquet(
    engine: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int
) -> None:
    rows = damaged(400, seed)
    write_parquet(engine, rows, tmp_path)
    other = open_other_engine()
    read_parquet(engine, tmp_path)
    for name in TABLES:
        other.register_parquet(name, str(tmp_path / f"{name}.parquet"))
    query = comparison_statement("differences")
    found = sorted(engine.execute(query).fetchall())
    batches = other.sql(query).collect()
    again = sorted(
        tuple(int(value) for value in row.values())
        for batch in batches
        for row in batch.to_pylist()
    )
    assert found == again
    assert len(differences_of(found)) > 8
    for row in (*rows["expected"], *rows["ending"]):
        row["is_repeated"] = 1
    write_parquet(engine, rows, tmp_path)
    read_parquet(engine, tmp_path)
    assert sorted(engine.execute(query).fetchall()) == found


DIGEST = "0" + "".join(
    f" + (strpos('0123456789abcdef', substr(md5({{text}}), {place}, 1)) - 1) * {16 ** (15 - place)}"
    for place in range(1, 16)
)
"""60 bits of the MD5 of a text, as every engine computes them."""


def test_an_engine_makes_digests_of_its_own_from_texts_and_finds_the_same_differences(
    engine: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The texts are in the Parquet, the digests that this process made of them are not."""
    rows = damaged(400, 3)
    digested: Rows = {name: [dict(row) for row in rows[name]] for name in TABLES}
    other = open_other_engine()
    for name, columns in TABLES.items():
        digests = [each for each in columns.split() if each in ("terms", "payload", "key")]
        said = {each: [f"{each} {row[each]}" for row in rows[name]] for each in digests}
        for each, texts in said.items():
            for row, text in zip(digested[name], texts, strict=True):
                row[each] = row[each] if row[each] == -1 else hash(text.encode())
        engine.register(
            "made",
            {
                **{
                    each: np.array([row[each] for row in rows[name]], dtype=np.int64)
                    for each in columns.split()
                    if each not in said
                },
                **{each: np.array(texts, dtype=object) for each, texts in said.items()},
            },
        )
        path = str(tmp_path / f"{name} of texts.parquet")
        engine.table("made").write_parquet(path)
        other.register_parquet(f"{name}_of_texts", path)
        made = ", ".join(
            f"case when {each} = '{each} -1' then -1 else {DIGEST.format(text=each)} end as {each}"
            if each in said
            else each
            for each in columns.split()
        )
        other.sql(f"create view {name} as select {made} from {name}_of_texts")  # noqa: S608
    write_parquet(engine, digested, tmp_path)
    read_parquet(engine, tmp_path)
    # What is compared, but for the key, which only keeps items of one key together.
    columns = "high, low, day, item_no, flow, due, is_owed, has_terms, ending, ended, differences"
    query = f"select {columns} from ({comparison_statement('differences')})"  # noqa: S608
    found = sorted(engine.execute(query).fetchall())
    again = sorted(
        tuple(int(value) for value in row.values())
        for batch in other.sql(query).collect()
        for row in batch.to_pylist()
    )
    assert found == again
    assert 16 in differences_of(found)


JOURNAL = "day item_no event attempt run actor ended_at"
HELD = "run item_no attempt worker started closed is_ended"
OF_RUNS: dict[str, dict[str, int]] = {
    "run": {"run": 6},
    "no run": {"run": -1},
    "item": {"item_no": 9},
    "attempt": {"attempt": 1},
    "worker": {"actor": 5},
    "event": {"event": 10},
    "before": {"ended_at": 99},
    "after": {"ended_at": 201},
    "two": {"copies": 1},
}


def of_runs(edited: dict[str, int]) -> dict[str, list[dict[str, int]]]:
    """Return journal and runs of four items, one of which failed at first; one row is edited."""
    held: list[dict[str, int]] = [
        dict(zip(HELD.split(), (run, item_no, attempt, 4, 100, 200, 1), strict=True))
        for run, item_no, attempt in ((1, 1, 1), (1, 2, 1), (2, 2, 2), (2, 3, 1), (2, 4, 1))
    ]
    journal: list[dict[str, int]] = [
        dict(
            zip(
                JOURNAL.split(),
                (0, row["item_no"], 5, row["attempt"], row["run"], 4, 150),
                strict=True,
            )
        )
        for row in held
    ]
    held.append(held[2] | {"run": 3, "closed": 2**63 - 1, "is_ended": 0})
    held.append(held[0] | {"run": 4, "closed": 2**63 - 1})
    held.append(held[2] | {"run": 2, "item_no": 5})  # in another window
    journal[1] |= {"event": 6, "actor": 3}
    journal[2] |= {"ended_at": 200}
    journal[2] |= edited
    if "copies" in edited:
        journal.append(journal[2] | {"event": 6})
    shown = repeated(np.array([row["item_no"] for row in journal]))
    for row, is_repeated in zip(journal, shown.tolist(), strict=True):
        row["is_repeated"] = is_repeated
    return {"journal": journal, "held": held, "item": [{"item_no": 1}, {"item_no": 2}]}


@pytest.mark.parametrize("edit", ["none", *OF_RUNS])
def test_g11_two_engines_find_the_items_of_which_a_transition_is_not_as_its_run_has_it(
    engine: duckdb.DuckDBPyConnection, tmp_path: Path, edit: str
) -> None:
    edited = OF_RUNS.get(edit, {})
    other = open_other_engine()
    for name, rows in of_runs(edited).items():
        columns = {each: np.array([row[each] for row in rows]) for each in rows[0]}
        engine.register(name, columns)
        engine.table(name).write_parquet(str(tmp_path / f"{name}.parquet"))
        other.register_parquet(name, str(tmp_path / f"{name}.parquet"))
    query = comparison_statement("unproven")
    found = sorted(engine.execute(query).fetchall())
    assert [pair for pair in found if pair[1] == -1] == [(edited.get("item_no", 2), -1)] * bool(
        edited.keys() - {"copies"}
    )
    # What run 2 had of item 2 is not recorded any more, or twice; run 3 is open, and has yet to
    # record it. Run 4 is open, and ended item 1.
    is_miscounted = bool(edited.keys() & {"run", "item_no", "copies"})
    assert [pair for pair in found if pair[1] != -1] == [(1, 4)] + [(2, 2)] * is_miscounted
    again = [row for batch in other.sql(query).collect() for row in batch.to_pylist()]
    assert sorted(tuple(row.values()) for row in again) == found


def test_g11_of_an_array_with_a_null_no_element_is_read() -> None:
    header = bytes(20)
    elements = [struct.pack(">ih", 2, number) for number in (1, -2, 3)]
    sent = header + b"".join(elements)
    assert array_elements(sent, "smallint").tolist() == [1, -2, 3]
    for broken in (None, b"", header, sent[:-1], header + struct.pack(">i", -1) + sent[26:]):
        assert array_elements(broken, "smallint").tolist() == []


def lose_item(rows: Rows) -> None:
    del rows["item"][1]
    del rows["place"][0]


def lose_source(rows: Rows) -> None:
    del rows["expected"][1]


def rename(rows: Rows) -> None:
    rows["item"][1]["is_named"] = 0


def move(rows: Rows) -> None:
    rows["item"][1]["due"] += 1


def reword(rows: Rows) -> None:
    rows["item"][1]["terms"] += 1


def say_otherwise(rows: Rows) -> None:
    rows["item"][3]["payload"] += 1


def start_later(rows: Rows) -> None:
    rows["item"][3]["start_by"] = 8_000


def promise_less(rows: Rows) -> None:
    rows["expected"][3]["complete_by"] = ABSENT


def withdraw(rows: Rows) -> None:
    rows["expected"][1]["is_plain"] = 0


def reopen(rows: Rows) -> None:
    rows["place"].append({"item_no": 2})


def end_early(rows: Rows) -> None:
    rows["ending"][1]["ended_at"] = rows["item"][2]["due"] - 1


def cancel(rows: Rows) -> None:
    rows["ending"][1]["event"] = 11


def fall_due(rows: Rows) -> None:
    rows["item"][1]["due"] = rows["expected"][1]["due"] = AS_OF


def end_late(rows: Rows) -> None:
    rows["ending"][1]["ended_at"] = rows["item"][2]["due"] + 51


def need_evidence(rows: Rows) -> None:
    rows["item"][2]["flow"] = 9
    rows["expected"][2]["kind"] = 3


def emit_later(rows: Rows) -> None:
    rows["item"][1]["emitted"] = AS_OF + 1


def end_nothing(rows: Rows) -> None:
    rows["ending"].append({"day": 2, "item_no": 9_999, "event": 5, "ended_at": 500})


EDITS = [
    *(lose_item, lose_source, rename, move, reword, withdraw, reopen, end_early, cancel, fall_due),
    *(end_late, need_evidence, emit_later, end_nothing),
]


EDITS_AND_DIFFERENCES = [
    *zip(EDITS, DIFFERENCES, strict=True),
    *((edit, 16) for edit in (say_otherwise, start_later, promise_less)),
]


@pytest.mark.parametrize(
    ("edit", "difference"),
    EDITS_AND_DIFFERENCES,
    ids=[edit.__name__ for edit, _ in EDITS_AND_DIFFERENCES],
)
def test_an_edit_gives_the_difference_that_its_number_names(
    engine: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    edit: Callable[[Rows], None],
    difference: int,
) -> None:
    rows = right_rows(10)
    edit(rows)
    repeats_shown(rows)
    write_parquet(engine, rows, tmp_path)
    read_parquet(engine, tmp_path)
    found = engine.execute(comparison_statement("differences")).fetchall()
    assert [row[-1] for row in found if row[-1]] == [difference]


def test_what_is_right_has_no_difference(engine: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    write_parquet(engine, right_rows(200), tmp_path)
    read_parquet(engine, tmp_path)
    found = engine.execute(comparison_statement("differences")).fetchall()
    assert len(found) == 200
    assert differences_of(found) == set()


def test_a_copy_of_other_columns_or_with_a_null_is_refused() -> None:
    layout = RowLayout(item_no="bigint", event="smallint")
    row = b"\0\2" + b"\0\0\0\10" + (5).to_bytes(8, "big") + b"\0\0\0\2" + b"\0\3"
    begin, end = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
    read = layout.read(begin + row + row + end)
    assert {name: column.tolist() for name, column in read.items()} == {
        "item_no": [5, 5],
        "event": [3, 3],
    }
    assert layout.read(begin + end)["item_no"].tolist() == []
    absent = b"\0\2" + b"\xff\xff\xff\xff" + bytes(8) + b"\0\0\0\2" + b"\0\3"
    for wrong in (row[:-1], b"\0\3" + row[2:], absent):
        with pytest.raises(UnexpectedCopy):
            layout.read(begin + wrong + end)


def test_texts_at_the_end_of_rows_give_the_hashes_by_which_drafts_are_compared() -> None:
    layout = RowLayout(item_no="bigint", terms="text")
    texts = ["key-1\x1f2027", "Prämie", ""]
    begin, end = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
    rows = [
        b"\0\2" + b"\0\0\0\10" + number.to_bytes(8, "big") + len(text).to_bytes(4, "big") + text
        for number, text in enumerate(text.encode() for text in texts)
    ]
    read = layout.read(begin + b"".join(rows) + end)
    assert read["item_no"].tolist() == [0, 1, 2]
    assert read["terms"].tolist() == [hash(text.encode()) for text in texts]
    for length in (1, 7, 40):
        reader, copied = layout.reader(bytes), begin + b"".join(rows) + end
        for place in range(0, len(copied), length):
            reader.put(copied[place : place + length])
        columns, found = reader.finish()
        assert columns["item_no"].tolist() == [0, 1, 2]
        assert found == [text.encode() for text in texts]
    numbers = [1, NO_INSTANT, double_bits(-1.0)]
    mixed_rows = all_mixed(read["terms"], *(np.array([number] * 3) for number in numbers))
    assert mixed_rows.tolist() == [mixed(hash(text.encode()), *numbers) for text in texts]
    assert mixed(7, 1, 2) != mixed(7, 2, 1)
    absent = b"\0\2" + b"\0\0\0\10" + bytes(8) + b"\xff\xff\xff\xff"
    with pytest.raises(UnexpectedCopy):
        layout.read(begin + rows[0] + absent + end)


WITHOUT: str = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("duckdb", "numpy"):
            for finder in finders:
                if (found := finder.find_spec(name, path, target)) is not None:
                    return found
        return None

finders = list(sys.meta_path)
sys.meta_path[:] = [Hidden()]
from dueledger.cli import main
sys.argv = ["dueledger", "reconcile", "--once"]
sys.exit(main())
"""


def test_without_the_extra_the_command_says_in_one_sentence_what_to_install() -> None:
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", WITHOUT],
        env={**os.environ, "DUELEDGER_DSN": "postgresql://nobody@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert "install dueledger[reconcile]" in ended.stderr
    assert "Traceback" not in ended.stderr
