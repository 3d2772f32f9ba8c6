"""Kafka's classes in the JVM's own archive: made once per user, it halves the CPU of a start."""

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dueledger.stack.endpoints import StackError
from dueledger.stack.server_process import server_environment
from dueledger.stack.start_progress import StartProgress

_CREATE_SECONDS: Final = 120.0


def ensure(
    java: Path,
    jars: Sequence[Path],
    *,
    options: Sequence[str],
    train: Callable[[Path], None],
    steps: StartProgress,
) -> Path | None:
    """Return the archive for this Java and these jars, which lies beside the jars.

    A missing one is made: `train` runs a broker that records its classes in the file it is given.
    Safe to call from several processes at once: one of them makes it, the others wait. None where
    it cannot be made; a start without it only takes longer. That is tried once.
    """
    archive = jars[0].parent / f"classes-{_digest(java, jars)}.aot"
    try:
        if not archive.exists():
            with archive.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not archive.exists():
                    steps.report("kafka: archiving its classes for faster starts, once")
                    _make(archive, java, jars, options, train=train, steps=steps)
        return archive if archive.stat().st_size else None
    except OSError:
        return None  # a cache that cannot be written


def _digest(java: Path, jars: Sequence[Path]) -> str:
    """Name what the JVM compares with an archive before it uses it."""
    digest = hashlib.sha256((java.parents[1] / "release").read_bytes())
    for jar in jars:
        status = jar.stat()
        digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _make(
    archive: Path,
    java: Path,
    jars: Sequence[Path],
    options: Sequence[str],
    *,
    train: Callable[[Path], None],
    steps: StartProgress,
) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".classes-") as scratch:
        recorded, made = Path(scratch, "recorded"), Path(scratch, "made")
        try:
            train(recorded)
            command = [
                str(java),
                "-XX:AOTMode=create",
                f"-XX:AOTConfiguration={recorded}",
                f"-XX:AOTCache={made}",
                *options,
                "-cp",
                ":".join(map(str, jars)),
            ]
            subprocess.run(  # noqa: S603  (a list of our own, no shell)
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C must not leave half an archive
                env=server_environment(),
                timeout=_CREATE_SECONDS,
                check=False,
            )
        except (StackError, subprocess.TimeoutExpired):
            steps.check()  # a start that was cancelled is tried again
        made.touch()  # empty if it failed
        made.rename(archive)
