"""Settings every process shares; each process adds its own in a class derived from this one."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Where the services are. Read from DUELEDGER_… variables; secrets never print."""

    model_config = SettingsConfigDict(env_prefix="DUELEDGER_", frozen=True, extra="ignore")

    dsn: SecretStr = Field(description="Postgres, as postgresql://user:password@host:port/name")
    bootstrap_servers: str = Field(
        default="127.0.0.1:9092", description="Kafka, as host:port[,host:port]"
    )
    topic_partitions: int = Field(
        default=4, ge=1, le=1000, description="partitions of a topic that has to be made"
    )
    topic_replication: int = Field(
        default=1, ge=1, le=10, description="replicas of a topic that has to be made"
    )
