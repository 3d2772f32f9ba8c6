"""Commands of the service as processes of their own."""

import asyncio
import json
import os
import re
import sys
from typing import Any


async def start(dsn: str, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dueledger", *arguments),
        env=os.environ | {"DUELEDGER_DSN": dsn, "DUELEDGER_ACTOR": "jane"} | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def key_command(dsn: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the documents that a command prints, one a line."""
    process = await start(dsn, "key", *arguments, "--json")
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed
    return [json.loads(line) for line in printed.splitlines()]


async def address_of(serving: asyncio.subprocess.Process) -> tuple[str, str]:
    """Return the address at which `serve` listens, and its log until then."""
    assert serving.stdout is not None
    log = ""
    while (found := re.search(r"http://127\.0\.0\.1:[0-9]+", log)) is None:
        line = (await serving.stdout.readline()).decode()
        assert line, log
        log += line
    return found[0], log
