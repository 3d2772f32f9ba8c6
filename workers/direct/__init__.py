"""Direct mode: workers that claim due rows themselves, without Kafka."""

from dueledger.workers.direct.settings import DirectSettings
from dueledger.workers.direct.worker import run_direct_worker

__all__ = ["DirectSettings", "run_direct_worker"]
