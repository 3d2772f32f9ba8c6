"""Settings that all processes share. Each process adds its own in a derived class."""

from typing import Final

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PORT_MAX: Final = 65_535


class Settings(BaseSettings):
    """Addresses of Postgres and Kafka, read from DUELEDGER_… variables. Secrets never print."""

    model_config = SettingsConfigDict(env_prefix="DUELEDGER_", frozen=True, extra="ignore")

    dsn: SecretStr = Field(description="Postgres, as postgresql://user:password@host:port/name")
    bootstrap_servers: str = Field(
        default="127.0.0.1:9092", description="Kafka, as host:port[,host:port]"
    )
    topic_partitions: int = Field(
        default=4, ge=1, le=1000, description="partitions of a topic that is created"
    )
    topic_replication: int = Field(
        default=1, ge=1, le=10, description="replicas of a topic that is created"
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _have_ports(cls, servers: str) -> str:
        for server in servers.split(","):
            host, _, port = server.strip().rpartition(":")
            digits = port.isascii() and port.isdigit()
            if not host or not digits or not 0 < int(port) <= PORT_MAX:
                raise ValueError("each must be host:port, with a port from 1 to 65535")
        return servers
