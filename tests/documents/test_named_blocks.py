"""Blocks of the documents that need more than their language says."""

import ast
import asyncio
import hashlib
import inspect
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from dueledger import NewItem, emit
from dueledger.ledger.store import Connection
from dueledger.ledger.store.item_lists import ItemListFilter, list_items
from dueledger.reconciler.sources_file import load_sources
from tests.document_blocks import ROOT, blocks_of

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def run_lines(code: str, **names: object) -> dict[str, Any]:
    """Run the lines of a block, which may await, and return its names."""
    scope: dict[str, Any] = dict(names)
    compiled = compile(code, "document", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(compiled, scope)  # noqa: S307 - our own document
    if inspect.isawaitable(awaited):
        await awaited
    return scope


async def test_the_documented_emission_commits_with_its_transaction(
    connection: Connection,
) -> None:
    name = "test_the_documented_emission_commits_with_its_transaction"
    [block] = blocks_of("docs/emitting.md", run_by=name)
    await connection.execute("create table invoice (number text)")
    await run_lines(block.text, connection=connection, due_at=LONG_AGO)
    [item] = (await list_items(connection, ItemListFilter(business_key="INV-1001"))).items
    assert (item["tenant"], item["kind"]) == ("acme", "ReminderDue")


async def test_the_documented_rule_gives_the_ids_of_the_vectors() -> None:
    name = "test_the_documented_rule_gives_the_ids_of_the_vectors"
    [block] = blocks_of("docs/identity.md", run_by=name)
    vectors = json.loads((ROOT / "docs" / "identity-vectors.json").read_text("utf-8"))
    assert vectors
    for vector in vectors:
        fields = {each: vector[each] for each in ("tenant", "kind", "business_key", "cycle")}
        day = date.fromisoformat(vector["effective_date"])
        libraries = {"hashlib": hashlib, "uuid": uuid, "date": date}
        found = await run_lines(block.text, day=day, **fields, **libraries)
        assert str(found["item_id"]) == vector["id"]


def test_the_documented_sources_are_read(tmp_path: Path) -> None:
    name = "test_the_documented_sources_are_read"
    blocks = [
        block
        for page in ("docs/sources.md", "docs/reconciling.md", "docs/repairs.md")
        for block in blocks_of(page, run_by=name)
    ]
    assert len(blocks) == 3
    file = tmp_path / "sources.yaml"
    file.write_text("".join(block.text for block in blocks), encoding="utf-8")
    sources = load_sources(file)
    assert ("acme", "PolicyTouched") in sources.ignored_events


HOST = """
import asyncio
from dueledger import Completed, DueItem, Verdict
from program import handlers, lifespan


@handlers.on("LetterDue")
async def send(item: DueItem) -> Verdict:
    return Completed()


async def main() -> None:
    async with lifespan(None):
        await asyncio.Event().wait()


asyncio.run(main())
"""
"""A web server, in the place of one."""


@pytest.mark.full
@pytest.mark.parametrize("place", [0, 1], ids=["program", "web application"])
async def test_the_documented_programs_work_items(
    place: int, database: str, connection: Connection, tmp_path: Path, eventually: Eventually
) -> None:
    name = "test_the_documented_programs_work_items"
    text = blocks_of("docs/embedding.md", run_by=name)[place].text
    text = text.replace("postgresql://letters@db/ledger", database)
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    starts = ("import asyncio, program; asyncio.run(program.main())", HOST)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", starts[place]),
        cwd=tmp_path,
        env={**os.environ, "DUELEDGER_DSN": database, "PYTHONPATH": str(tmp_path)},
    )
    try:
        letter = NewItem(
            tenant="acme",
            kind="LetterDue",
            business_key="INV-1",
            effective_date=LONG_AGO.date(),
            due_at=LONG_AGO,
        )
        await emit(connection, [letter])

        async def completed() -> object:
            assert program.returncode is None
            wanted = ItemListFilter(business_key="INV-1", state="Completed")
            return (await list_items(connection, wanted)).items

        await eventually(completed)
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()
