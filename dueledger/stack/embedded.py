"""Both servers in one data directory, owned by this process."""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, final

from dueledger.stack.endpoints import Endpoints, StackError
from dueledger.stack.kafka import Kafka
from dueledger.stack.postgres import Postgres

_TEMPORARY_PREFIX: Final = "dueledger-stack-"
_LOCK_NAME: Final = "stack.lock"
_TERMINATED: Final = 128 + signal.SIGTERM


@final
class EmbeddedStack:
    """PostgreSQL and Kafka of one data directory. The parts can be stopped and started alone."""

    def __init__(
        self, directory: Path, *, durable: bool = True, progress: Callable[[str], None]
    ) -> None:
        """Describe the stack in `directory`; nothing is started."""
        self.directory = directory
        self.postgres = Postgres(directory, durable=durable, progress=progress)
        self.kafka = Kafka(directory, progress=progress)

    @property
    def endpoints(self) -> Endpoints:
        """Where the started servers answer; the same for the life of the stack."""
        return Endpoints(self.postgres.dsn, self.kafka.bootstrap_servers)

    def start(self) -> None:
        """Start both at once; return when both are ready, raise the first failure."""
        _both(self.postgres.start, self.kafka.start)

    def stop(self) -> None:
        """Stop both at once; idempotent."""
        _both(self.postgres.stop, self.kafka.stop)


@contextmanager
def open_embedded(
    *,
    data_dir: Path | None = None,
    keep: bool = False,
    durable: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Iterator[EmbeddedStack]:
    """Run both servers for the length of the block.

    Without `data_dir` a temporary one is made. It is removed at the end unless `keep`.
    SIGTERM ends the block like an exception when nobody else handles it.
    """
    if data_dir is None:
        _sweep_abandoned()
        directory = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX))
    else:
        directory = data_dir
    directory = directory.resolve()
    with _owned(directory), _sigterm_raises():
        stack = EmbeddedStack(directory, durable=durable, progress=progress or _silent)
        try:
            stack.start()
            yield stack
        finally:
            with _undisturbed():
                stack.stop()
                if not keep:
                    shutil.rmtree(directory, ignore_errors=True)


def _silent(_message: str) -> None:
    pass


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="stack") as pool:
        for running in [pool.submit(first), pool.submit(second)]:
            running.result()


@contextmanager
def _owned(directory: Path) -> Iterator[None]:
    """Hold the directory for this process alone."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            # PostgreSQL runs as another user and must pass through; what is secret is 0600.
            directory.chmod(directory.stat().st_mode | 0o011)
        descriptor = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StackError(
            "stack.directory_unusable",
            f"The data directory {directory} cannot be used: {error}",
            "Choose one you can write to.",
        ) from error
    with os.fdopen(descriptor, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = lock.read().strip() or "unknown"
            raise StackError(
                "stack.directory_in_use",
                f"The data directory {directory} is in use by process {owner}.",
                "Stop that process, or choose another data directory.",
            ) from error
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _sweep_abandoned() -> None:
    """Remove temporary data directories whose owner was killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):
            if left.is_symlink() or left.stat().st_uid != os.geteuid():
                continue
            with (left / _LOCK_NAME).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM unwind the block, unless the program has its own handler."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep a second Ctrl-C or SIGTERM from leaving servers behind; stopping has its own limits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM)
