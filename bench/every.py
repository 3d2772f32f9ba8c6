"""All benchmarks, round after round, each in a process of its own; one table of goals.

A benchmark that fails is an entry with its error. With a folder, the documents of each round are
kept there, a file a benchmark. Another run goes on from those whose command line was the same, and
leaves the others where they are.
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
from time import monotonic
from typing import Any, Final, TypeAlias, final

from bench.processes import Process, stop
from bench.workload import WARM_ITEMS

TIMEOUT_SECONDS: Final = 3 * 3600.0
ERROR_LINES: Final = 12
DOCUMENT_BYTES_MAX: Final = 64 << 20

Document: TypeAlias = dict[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Size:
    """An option of a benchmark: its value in a whole run, in a quick one, and at least.

    A scale multiplies the first two.
    """

    option: str
    whole: float
    quick: float
    least: float

    def at(self, scale: float, *, quick: bool = False) -> float:
        """Return the option's value; whole numbers stay whole."""
        value = max((self.quick if quick else self.whole) * scale, self.least)
        return round(value) if isinstance(self.whole, int) else round(value, 3)


@final
@dataclass(frozen=True, slots=True)
class Planned:
    """One benchmark, its sizes, and how many rounds of it are worth their time at most."""

    name: str
    sizes: tuple[Size, ...] = ()
    rounds_max: int = 1_000

    def values(self, scale: float, *, quick: bool = False) -> dict[str, float]:
        """Return the value of each option."""
        return {size.option: size.at(scale, quick=quick) for size in self.sizes}

    def arguments(self, scale: float, *, quick: bool = False) -> list[str]:
        """Return the command line of ``dueledger``."""
        values = self.values(scale, quick=quick).items()
        sizes = [part for option, value in values for part in (option, str(value))]
        return ["bench", self.name, *sizes, "--json"]


_WARM: Final = Size("--warm-items", WARM_ITEMS, WARM_ITEMS, 2_000)
PLAN: Final = (
    Planned(
        "pipeline",
        (Size("--items", 600_000, 300_000, 5_000), _WARM),
    ),
    Planned("direct", (Size("--items", 500_000, 300_000, 5_000),)),
    Planned("emit", (Size("--items", 200_000, 100_000, 8_000),)),
    Planned("lag", (Size("--seconds", 30.0, 10.0, 2.0), Size("--warm-seconds", 30.0, 30.0, 0.0))),
    Planned(
        "backlog",
        (
            Size("--pending-max", 10_000_000, 1_000_000, 20_000),
            Size("--items", 200_000, 100_000, 16_000),
            Size("--hold-seconds", 300.0, 30.0, 2.0),
            Size("--hold-items", 2_000_000, 200_000, 16_000),
        ),
    ),
    Planned(
        "flood",
        (
            Size("--items", 1_000_000, 300_000, 5_000),
            Size("--seconds", 45.0, 15.0, 5.0),
            Size("--pipeline-items", 300_000, 200_000, 5_000),
            _WARM,
        ),
    ),
    Planned(
        "flows",
        (
            Size("--flows", 5_000, 5_000, 50),
            Size("--blocked-flows", 5_000, 5_000, 50),
            Size("--items", 300_000, 200_000, 5_000),
            Size("--blocked-items", 1_000_000, 300_000, 5_000),
            _WARM,
        ),
    ),
    Planned("reconcile", (Size("--items", 1_000_000, 300_000, 20_000),)),
    Planned(
        "materialise",
        (
            Size("--definitions", 10_000, 10_000, 200),
            Size("--many", 1_000_000, 100_000, 2_000),
            Size("--seconds", 1.0, 0.5, 0.05),
        ),
    ),
    Planned(
        "service",
        (
            Size("--items", 10_000_000, 300_000, 30_000),
            Size("--flood-items", 1_000_000, 200_000, 10_000),
            Size("--requests", 200, 50, 5),
            Size("--seconds", 30.0, 10.0, 1.0),
        ),
    ),
    Planned("operation", (Size("--items", 50_000, 20_000, 6_000),)),
    Planned(
        "workers",
        (Size("--seconds", 10.0, 5.0, 1.0), Size("--transactional-items", 20_000, 10_000, 200)),
    ),
    Planned(
        "idle", (Size("--items", 1_000_000, 100_000, 10_000), Size("--seconds", 60.0, 20.0, 5.0))
    ),
    Planned(
        "soak",
        (Size("--minutes", 20.0, 2.0, 0.2), Size("--peak-items", 300_000, 200_000, 5_000)),
        rounds_max=1,
    ),
    Planned(
        "compare",
        (
            Size("--items", 300_000, 300_000, 5_000),
            Size("--rounds", 1, 1, 1),
            _WARM,
        ),
    ),
)


@final
class BenchmarkRun:
    """Rounds of benchmarks, each kept in the folder as soon as it has ended."""

    def __init__(
        self,
        names: Sequence[str] = (),
        *,
        scale: float = 1.0,
        quick: bool = False,
        rounds: int = 1,
        folder: Path | None = None,
        say: Callable[[str], None],
    ) -> None:
        """`names`: which benchmarks; all without any. Rounds in the folder count as run."""
        self._scale, self._quick, self._rounds = scale, quick, rounds
        self._folder = folder
        self._say = say
        self._planned = [planned for planned in PLAN if not names or planned.name in names]
        self._kept = {planned.name: self._read_kept(planned.name) for planned in self._planned}
        self._errors: dict[str, str] = {}

    async def run(self) -> Document:
        """Run what is missing of each round, round after round; return the table of goals."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            for number in range(1, self._rounds + 1):
                for planned in self._planned:
                    if len(self._rounds_of(planned)) < min(number, planned.rounds_max):
                        await self._measure(planned)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
        document = {
            "benchmark": "all",
            "scale": self._scale,
            "quick": self._quick,
            "rows": [row for planned in self._planned for row in self._rows(planned)],
            "errors": self._errors,
        }
        if self._folder is not None and len(self._planned) == len(PLAN):
            _write(self._folder / "all.json", document)
        return document | {
            "documents": {planned.name: self._rounds_of(planned) for planned in self._planned}
        }

    async def _measure(self, planned: Planned) -> None:
        if planned.name in self._errors:
            return
        arguments = planned.arguments(self._scale, quick=self._quick)
        self._say(f"dueledger {' '.join(arguments)}")
        began = monotonic()
        outcome = await _run(arguments, self._say)
        if isinstance(outcome, str):
            self._errors[planned.name] = outcome
            return
        took = round(monotonic() - began)
        rounds = self._kept[planned.name]
        rounds.append(outcome | {"arguments": arguments, "took_seconds": took})
        if self._folder is not None:
            _write(
                self._folder / f"{planned.name}.json", {"benchmark": planned.name, "rounds": rounds}
            )

    def _read_kept(self, name: str) -> list[Document]:
        """Return all rounds of a benchmark in the folder."""
        if self._folder is None or not (file := self._folder / f"{name}.json").exists():
            return []
        rounds: list[Document] = json.loads(file.read_text(encoding="utf-8"))["rounds"]
        return rounds

    def _rounds_of(self, planned: Planned) -> list[Document]:
        """Return the rounds with this command line: one that was run by hand has none."""
        arguments = planned.arguments(self._scale, quick=self._quick)
        return [one for one in self._kept[planned.name] if one.get("arguments") == arguments]

    def _rows(self, planned: Planned) -> list[Document]:
        """Return one row for each goal of the last round over all rounds, and one with the error.

        A goal that only earlier rounds had is of an older version. A row says when its rounds were
        measured: those of other days may be of other code.
        """
        name, documents = planned.name, self._rounds_of(planned)
        rows: list[Document] = []
        for last in documents[-1:]:
            for says in (goal["goal"] for goal in last["goals"]):
                ones = [
                    (goal, each["measured_at"])
                    for each in documents
                    for goal in each["goals"]
                    if goal["goal"] == says
                ]
                rows.append(
                    {
                        "benchmark": name,
                        **spread([goal for goal, _ in ones]),
                        "first_at": ones[0][1],
                        "last_at": ones[-1][1],
                        "bound_by": last["bound_by"],
                    }
                )
        if name in self._errors:
            error = self._errors[name].splitlines()[0]
            rows.append(
                {"benchmark": name, "goal": None, "figure": None, "reached": False, "error": error}
            )
        return rows


def spread(goals: Sequence[Document]) -> Document:
    """Return one goal over its rounds: the median figure, and the least and most.

    It is reached where the median reaches it, and no figure is missing. Of an even number of
    rounds the worse of the middle two is the median.
    """
    known = sorted(
        (goal for goal in goals if goal["figure"] is not None), key=lambda goal: goal["figure"]
    )
    # Where less is better, figures below the bound reach it.
    is_ceiling = any(
        goal["reached"] == (goal["figure"] < goal["bound"])
        for goal in known
        if goal["figure"] != goal["bound"]
    )
    middle = len(known) // 2 if is_ceiling else (len(known) - 1) // 2
    median = known[middle] if known else goals[0]
    return median | {
        "reached": median["reached"] and len(known) == len(goals),
        "least": known[0]["figure"] if known else None,
        "most": known[-1]["figure"] if known else None,
        "rounds": len(goals),
    }


def _write(file: Path, document: Document) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")


async def _run(arguments: Sequence[str], say: Callable[[str], None]) -> Document | str:
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
        output: Document = json.loads(document)
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
