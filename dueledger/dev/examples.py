"""The examples that come with the package, run as separate programs."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import dueledger
from dueledger.ledger.errors import Conflict

EXAMPLES: Final = Path(dueledger.__file__).parent / "examples"


def example(name: str) -> Path:
    """Return a path under ``dueledger/examples``."""
    return EXAMPLES / name


async def insurer(
    environment: Mapping[str, str], *arguments: str, program: str = "service"
) -> dict[str, Any]:
    """Run one command of a program of the example insurer and return what it printed, parsed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"dueledger.examples.insurer.{program}",
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    if process.returncode != 0:
        last = complaints.decode(errors="replace").strip().splitlines()[-1:]
        raise Conflict(f"The insurer's `{program} {arguments[0]}` failed: {' '.join(last)}")
    return json.loads(output)
