"""The same two servers in containers, for machines with Docker."""

import secrets
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from dueledger.stack import free_ports
from dueledger.stack.endpoints import Endpoints, StackError

POSTGRES_IMAGE: Final = (
    "postgres:18.6-trixie@sha256:5a5a84b19854a9ffaa54082c166ff4ec27473a361e496e5ea167f298f2da9722"
)
KAFKA_IMAGE: Final = (
    "apache/kafka:4.3.1@sha256:77e3df9054047a88b520d0cc46e16696d3b22022e1d580aeccd2632df6532837"
)

_START_SECONDS: Final = 120
_POSTGRES_PORT: Final = 5432
_CONTROLLER_PORT: Final = 9093
_POSTGRES_COMMAND: Final = (
    "postgres -c max_connections=200 -c max_locks_per_transaction=256 -c shared_buffers=512MB"
    " -c max_wal_size=4GB -c checkpoint_timeout=15min -c wal_compression=on -c jit=off"
)


@contextmanager
def open_containers(
    *, durable: bool = True, progress: Callable[[str], None] | None = None
) -> Generator[Endpoints]:
    """Run both images for the length of the block. Their data is deleted with them."""
    try:
        from docker.errors import DockerException  # noqa: PLC0415  (of the test extra)
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415
        from testcontainers.core.wait_strategies import (  # noqa: PLC0415
            ExecWaitStrategy,
            LogMessageWaitStrategy,
        )
    except ImportError as error:
        raise StackError(
            "testcontainers_missing",
            "Containers cannot be started: the package testcontainers is missing.",
            "Install dueledger[test], or use the embedded or external provider.",
        ) from error

    report = progress or _silent
    password = secrets.token_urlsafe(24)
    fsync = "on" if durable else "off"
    broker = free_ports.free()  # a broker needs its outer port before it starts
    with ExitStack() as running:
        try:
            postgres = DockerContainer(POSTGRES_IMAGE).with_exposed_ports(_POSTGRES_PORT)
            postgres.with_env("POSTGRES_PASSWORD", password)
            postgres.with_command(f"{_POSTGRES_COMMAND} -c fsync={fsync}")
            # By TCP: while the image prepares the cluster it answers on its socket only.
            ready = ExecWaitStrategy(["pg_isready", "-h", "127.0.0.1", "-U", "postgres"])
            postgres.waiting_for(ready.with_startup_timeout(_START_SECONDS))
            report(f"postgres: starting {POSTGRES_IMAGE}")
            running.enter_context(postgres)

            kafka = DockerContainer(KAFKA_IMAGE).with_bind_ports(broker, broker)
            host = kafka.get_docker_client().host()
            kafka.with_envs(**_kafka_settings(host, broker))
            kafka.waiting_for(
                LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(_START_SECONDS)
            )
            report(f"kafka: starting {KAFKA_IMAGE}")
            running.enter_context(kafka)
        except (DockerException, TimeoutError) as error:
            raise StackError(
                "containers_unavailable",
                f"The containers cannot be started: {error}",
                "Check that `docker run hello-world` works for this user, "
                "or use the embedded or external provider.",
            ) from error
        port = postgres.get_exposed_port(_POSTGRES_PORT)
        dsn = f"postgresql://postgres:{password}@{host}:{port}/postgres"
        yield Endpoints(dsn, f"{host}:{broker}")


def _silent(_step: str) -> None:
    pass


def _kafka_settings(host: str, broker: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"BROKER://:{broker},CONTROLLER://:{_CONTROLLER_PORT}",
        "KAFKA_ADVERTISED_LISTENERS": f"BROKER://{host}:{broker}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{_CONTROLLER_PORT}",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_MIN_INSYNC_REPLICAS": "1",
        "KAFKA_MESSAGE_MAX_BYTES": "8388608",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
    }
