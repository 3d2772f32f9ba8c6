"""The README is true: its code runs, and every test that it names exists."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dueledger
from dueledger.dev.supervisor import ChildSpec, Supervisor
from dueledger.ledger.store import Connection
from dueledger.ledger.store.item_lists import ItemListFilter, list_items
from dueledger.stack import Endpoints

CHECKOUT = Path(dueledger.__file__).resolve().parents[1]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
FILES = re.findall(r"Save as `(\w+\.py)`", README)

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def test_the_readmes_producer_and_handler_run(
    tmp_path: Path,
    database: str,
    stack: Endpoints,
    connection: Connection,
    eventually: Eventually,
) -> None:
    for name, text in zip(FILES, PYTHON, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "DUELEDGER_DSN": database,
        "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers,
        "PYTHONPATH": str(tmp_path),
    }
    async with _running(environment):
        producer = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "owe.py"), env=environment
        )
        assert await producer.wait() == 0

        async def completed() -> list[dict[str, Any]]:
            wanted = ItemListFilter(business_key="INV-1", state="Completed")
            return (await list_items(connection, wanted)).items

        [item] = await eventually(completed)
    assert (item["tenant"], item["kind"]) == ("acme", "ReminderDue")


@asynccontextmanager
async def _running(environment: dict[str, str]) -> AsyncGenerator[None]:
    lines: list[str] = []
    supervisor = Supervisor(
        lambda name, line: lines.append(f"{name} {line}"),
        lambda name, line: lines.append(f"{name} {line}"),
        environment=environment,
    )
    try:
        await supervisor.start(ChildSpec("worker", ("work", "reminders:handlers")))
        await supervisor.start(ChildSpec("allocator", ("allocate",)))
        yield
    finally:
        killed = await supervisor.stop_all()
    assert killed == [], lines


def test_the_twenty_lines_are_about_twenty() -> None:
    code = [line for text in PYTHON for line in text.splitlines() if line.strip()]
    assert len(code) <= 20
