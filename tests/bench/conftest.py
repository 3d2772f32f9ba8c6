"""Benchmarks on the tests' servers, with tiny counts: their shape, never their speed."""

import gc
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bench.report import Measured, OptionsClass, take
from bench.rig import Rig
from dueledger.stack import Endpoints

Take = Callable[..., Awaitable[dict[str, Any]]]

FRAME = {
    "benchmark",
    "options",
    "goals",
    "cpu_seconds",
    "cpu_share_of_core",
    "bound_by",
    "cores",
    "dueledger",
    "python",
    "postgres",
    "kafka",
    "fsync",
    "measured_at",
}
GOAL = {"goal", "figure", "unit", "bound", "reached"}


@pytest.fixture
def rig(stack: Endpoints, tmp_path: Path) -> Rig:
    """The tests' servers, which are not under measurement."""
    return Rig(stack, tmp_path, lambda _line: None)


@pytest.fixture
def taken(rig: Rig) -> Take:
    """Run a benchmark and return its document as a reader of its JSON finds it."""

    async def run(
        bench: Callable[[Rig, OptionsClass], Awaitable[Measured]], options: OptionsClass
    ) -> dict[str, Any]:
        try:
            document = json.loads(json.dumps(await take("bench", rig, bench, options)))
        finally:
            gc.freeze()  # some benchmarks unfreeze all at their end, what was collected, too
        assert set(document) >= FRAME
        assert document["goals"]
        assert all(set(goal) == GOAL and goal["unit"] for goal in document["goals"])
        return document

    return run
