"""Settings of the process that sends alerts: its channels."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, SecretStr, StringConstraints, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode

from dueledger.alerts.rules import DATABASE_BYTES_MAX
from dueledger.ledger.runtime.settings import Settings
from dueledger.workers.http.addresses import Network
from dueledger.workers.http.settings import read_networks

_Topic = Annotated[str, StringConstraints(min_length=1, max_length=249)]


def _words(value: Any) -> Any:  # noqa: ANN401 - of the environment, or a call's
    return tuple(value.split()) if isinstance(value, str) else value


class AlertSettings(Settings):
    """Where alerts are sent. At least one channel is needed."""

    alert_webhook_url: str | None = Field(
        default=None, max_length=2_000, description="address that alerts are posted to, as JSON"
    )
    alert_webhook_secret: SecretStr | None = Field(
        default=None,
        description="whsec_… keys that sign what is posted, separated by spaces in a rotation",
    )
    alert_webhook_networks: Annotated[
        tuple[Network, ...], NoDecode, BeforeValidator(read_networks)
    ] = Field(
        default=(),
        description="private networks, such as 10.0.0.0/8, in which the address may lie",
    )
    alert_apprise_urls: Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_words)] = Field(
        default=(),
        description="chats and mailboxes as URLs of apprise, separated by spaces",
    )
    alert_topic: _Topic | None = Field(
        default=None, description="topic of Kafka that alerts are published to"
    )

    alert_interval_seconds: float = Field(
        default=15.0, ge=1, le=60, description="pause between two evaluations of the rules"
    )
    alert_database_bytes_max: float = Field(
        default=DATABASE_BYTES_MAX,
        gt=0,
        le=1e18,
        description="size of the database above which DatabaseLarge fires; 4/5 of its disk",
    )

    @model_validator(mode="after")
    def _has_a_channel(self) -> Self:
        if self.alert_webhook_url is None and not self.alert_apprise_urls and not self.alert_topic:
            raise _refused(
                "DUELEDGER_ALERT_WEBHOOK_URL",
                "there is no channel",
                "an address, or set DUELEDGER_ALERT_APPRISE_URLS or DUELEDGER_ALERT_TOPIC",
            )
        if (self.alert_webhook_url is None) != (self.alert_webhook_secret is None):
            raise _refused(
                "DUELEDGER_ALERT_WEBHOOK_SECRET",
                "what is posted is signed",
                "both the address and its key, or neither",
            )
        return self


def _refused(variable: str, reason: str, accepted: str) -> PydanticCustomError:
    context = {"variable": variable, "reason": reason, "accepted": accepted}
    return PydanticCustomError("refused", "{variable}: {reason}", context)
