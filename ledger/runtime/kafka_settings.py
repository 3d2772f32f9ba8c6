"""How to reach Kafka: its addresses, TLS, and the login. Every process with Kafka has them."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

PORT_MAX: Final = 65_535
KEY_PASSWORD_CHARS_MAX: Final = 1_000  # OpenSSL's limit is 1,023 bytes

_Text = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
_Password = Annotated[SecretStr, Field(min_length=1)]
_KeyPassword = Annotated[SecretStr, Field(min_length=1, max_length=KEY_PASSWORD_CHARS_MAX)]
_PREFIX: Final = "DUELEDGER_"


class SecurityProtocol(StrEnum):
    """How a client speaks to a listener of Kafka, by Kafka's own names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_login(self) -> bool:
        """Return whether the client logs in by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class SaslMechanism(StrEnum):
    """How a client logs in."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class KafkaSettings(BaseSettings):
    """Addresses, security and new topics of Kafka, from DUELEDGER_… variables.

    Secrets never print. Settings that contradict each other are refused, by the name of the one to
    change.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092", description="Kafka, as host:port[,host:port]"
    )
    kafka_security_protocol: SecurityProtocol = Field(
        default=SecurityProtocol.PLAINTEXT, description="protocol of the brokers' listener"
    )
    kafka_sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="how to log in, for SASL_SSL and SASL_PLAINTEXT"
    )
    kafka_sasl_username: _Text | None = Field(
        default=None, description="user name, for PLAIN and SCRAM"
    )
    kafka_sasl_password: _Password | None = Field(
        default=None, description="password, for PLAIN and SCRAM"
    )
    kafka_sasl_password_file: _Text | None = Field(
        default=None, description="file with the password, read for each new client"
    )
    kafka_sasl_token_file: _Text | None = Field(
        default=None, description="file with the token of OAUTHBEARER, read for each login"
    )
    kafka_ssl_cafile: _Text | None = Field(
        default=None,
        description="authorities in PEM that sign the brokers' certificates, instead of the "
        "system's",
    )
    kafka_ssl_certfile: _Text | None = Field(
        default=None, description="client certificate in PEM, with its chain"
    )
    kafka_ssl_keyfile: _Text | None = Field(
        default=None, description="key of the client certificate in PEM, if in a file of its own"
    )
    kafka_ssl_key_password: _KeyPassword | None = Field(
        default=None, description="password of an encrypted key"
    )
    topic_partitions: int = Field(
        default=4, ge=1, le=1000, description="partitions of a topic that is created"
    )
    topic_replication: int = Field(
        default=1,
        ge=1,
        le=10,
        description="replicas of a topic that is created: more than the brokers' "
        "min.insync.replicas, as `dueledger doctor` checks",
    )

    @property
    def names_kafka(self) -> bool:
        """Return whether Kafka's address was given: without Kafka it is the default."""
        return "bootstrap_servers" in self.model_fields_set

    @field_validator("bootstrap_servers")
    @classmethod
    def _have_ports(cls, servers: str) -> str:
        for server in servers.split(","):
            host, _, port = server.strip().rpartition(":")
            digits = port.isascii() and port.isdigit()
            if not host or not digits or not 0 < int(port) <= PORT_MAX:
                raise ValueError("each must be host:port, with a port from 1 to 65535")
        return servers

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        protocol = self.kafka_security_protocol
        login, tls = self._given("kafka_sasl_"), self._given("kafka_ssl_")
        if login and not protocol.has_login:
            reason = f"{protocol} has no login, but {variable_of(login[0])} is set"
            raise _refused("kafka_security_protocol", reason, "SASL_SSL")
        if tls and not protocol.has_tls:
            reason = f"{protocol} has no TLS, but {variable_of(tls[0])} is set"
            accepted = "SASL_SSL" if protocol.has_login else "SSL"
            raise _refused("kafka_security_protocol", reason, accepted)
        if protocol.has_login:
            self._check_login(protocol)
        for name in ("kafka_ssl_keyfile", "kafka_ssl_key_password"):
            if getattr(self, name) is not None and self.kafka_ssl_certfile is None:
                reason = f"{variable_of(name)} is set, and the certificate is missing"
                raise _refused("kafka_ssl_certfile", reason, "the path of the client certificate")
        return self

    def _check_login(self, protocol: SecurityProtocol) -> None:
        mechanism = self.kafka_sasl_mechanism
        if mechanism is None:
            accepted = ", ".join(SaslMechanism)
            raise _refused("kafka_sasl_mechanism", f"{protocol} needs it", f"one of {accepted}")
        if mechanism is SaslMechanism.OAUTHBEARER:
            needed, others = "a token", ("username", "password", "password_file")
            instead = variable_of("kafka_sasl_token_file")
        else:
            needed, others = "user name and password", ("token_file",)
            instead = variable_of("kafka_sasl_username")
        for name in (f"kafka_sasl_{other}" for other in others):
            if getattr(self, name) is not None:
                reason = f"{mechanism} logs in by {needed}"
                raise _refused(name, reason, f"nothing here, and set {instead}")
        if mechanism is SaslMechanism.OAUTHBEARER:
            if self.kafka_sasl_token_file is None:
                accepted = "the path of the file with the token"
                raise _refused("kafka_sasl_token_file", f"{mechanism} needs it", accepted)
            return
        if self.kafka_sasl_username is None:
            raise _refused("kafka_sasl_username", f"{mechanism} needs it", "the user's name")
        if (self.kafka_sasl_password is None) == (self.kafka_sasl_password_file is None):
            file = variable_of("kafka_sasl_password_file")
            reason = f"{mechanism} needs the password, here or in {file}, and not in both"
            raise _refused("kafka_sasl_password", reason, f"the password, or set only {file}")

    def _given(self, prefix: str) -> list[str]:
        fields = type(self).model_fields
        return [
            name for name in fields if name.startswith(prefix) and getattr(self, name) is not None
        ]


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"{_PREFIX}{setting.upper()}"


def _refused(setting: str, reason: str, accepted: str) -> PydanticCustomError:
    """Return the error of a check across settings; `setting` is the one to change."""
    context = {"variable": variable_of(setting), "reason": reason, "accepted": accepted}
    return PydanticCustomError("refused", "{variable}: {reason}", context)
