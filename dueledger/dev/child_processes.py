"""The processes of an installation, as children of a supervisor."""

import os
from collections.abc import Sequence
from typing import Final

from dueledger.dev.supervisor import ChildSpec
from dueledger.stack import BOOTSTRAP_SERVERS_VARIABLE, DSN_VARIABLE, Endpoints

ALLOCATOR: Final = ChildSpec("allocator", ("allocate",))
MATERIALISER: Final = ChildSpec("materialiser", ("materialise",))
INTAKE: Final = ChildSpec("intake", ("intake",))
OUTCOMES: Final = ChildSpec("outcomes", ("work", "--outcomes"))
RECONCILER: Final = ChildSpec("reconciler", ("reconcile",))
_KAFKA_PREFIX: Final = "DUELEDGER_KAFKA_"


def forget_kafka_security() -> None:
    """Remove the security of another Kafka from the environment: the embedded broker has none."""
    for name in list(os.environ):
        if name.upper().startswith(_KAFKA_PREFIX):
            del os.environ[name]


def process_environment(endpoints: Endpoints) -> dict[str, str]:
    """Return the environment of a process that uses these servers."""
    return {
        **os.environ,
        DSN_VARIABLE: endpoints.dsn,
        BOOTSTRAP_SERVERS_VARIABLE: endpoints.bootstrap_servers,
    }


def worker(number: int, handlers: Sequence[str]) -> ChildSpec:
    """Return the spec of one worker; `handlers` are as in ``module:name``."""
    return ChildSpec(f"worker-{number}", ("work", *handlers))
