"""The adapter for a benchmark that was written elsewhere needs nothing that is not public."""

import ast
import json
import os
import re
import secrets
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import dueledger
from dueledger.stack import Endpoints
from tests.databases import named_database

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "queue_benchmark"
ADAPTER = FOLDER / "adapter.py"
MONITORING = Path(__file__).resolve().parents[2].joinpath("docs", "monitoring.md")
METRICS = {
    *("claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate"),
    *("queue_depth", "running_depth", "retryable_depth", "scheduled_depth"),
}


@pytest.fixture
async def dsn(stack: Endpoints) -> AsyncGenerator[str]:
    """An empty database, as the harness makes one."""
    name = f"bench_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(stack.dsn)
    await admin.execute(f"create database {name}")
    yield named_database(stack.dsn, name)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


def test_it_imports_public_names_alone_and_names_documented_relations() -> None:
    tree = ast.parse(ADAPTER.read_text("utf-8"))
    imported = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module or "").startswith("dueledger")
    ]
    assert {module for module, _ in imported} == {"dueledger"}
    assert {name for _, name in imported} <= {*dueledger.__all__}
    static = FOLDER.joinpath("adapter.json").read_text("utf-8")
    named = set(re.findall(r"\bledger\.(\w+)", ADAPTER.read_text("utf-8") + static))
    documented = set(re.findall(r"\w+", MONITORING.read_text("utf-8")))
    assert "emit" in named
    assert named - documented <= {"emit"}


def test_importing_it_needs_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package has the examples: a program that imports all of it must not end."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    adapter = import_module("dueledger.examples.queue_benchmark.adapter")
    assert Path(adapter.__file__ or "").resolve() == ADAPTER


@pytest.mark.full  # it makes a ledger, and measures for two seconds
async def test_it_speaks_the_protocol_until_it_is_stopped(dsn: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DUELEDGER_")}
    adapter = await create_subprocess_exec(
        *(sys.executable, str(ADAPTER)),
        env=environment
        | {"DATABASE_URL": dsn, "PRODUCER_RATE": "50", "WORKER_COUNT": "8", "SAMPLE_EVERY_S": "1"},
        stdout=PIPE,
    )
    assert adapter.stdout is not None
    lines: list[dict[str, Any]] = []
    async for line in adapter.stdout:
        lines.append(json.loads(line))
        if lines[-1].get("metric") == "completion_rate" and lines[-1]["value"] > 0:
            adapter.terminate()
    assert await adapter.wait() == 0

    static = json.loads(FOLDER.joinpath("adapter.json").read_text("utf-8"))
    assert lines[0]["kind"] == "descriptor"
    assert lines[0]["event_tables"] == static["event_tables"]
    assert {line["metric"] for line in lines[1:]} == METRICS
    connection = await asyncpg.connect(dsn)
    events = await connection.fetch(
        "select e.name, count(*) from ledger.transition t join ledger.transition_event e"
        " using (event) group by e.name"
    )
    await connection.close()
    assert {row["name"] for row in events} == {"completed"}
