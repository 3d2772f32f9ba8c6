"""How a process that runs for long holds its memory.

Batches come and go by the megabyte. As it ships, the C library gives each back to the system and
has it again page by page, and Python's collector walks all items in flight again and again to find
cycles that are not there. Measured on the hot processes: see docs/performance.md.
"""

import ctypes
import gc
from typing import Final

# Parameters of glibc's mallopt(3). 32 MiB is the most it accepts as the first.
_MMAP_THRESHOLD: Final = (-3, 32 * 2**20)
_TRIM_THRESHOLD: Final = (-1, 128 * 2**20)
_TOP_PAD: Final = (-2, 2**20)

# Young objects, then how many times each generation waits for the one before it.
_COLLECT: Final = (50_000, 20, 50)


def tune_memory() -> None:
    """Keep what is freed, up to 128 MiB, and collect seldom. Once, when everything is imported.

    Where the C library is not glibc, only the collector changes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for parameter, value in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD):
            library.mallopt(parameter, value)
