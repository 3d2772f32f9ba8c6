from collections.abc import Mapping
from enum import IntEnum

class ConfigResourceType(IntEnum):
    BROKER = ...
    TOPIC = ...

class ConfigResource:
    def __init__(
        self,
        resource_type: ConfigResourceType,
        name: str,
        configs: Mapping[str, str | None] | None = ...,
    ) -> None: ...
