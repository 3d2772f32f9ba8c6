"""Both servers in one data directory, owned by this process."""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, final

import psutil

from dueledger.stack.endpoints import Endpoints, StackError
from dueledger.stack.kafka import Kafka
from dueledger.stack.postgres import Postgres
from dueledger.stack.start_progress import StartProgress

_TEMPORARY_PREFIX: Final = "dueledger-stack-"
_LOCK_NAME: Final = "stack.lock"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of mode 0700 is made there
_MEMORY_BYTES_MIN: Final = 6 << 30
"""Free in it, and in all: a run of tests has up to six servers of up to 1 GB."""
_INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM)
_TERMINATED: Final = 128 + signal.SIGTERM


@final
class EmbeddedStack:
    """PostgreSQL and Kafka of one data directory. The parts can be stopped and started alone."""

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool = True,
        relay_port: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Describe the stack in `directory`; nothing is started."""
        self.directory = directory
        self._steps = StartProgress(progress)
        self.postgres = Postgres(directory, durable=durable, steps=self._steps)
        self.kafka = Kafka(directory, steps=self._steps, relay_port=relay_port, brief=not durable)

    @property
    def endpoints(self) -> Endpoints:
        """Addresses of the started servers; the same for the life of the stack."""
        return Endpoints(self.postgres.dsn, self.kafka.bootstrap_servers)

    def start(self) -> None:
        """Start both at once; return when both are ready, raise the first failure.

        A failure or an interrupt cancels the other start. The caller must call `stop`.
        """
        with ThreadPoolExecutor(2, thread_name_prefix="stack") as pool:
            starts = [pool.submit(self.postgres.start), pool.submit(self.kafka.start)]
            try:
                for ended in as_completed(starts):
                    ended.result()
            except BaseException:
                self._steps.cancel()
                raise

    def stop(self) -> None:
        """Stop both at once; idempotent."""
        with ThreadPoolExecutor(2, thread_name_prefix="stack") as pool:
            for ended in [pool.submit(self.postgres.stop), pool.submit(self.kafka.stop)]:
                ended.result()

    def recover(self) -> None:
        """Stop servers that a killed run left in this directory."""
        self.postgres.recover()
        self.kafka.recover()


@contextmanager
def open_embedded(
    *,
    data_dir: Path | None = None,
    keep: bool = False,
    durable: bool = True,
    relay_port: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Generator[EmbeddedStack]:
    """Run both servers for the length of the block.

    Without `data_dir` a temporary one is made, in memory if it need not be durable and enough is
    free. It is removed at the end unless `keep`. `relay_port` is the port that clients of the
    broker's second listener are sent to (see Kafka). SIGTERM ends the block like an exception,
    unless the program handles it.
    """
    if data_dir is None:
        sweep_abandoned()
        parent = None if durable else _memory()
        directory = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX, dir=parent))
    else:
        directory = data_dir
    directory = directory.resolve()
    with _owned(directory), _sigterm_raises():
        stack = EmbeddedStack(directory, durable=durable, relay_port=relay_port, progress=progress)
        try:
            stack.start()
            yield stack
        finally:
            with _signals_blocked():
                stack.stop()
                if not keep:
                    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _owned(directory: Path) -> Generator[None]:
    """Lock the directory for this process."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            # PostgreSQL runs as another user and must pass through; secret files have mode 0600.
            directory.chmod(directory.stat().st_mode | 0o011)
        descriptor = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StackError(
            "directory_unusable",
            f"The data directory {directory} cannot be used: {error}",
            "Choose one you can write to.",
        ) from error
    with os.fdopen(descriptor, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = lock.read().strip() or "unknown"
            raise StackError(
                "directory_in_use",
                f"The data directory {directory} is in use by process {owner}.",
                "Stop that process, or choose another data directory.",
            ) from error
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _memory() -> Path | None:
    """Return where files are in memory, if enough is free. Copying databases there is cheaper."""
    with contextlib.suppress(OSError):
        free = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available)
        if free >= _MEMORY_BYTES_MIN and os.access(_MEMORY, os.W_OK):
            return _MEMORY
    return None


def sweep_abandoned() -> None:
    """Remove temporary data directories whose owner was killed."""
    parents = (Path(tempfile.gettempdir()), _MEMORY)
    for left in (each for parent in parents for each in parent.glob(f"{_TEMPORARY_PREFIX}*")):
        with contextlib.suppress(OSError):
            if left.is_symlink() or left.stat().st_uid != os.geteuid():
                continue
            with (left / _LOCK_NAME).open("r+") as lock:
                if not lock.read():
                    continue  # Its owner, who writes its name once it has the lock, is about to.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                EmbeddedStack(left.resolve()).recover()
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _sigterm_raises() -> Generator[None]:
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
def _signals_blocked() -> Generator[None]:
    """Block a second Ctrl-C or SIGTERM, so that no server is left; stopping has its own limits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
