"""Memory settings of a long-running process: glibc's allocator and Python's garbage collector.

Batches of megabytes are allocated and freed all the time. By default glibc returns each to the
system and faults it in again page by page, and Python's collector visits all items in flight again
and again to find cycles that do not exist.
"""

import atexit
import ctypes
import gc
from typing import Final

# Parameters of glibc's mallopt(3). 32 MiB is the most it accepts as the first.
_MMAP_THRESHOLD: Final = (-3, 32 * 2**20)
_TRIM_THRESHOLD: Final = (-1, 128 * 2**20)
_TOP_PAD: Final = (-2, 2**20)

# Young objects, then how many times each generation waits for the one before it.
_COLLECT: Final = (50_000, 20, 50)
_COLLECT_OF_REQUESTS: Final = (2_000, 5, 500)


def tune_memory() -> None:
    """Keep up to 128 MiB of freed memory, and collect rarely. Call it once, after all imports.

    Where the C library is not glibc, only the collector changes.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # the interpreter's last collection frees what libraries count
    gc.set_threshold(*_COLLECT)
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for parameter, value in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD):
            library.mallopt(parameter, value)


def collect_in_small_steps() -> None:
    """Collect few objects at a time. A process that answers requests calls it.

    One request waits while those of all before it are visited. The templates of a page leave 200
    objects in cycles: 55 to 70 ms for 50,000. What outlives that, as open streams do, is visited
    again with the survivors of the next collections: 65 to 180 ms for up to 100,000. Here these are
    12,000 at most. All objects are visited as rarely as before, after 5,000,000 new ones.
    """
    gc.set_threshold(*_COLLECT_OF_REQUESTS)
