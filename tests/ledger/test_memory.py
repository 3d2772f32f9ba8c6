"""A long-running process returns its memory, and its items are not scanned for cycles."""

import subprocess
import sys

import pytest

MEASURE = """
import gc, resource
from dueledger.ledger.runtime.memory import tune_memory
{start}
record = b"x" * 530
for number in range(60):
    if number == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytes(bytearray(record * 4000))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(gc.get_freeze_count())
"""


def measure(start: str) -> tuple[int, int]:
    """Return the page faults of fifty batches, and the objects that the collector leaves alone."""
    ran = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", MEASURE.format(start=start)], capture_output=True, check=True
    )
    faults, frozen = ran.stdout.split()
    return int(faults), int(frozen)


def test_batches_use_the_memory_of_those_before_them() -> None:
    if measure("")[0] < 5000:
        pytest.skip("this C library keeps freed memory by itself")
    faults, frozen = measure("tune_memory()")
    assert faults < 500
    assert frozen > 5000
