"""A benchmark prints one document, with all that runs in it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.mark.full
def test_a_benchmark_that_works_within_its_own_process_prints_one_document(
    dueledger: Command,
) -> None:
    ran = dueledger(
        *("bench", "materialise", "--definitions", "40", "--many", "100", "--seconds", "0.02"),
        "--json",
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["benchmark"] == "materialise"
