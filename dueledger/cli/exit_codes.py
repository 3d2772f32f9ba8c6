"""Exit codes of commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Stable: scripts branch on these."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    FINDINGS = 4
    INTERRUPTED = 130
