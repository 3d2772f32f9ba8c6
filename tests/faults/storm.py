"""Faults at random. The seed decides which, upon whom, when and for how long."""

from __future__ import annotations

import asyncio
import os
import secrets
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

from .programs import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .breakages import Fault

SEED_VARIABLE: Final = "DUELEDGER_FAULT_SEED"
GAP_SECONDS: Final = (0.2, 2.5)


def chosen_seed() -> int:
    """Return the seed that the environment gives, or a new one, and print how to repeat it."""
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbelow(1 << 32))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201  # shown when the test fails
    return seed


class Storm:
    """Breaks things one after another, also several at a time, and notes what it did."""

    def __init__(self, seed: int, *, pace: float = 1.0) -> None:
        """With a `pace` of 2, faults begin twice as often."""
        self.steps: list[str] = []
        self._choice = Random(seed)  # noqa: S311  # no secrets
        self._pace = pace
        self._broken: set[str] = set()
        self._began = monotonic()

    def note(self, step: str) -> None:
        """Add a line to what happened, with its time."""
        self.steps.append(f"{monotonic() - self._began:6.1f} s {step}")

    async def rage(self, faults: Sequence[Fault], seconds: float) -> None:
        """Break things for so long; return once everything broken is mended."""
        began = monotonic()
        async with asyncio.TaskGroup() as happening:
            while monotonic() - began < seconds:
                fault = self._choice.choice(faults)
                lasts = self._choice.uniform(0, fault.seconds_max)
                if fault.whom not in self._broken:
                    self.note(f"{fault.name} {fault.whom} {lasts:.1f} s")
                    happening.create_task(self._happen(fault, lasts))
                await moment(self._choice.uniform(*GAP_SECONDS) / self._pace)

    async def _happen(self, fault: Fault, seconds: float) -> None:
        self._broken.add(fault.whom)
        try:
            await fault.happen(seconds)
        finally:
            self._broken.discard(fault.whom)
