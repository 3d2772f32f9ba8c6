"""Settings of processes and policies of kinds for tests: every deadline passes during one."""

from collections.abc import Mapping
from typing import Any, Final

REQUEST_SECONDS: Final = 2.0
PARTITIONS: Final = 4
SETTINGS: Final = {
    "DUELEDGER_TOPIC_PARTITIONS": str(PARTITIONS),
    "DUELEDGER_ALLOCATOR_REQUEST_SECONDS": str(REQUEST_SECONDS),
    "DUELEDGER_ALLOCATOR_SEND_SECONDS": str(REQUEST_SECONDS + 1),
    "DUELEDGER_ALLOCATOR_DRAIN_SECONDS": "2",
    "DUELEDGER_ALLOCATOR_TOPIC_SUSPEND_SECONDS": "0.5",
    "DUELEDGER_ALLOCATOR_REAP_SECONDS": "0.2",
    "DUELEDGER_ALLOCATOR_IDLE_SECONDS": "0.2",
    "DUELEDGER_WORKER_LEASE_SECONDS": "3",
    "DUELEDGER_WORKER_SESSION_TIMEOUT_SECONDS": "6",
    "DUELEDGER_OUTCOME_SESSION_SECONDS": "6",
    "DUELEDGER_WORKER_DRAIN_SECONDS": "5",
    "DUELEDGER_DIRECT_UPKEEP_SECONDS": "0.2",
    "DUELEDGER_MATERIALISE_HORIZON_SECONDS": "10",
    "DUELEDGER_MATERIALISE_STRIDE_SECONDS": "5",
    "DUELEDGER_MATERIALISE_RETRY_SECONDS": "1",
    "DUELEDGER_MATERIALISE_IDLE_SECONDS": "0.2",
}
POLICY: Final[Mapping[str, Any]] = {
    "dispatch_seconds": 2,
    "queue_seconds": 3,
    "lease_seconds": 3,
    "attempt_max": 1000,
    "start_max": 10_000,
    "backoff_base_seconds": 0.05,
    "backoff_cap_seconds": 0.5,
}
