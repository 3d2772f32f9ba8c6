"""How many examples a property is tried with."""

import os
from typing import Final

FULL_VARIABLE: Final = "DUELEDGER_TEST_FULL"
"""Set by `make test-full`."""


def examples(few: int, *, full: int) -> int:
    """Return `few` for `make test`, which draws others each time, and `full` for the full run."""
    return full if os.environ.get(FULL_VARIABLE) else few
