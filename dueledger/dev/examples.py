"""The examples of a checkout, run as what they are: other people's programs."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import dueledger
from dueledger.ledger.errors import Conflict, NotFound

CHECKOUT: Final = Path(dueledger.__file__).resolve().parents[1]


def example(name: str) -> Path:
    """Return a path under ``examples``. Raises NotFound where there is no checkout."""
    path = CHECKOUT / "examples" / name
    if not path.exists():
        raise NotFound(
            f"{path} is not there: the examples come with a checkout only. "
            "Clone the repository and run the command in it.",
            path=str(path),
        )
    return path


async def insurer(environment: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Run one command of the insurer's own service and return its answer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "examples.insurer.service",
        *arguments,
        cwd=CHECKOUT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    answer, complaints = await process.communicate()
    if process.returncode != 0:
        last = complaints.decode(errors="replace").strip().splitlines()[-1:]
        raise Conflict(f"The insurer's `{arguments[0]}` failed: {' '.join(last)}")
    return json.loads(answer)
