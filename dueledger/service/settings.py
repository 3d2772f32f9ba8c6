"""Settings of the REST service."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dueledger.ledger.definitions.http_url import InvalidUrl, read_url
from dueledger.ledger.errors import UnknownZone
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.schedule.zones import load_zone

PORT_MAX = 65_535


class ServiceSettings(Settings):
    """Where the service listens, whom it trusts, and its limits.

    Beyond loopback it listens only with a certificate, or behind proxies that are named.
    """

    service_host: IPv4Address | IPv6Address = Field(
        default=IPv4Address("127.0.0.1"), description="address on which it listens"
    )
    service_port: int = Field(
        default=8480, ge=0, le=PORT_MAX, description="port on which it listens; 0: any free one"
    )
    service_certificate: Path | None = Field(
        default=None, description="file with its certificate and those that signed it, as PEM"
    )
    service_certificate_key: Path | None = Field(
        default=None, description="file with the key of the certificate, as PEM"
    )
    service_trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(),
        description="networks of the proxies that encrypt for it, as a JSON list; "
        "X-Forwarded-For and X-Forwarded-Proto of others are ignored",
    )
    service_path_prefix: str = Field(
        default="",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        max_length=200,
        description="path under which a proxy has it, as /dueledger",
    )
    service_connections_max: int = Field(
        default=8, ge=2, le=200, description="connections to Postgres"
    )
    service_requests_max: int = Field(
        default=2_000,
        ge=1,
        le=10_000,
        description="requests at a time, long polls among them, of one caller at most three "
        "quarters; others get 503",
    )
    service_rate_per_second: float = Field(
        default=200.0,
        gt=0,
        le=100_000,
        description="requests a second of one key name or subject, unless its key has a rate",
    )
    service_rate_burst: int = Field(
        default=1_000, ge=1, le=1_000_000, description="requests that one may make at once before"
    )
    service_body_bytes_max: int = Field(
        default=8 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="size of a body"
    )
    service_body_seconds: float = Field(
        default=30.0, gt=0, le=600, description="time in which a body must arrive"
    )
    service_claim_bytes_max: int = Field(
        default=8 * 1024 * 1024,
        ge=1024 * 1024,
        le=256 * 1024 * 1024,
        description="size of all payloads that a claim answers; other items stay due",
    )
    service_drain_seconds: float = Field(
        default=10.0, gt=0, le=600, description="time for open requests after a stop"
    )

    service_session_hours: float = Field(
        default=12.0, gt=0, le=720, description="hours after which a session of the console ends"
    )

    service_zones: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="time zones of tenants, in which their people may see times in the console, "
        'as {"acme": "Europe/Berlin"}',
    )

    service_kafka_ui: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s{}/]+/[^\s{}]*(\{(topic|partition|offset)\}[^\s{}]*)+$",
        max_length=1_000,
        description="address of a record in a UI for Kafka, to which the console links, as "
        "https://kafka-ui.example/topics/{topic}?partition={partition}&offset={offset}",
    )

    service_oidc_issuer: str | None = Field(
        default=None,
        description="address of the OpenID Connect issuer whose tokens are taken beside API keys; "
        "https unless it is on loopback",
    )
    service_oidc_audience: str | None = Field(
        default=None, min_length=1, description="what a token must name in `aud`: this service"
    )
    service_oidc_scopes_claim: str = Field(
        default="scope", min_length=1, description="claim of a token with its scopes"
    )
    service_oidc_tenants_claim: str = Field(
        default="tenants", min_length=1, description="claim of a token with its tenants"
    )
    service_oidc_every_tenant: str = Field(
        default="*", min_length=1, description="value in that claim that means every tenant"
    )
    service_oidc_client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="client that the console is at the issuer: people sign in there",
    )
    service_oidc_client_secret: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="secret of that client; none: a public client, by PKCE alone",
    )
    service_oidc_login_scopes: str = Field(
        default="openid",
        pattern=r"^openid( [!#-\[\]-~]+)*$",
        max_length=1_000,
        description="scopes that a sign-in asks the issuer for, so that its tokens have the claims",
    )
    service_oidc_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(),
        description="non-public networks in which the issuer may be, as a JSON list",
    )

    @field_validator("service_zones")
    @classmethod
    def _refuse_unknown_zones(cls, zones: dict[str, str]) -> dict[str, str]:
        for zone in zones.values():
            try:
                load_zone(zone)
            except UnknownZone as error:
                reason, accepted = "a zone is not in the tz database", error.problems[0].accepted
                raise _contradiction("DUELEDGER_SERVICE_ZONES", reason, accepted or "") from None
        return zones

    @model_validator(mode="after")
    def _refuse_unsafe_issuer(self) -> Self:
        issuer = self.service_oidc_issuer
        if (issuer is None) != (self.service_oidc_audience is None):
            raise _contradiction(
                "DUELEDGER_SERVICE_OIDC_AUDIENCE",
                "an issuer signs tokens for many services",
                "issuer and audience, or neither",
            )
        if issuer is None:
            if self.service_oidc_client_id is not None:
                raise _contradiction(
                    "DUELEDGER_SERVICE_OIDC_CLIENT_ID", "a client is one of an issuer", "an issuer"
                )
            return self
        variable, accepted = "DUELEDGER_SERVICE_OIDC_ISSUER", "an address with https"
        try:
            url = read_url(issuer)
        except InvalidUrl as error:
            raise _contradiction(variable, error.reason, accepted) from None
        is_loopback = url.address is not None and url.address.is_loopback
        if url.query or (url.scheme != "https" and not is_loopback):
            raise _contradiction(variable, "its keys could be replaced on their way", accepted)
        return self

    @model_validator(mode="after")
    def _refuse_plain_text_beyond_loopback(self) -> Self:
        if (self.service_certificate is None) != (self.service_certificate_key is None):
            raise _contradiction(
                "DUELEDGER_SERVICE_CERTIFICATE_KEY",
                "a certificate and its key belong together",
                "both files, or neither",
            )
        is_encrypted = self.service_certificate is not None or self.service_trusted_proxies
        if not self.service_host.is_loopback and not is_encrypted:
            raise _contradiction(
                "DUELEDGER_SERVICE_HOST",
                "beyond loopback, API keys would be sent in the clear",
                "127.0.0.1, or set DUELEDGER_SERVICE_CERTIFICATE or "
                "DUELEDGER_SERVICE_TRUSTED_PROXIES",
            )
        return self


def _contradiction(variable: str, reason: str, accepted: str) -> PydanticCustomError:
    return PydanticCustomError(
        "contradiction",
        "{variable}: {reason}",
        {"variable": variable, "reason": reason, "accepted": accepted},
    )
