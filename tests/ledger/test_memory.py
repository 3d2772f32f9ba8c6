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


def test_a_process_ends_without_a_word_of_the_libraries_that_it_used() -> None:
    ends = "import duckdb; from dueledger.ledger.runtime.memory import tune_memory; tune_memory()"
    ran = subprocess.run([sys.executable, "-c", ends], capture_output=True, check=True)  # noqa: S603
    assert ran.stderr == b""


def test_few_objects_are_visited_at_once_where_requests_are_answered() -> None:
    """Of objects in cycles, and of those that live on, as the parts of open streams do."""
    visited = """
import gc
from dueledger.ledger.runtime.memory import collect_in_small_steps, tune_memory
tune_memory()
{more}
most = 0
def see(phase, found):
    global most
    if phase == "start" and found["generation"] < 2:
        young = range(found["generation"] + 1)
        most = max(most, sum(len(gc.get_objects(generation=each)) for each in young))
gc.callbacks.append(see)
kept = []
for _ in range(150_000):
    cycle = []
    cycle.append(cycle)
    kept.append([])
print(most)
"""
    texts = [visited.format(more=more) for more in ("", "collect_in_small_steps()")]
    runs = [[sys.executable, "-c", text] for text in texts]
    ran = [subprocess.run(each, capture_output=True, check=True) for each in runs]  # noqa: S603
    tuned, small = (int(each.stdout) for each in ran)
    assert tuned > 50_000
    assert small < 15_000
