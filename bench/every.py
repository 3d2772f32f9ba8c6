"""All benchmarks, one after another, each in a process of its own; one table of goals.

A benchmark that fails is an entry with its error.
"""

import asyncio
import json
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from bench.processes import Process, stop

TIMEOUT_SECONDS: Final = 3 * 3600.0
ERROR_LINES: Final = 12
DOCUMENT_BYTES_MAX: Final = 64 << 20


@final
@dataclass(frozen=True, slots=True)
class Size:
    """An option that is multiplied by the scale, at least `least`."""

    option: str
    whole: float
    least: float

    def at(self, scale: float) -> str:
        """Return the option's value; whole numbers stay whole."""
        value = max(self.whole * scale, self.least)
        return str(round(value)) if isinstance(self.whole, int) else f"{value:.3f}"


@final
@dataclass(frozen=True, slots=True)
class Planned:
    """One benchmark and its sizes."""

    name: str
    sizes: tuple[Size, ...]

    def arguments(self, scale: float) -> list[str]:
        """Return the command line of ``dueledger`` at a scale."""
        shrunk = [part for size in self.sizes for part in (size.option, size.at(scale))]
        return ["bench", self.name, *shrunk, "--json"]


PLAN: Final = (
    Planned("pipeline", (Size("--items", 600_000, 5_000),)),
    Planned("direct", (Size("--items", 500_000, 5_000),)),
    Planned("emit", (Size("--items", 200_000, 8_000),)),
    Planned("lag", (Size("--seconds", 30.0, 2.0), Size("--warm-seconds", 30.0, 0.0))),
    Planned(
        "backlog",
        (
            Size("--pending-max", 10_000_000, 20_000),
            Size("--items", 200_000, 16_000),
            Size("--hold-seconds", 300.0, 2.0),
            Size("--hold-items", 2_000_000, 16_000),
        ),
    ),
    Planned(
        "flood",
        (
            Size("--items", 1_000_000, 5_000),
            Size("--seconds", 45.0, 5.0),
            Size("--pipeline-items", 300_000, 5_000),
        ),
    ),
    Planned(
        "flows",
        (
            Size("--flows", 5_000, 50),
            Size("--blocked-flows", 5_000, 50),
            Size("--items", 300_000, 5_000),
            Size("--blocked-items", 1_000_000, 5_000),
        ),
    ),
    Planned("reconcile", (Size("--items", 1_000_000, 20_000),)),
    Planned(
        "materialise",
        (
            Size("--definitions", 10_000, 200),
            Size("--many", 1_000_000, 2_000),
            Size("--seconds", 1.0, 0.05),
        ),
    ),
    Planned(
        "service",
        (
            Size("--items", 10_000_000, 30_000),
            Size("--flood-items", 1_000_000, 10_000),
            Size("--requests", 200, 5),
            Size("--seconds", 30.0, 1.0),
        ),
    ),
    Planned("workers", (Size("--seconds", 10.0, 1.0),)),
    Planned("idle", (Size("--items", 1_000_000, 10_000), Size("--seconds", 60.0, 5.0))),
    Planned("soak", (Size("--minutes", 20.0, 0.2), Size("--peak-items", 300_000, 5_000))),
    Planned("compare", (Size("--items", 100_000, 5_000), Size("--rounds", 3, 1))),
)


async def bench_all(
    scale: float, names: Sequence[str], *, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the named benchmarks, or all; return one document."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    documents: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    try:
        for planned in PLAN:
            if names and planned.name not in names:
                continue
            arguments = planned.arguments(scale)
            say(f"dueledger {' '.join(arguments)}")
            outcome = await _run(arguments, say)
            if isinstance(outcome, str):
                errors[planned.name] = outcome
            else:
                documents[planned.name] = outcome
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    return {
        "benchmark": "all",
        "scale": scale,
        "rows": [row for planned in PLAN for row in _rows(planned.name, documents, errors)],
        "errors": errors,
        "documents": documents,
    }


def write_documents(document: dict[str, Any], folder: Path) -> None:
    """Write each benchmark's document to a file, and the table beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {key: value for key, value in document.items() if key != "documents"}
    for name, one in {**document["documents"], "all": table}.items():
        text = json.dumps(one, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def _rows(
    name: str, documents: dict[str, dict[str, Any]], errors: dict[str, str]
) -> list[dict[str, Any]]:
    """Return one row for each goal, or one with the error."""
    if name in errors:
        error = errors[name].splitlines()[0]
        return [{"benchmark": name, "goal": None, "figure": None, "reached": False, "error": error}]
    document = documents.get(name, {"goals": []})
    return [
        {"benchmark": name, **goal, "bound_by": document["bound_by"]} for goal in document["goals"]
    ]


async def _run(arguments: Sequence[str], say: Callable[[str], None]) -> dict[str, Any] | str:
    """Run one benchmark; return its document, or the end of its output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dueledger",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=DOCUMENT_BYTES_MAX,
        start_new_session=True,  # Ctrl-C is for this process, which stops the other in order
    )
    error_lines: deque[str] = deque(maxlen=ERROR_LINES)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            document, _ = await asyncio.gather(_read(process), _listen(process, error_lines, say))
            await process.wait()
    except TimeoutError:
        return f"it did not end within {TIMEOUT_SECONDS:.0f} s"
    finally:
        await stop(process)
    with suppress(ValueError):
        output: dict[str, Any] = json.loads(document)
        return output if "goals" in output else output["error"]["detail"]
    if not error_lines:
        return f"it ended with {process.returncode} without output"
    return "\n".join(
        (error_lines[-1].strip(), *error_lines)
    )  # the last line of a traceback is the error


async def _read(process: Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - spawned with a pipe
    return await process.stdout.read()


async def _listen(process: Process, error_lines: deque[str], say: Callable[[str], None]) -> None:
    assert process.stderr is not None  # noqa: S101 - spawned with a pipe
    async for raw in process.stderr:
        line = raw.decode(errors="replace").rstrip().removeprefix("· ")
        error_lines.append(line)
        say(f"  {line}")
