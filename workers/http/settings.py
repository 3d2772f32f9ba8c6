"""The settings of a worker that sends items by HTTP."""

import json
from collections.abc import Callable
from ipaddress import ip_network
from typing import Annotated, Final, cast

from pydantic import BeforeValidator, Field, FilePath, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode, SettingsConfigDict

from dueledger.workers.direct.settings import DirectSettings
from dueledger.workers.http.addresses import Network
from dueledger.workers.http.allow_list import AllowedOrigin, read_origin
from dueledger.workers.http.redaction import SECRET_CHARS_MIN
from dueledger.workers.settings import WorkerSettings

_NO_SECRETS: Final = 'not a JSON object such as {"acme/renewals": "whsec_…"}'


def _words(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _read_origins(value: object) -> object:
    return _each(_words(value), read_origin)


def read_networks(value: object) -> object:
    """Read networks, separated by spaces or commas."""
    return _each(_words(value), ip_network)


def _each(words: object, read: Callable[[str], object]) -> object:
    if not isinstance(words, tuple):
        return words
    try:
        return tuple(
            read(word) if isinstance(word, str) else word
            for word in cast("tuple[object, ...]", words)
        )
    except ValueError as error:
        raise _refused(str(error)) from None


def _refused(reason: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{reason}", {"reason": reason})


def _read_secrets(value: object) -> object:
    """Read a JSON object. No message quotes any of it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise _refused(_NO_SECRETS)
    secrets = cast("dict[str, object]", value)
    for name, secret in secrets.items():
        tenant, _, rest = name.partition("/")
        if not (tenant and rest):
            raise _refused("a name is not <tenant>/<name>")
        text = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
        if not isinstance(text, str) or len(text) < SECRET_CHARS_MIN:
            raise _refused(f"{name!r} is not a text of {SECRET_CHARS_MIN} characters or more")
        if not (text.isascii() and text.isprintable()):
            raise _refused(f"{name!r} has a character that a header cannot contain")
    return secrets


class HttpSettings(WorkerSettings):
    """Limits of one process that sends items by HTTP."""

    model_config = SettingsConfigDict(hide_input_in_errors=True)

    http_allowed_origins: Annotated[
        tuple[AllowedOrigin, ...], NoDecode, BeforeValidator(_read_origins)
    ] = Field(
        default=(),
        description="origins that may be called, separated by commas: hooks.example.com, "
        "https://*.example.com:8443, http://billing.internal; * means every host by https",
    )
    http_allowed_networks: Annotated[
        tuple[Network, ...], NoDecode, BeforeValidator(read_networks)
    ] = Field(
        default=(),
        description="non-public networks that may be called, separated by commas: 10.2.0.0/16",
    )
    http_secrets: Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_read_secrets)] = Field(
        default_factory=dict,
        description='secrets by tenant and name, as JSON: {"acme/renewals": "whsec_…"}; '
        "several signing keys separated by spaces during a rotation",
    )
    http_ca_file: FilePath | None = Field(
        default=None, description="certificates in PEM that are trusted in addition to the system's"
    )
    http_refresh_seconds: float = Field(
        default=5.0, gt=0, le=300, description="how often endpoints are read from the ledger"
    )


class DirectHttpSettings(HttpSettings, DirectSettings):
    """Limits of one process that claims the items it sends itself, without Kafka."""
