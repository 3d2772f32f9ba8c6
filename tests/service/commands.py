"""Commands of the service as processes of their own."""

import json
import os
import re
from typing import Any

from tests.forks import ForkedProcess, ForkServer


async def start(forks: ForkServer, dsn: str, *arguments: str, **variables: str) -> ForkedProcess:
    """Start a command; all that it writes is piped."""
    return await forks.start(
        *("-m", "dueledger", *arguments),
        env=os.environ | {"DUELEDGER_DSN": dsn, "DUELEDGER_ACTOR": "jane"} | variables,
        pipe="both",
    )


async def key_command(forks: ForkServer, dsn: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the documents that a command prints, one a line."""
    process = await start(forks, dsn, "key", *arguments, "--json")
    printed = await process.communicate()
    assert process.returncode == 0, printed
    return [json.loads(line) for line in printed.splitlines()]


async def address_of(serving: ForkedProcess) -> tuple[str, str]:
    """Return the address at which `serve` listens, and its log until then."""
    assert serving.piped is not None
    log = ""
    while (found := re.search(r"http://127\.0\.0\.1:[0-9]+", log)) is None:
        line = (await serving.piped.readline()).decode()
        assert line, log
        log += line
    return found[0], log
