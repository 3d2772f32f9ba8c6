"""The REST interface: requests under the rights of API keys, and what answers them."""

from dueledger.service.process import RunningService, open_service, run_service_process
from dueledger.service.settings import ServiceSettings

__all__ = ["RunningService", "ServiceSettings", "open_service", "run_service_process"]
