"""One server process: started, watched, stopped, and found again after a killed run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast, final

import psutil

from dueledger.stack.endpoints import StackError
from dueledger.stack.start_progress import StartProgress

_POLL_SECONDS: Final = 0.02
_SAME_START_SECONDS: Final = 5.0
_LOG_LINES_SHOWN: Final = 20
_LOG_BYTES_MAX: Final = 16 << 20
_JAVA_OPTIONS: Final = frozenset(
    {"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}
)
_LAUNCHER: Final = Path(__file__).with_name("child_launcher.py")


@dataclass(frozen=True, slots=True)
class SystemUser:
    """The unprivileged user that a server runs as if the owner is root."""

    name: str
    uid: int
    gid: int
    keep_search: bool = False


def server_environment() -> dict[str, str]:
    """Return this process's environment without variables that change the servers' settings."""
    return {
        name: text
        for name, text in os.environ.items()
        if name not in _JAVA_OPTIONS and not name.startswith("PG")
    }


def launched(
    program: Sequence[str],
    *,
    stop_signal: signal.Signals,
    user: SystemUser | None = None,
) -> list[str]:
    """Wrap a command so that it runs as `user` and gets `stop_signal` when its parent dies."""
    return [
        sys.executable,
        "-I",
        "-S",
        str(_LAUNCHER),
        str(os.getpid()),
        str(int(stop_signal)),
        f"{user.uid}:{user.gid}" if user else "-",
        "1" if user and user.keep_search else "0",
        "--",
        *program,
    ]


@final
class ServerProcess:
    """A server process with its log, and the record by which a later run recognises it.

    The thread that starts the process waits for its end: the kernel ties a child's death signal
    to the *thread* that made it, so that thread must not end first.
    """

    def __init__(
        self, name: str, *, directory: Path, marker: str, stop_signal: signal.Signals
    ) -> None:
        """Describe a process with `marker` in its command line; nothing is started."""
        self.name = name
        self.log = directory / f"{name}.log"
        self._record = directory / f"{name}.pid.json"
        self._marker = marker
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0
        self._ended = threading.Event()
        self._ended.set()

    @property
    def running(self) -> bool:
        """Whether the process that this object started still runs."""
        return not self._ended.is_set()

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    def start(self, program: Sequence[str], *, user: SystemUser | None = None) -> None:
        """Start the process; return as soon as it exists, not when it is ready."""
        if self.running:
            return
        self._log_start_bytes = self._rotate_log()
        born = threading.Event()
        failure: list[OSError] = []
        command = launched(program, stop_signal=self._stop_signal, user=user)

        def keep() -> None:
            try:
                with self.log.open("ab") as log:
                    process = subprocess.Popen(  # noqa: S603  (a list of our own, no shell)
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        cwd="/",
                        env=server_environment(),
                        start_new_session=True,  # Ctrl-C is for the owner, who stops it in order
                    )
            except OSError as error:
                failure.append(error)
                born.set()
                return
            self._process = process
            self._ended.clear()
            self._write_record(process.pid)
            born.set()
            process.wait()
            self._record.unlink(missing_ok=True)
            self._ended.set()

        threading.Thread(target=keep, name=f"stack-{self.name}", daemon=True).start()
        born.wait()
        if failure:
            raise StackError(
                "start_failed",
                f"{self.name} cannot be started: {failure[0]}",
                "Check that the environment is complete: run `make env`.",
            ) from failure[0]

    def wait_until(
        self, ready: Callable[[], bool], *, steps: StartProgress, timeout_seconds: float
    ) -> bool:
        """Poll `ready` until it returns true. Returns False if the process ended first."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            if self._ended.wait(_POLL_SECONDS):
                return False
            steps.check()
            if ready():
                return True
        raise StackError(
            "start_timeout",
            f"{self.name} was not ready after {timeout_seconds:.0f} s.\n{self.log_tail()}",
            f"Read {self.log}; on a busy machine, try again.",
        )

    def stop(self, stop_signal: signal.Signals | None = None, *, timeout_seconds: float) -> None:
        """Request the process's end, and kill it with its children if it does not end."""
        if self._process is None or not self.running:
            return
        self._signal(stop_signal or self._stop_signal)
        if not self._ended.wait(timeout_seconds):
            self.kill()

    def kill(self) -> None:
        """End the process and its children with SIGKILL; return when all are gone."""
        if self._process is None or not self.running:
            return
        _kill_tree(self._process.pid)
        self._ended.wait()

    def recover(self, *, timeout_seconds: float) -> bool:
        """End processes that a killed run left; return whether there was one.

        Only a process with the recorded start time and our directory in its command line is ours:
        process ids are reused.
        """
        left_over = self._left_over()
        if left_over is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                left_over.send_signal(self._stop_signal)
                left_over.resume()  # a stopped process ends only when it runs
            deadline = time.monotonic() + timeout_seconds
            while _alive(left_over) and time.monotonic() < deadline:
                threading.Event().wait(_POLL_SECONDS)
            if _alive(left_over):
                _kill_tree(left_over.pid)
        self._record.unlink(missing_ok=True)
        return left_over is not None

    def log_tail(self) -> str:
        """Return the last lines that this start wrote, for a message."""
        try:
            with self.log.open("rb") as log:
                log.seek(self._log_start_bytes)
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_LOG_LINES_SHOWN:])

    def _rotate_log(self) -> int:
        """Move a long log of earlier runs aside; return the size of the one to append to."""
        size_bytes = self.log.stat().st_size if self.log.exists() else 0
        if size_bytes < _LOG_BYTES_MAX:
            return size_bytes
        self.log.replace(self.log.with_suffix(".log.1"))
        return 0

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _write_record(self, pid: int) -> None:
        try:
            created = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        fresh = self._record.with_suffix(".new")
        fresh.write_text(json.dumps({"pid": pid, "created": created}))
        fresh.replace(self._record)

    def _left_over(self) -> psutil.Process | None:
        try:
            record = cast("dict[str, float]", json.loads(self._record.read_text()))
            process = psutil.Process(int(record["pid"]))
            same_start = abs(process.create_time() - record["created"]) < _SAME_START_SECONDS
            ours = any(self._marker in part for part in process.cmdline())
        except (FileNotFoundError, ValueError, KeyError, psutil.Error):
            return None
        return process if same_start and ours and _alive(process) else None


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _kill_tree(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    while any(_alive(member) for member in family):
        threading.Event().wait(_POLL_SECONDS)
