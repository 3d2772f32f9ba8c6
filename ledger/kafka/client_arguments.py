"""The arguments of every Kafka client: addresses, TLS, login and group, from the settings.

No other module gives them to a client. Files are read for each new client, a token for each login,
so that new ones are used without a restart. Secrets are in no message.
"""

import asyncio
from pathlib import Path
from ssl import SSLContext, SSLError, create_default_context
from stat import S_ISREG
from typing import Final, Literal, TypedDict, final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConfigurationError

from dueledger.ledger.errors import InvalidSetting, Problem, UnreadableFile
from dueledger.ledger.kafka.lost_connections import expect_lost_connections
from dueledger.ledger.runtime.kafka_settings import KafkaSettings, SaslMechanism, variable_of
from dueledger.ledger.runtime.text_file import SECRET_BYTES_MAX, read_text

HEARTBEAT_SECONDS_MAX: Final = 0.5
"""A member hears of a rebalance by its next heartbeat, and nobody reads until all have heard."""
METADATA_SECONDS: Final = 10
"""By then a member sees a new topic. The default of Kafka's client is 300 s."""
RETRY_MILLISECONDS: Final = 100

_UNUSABLE: Final = "Kafka cannot be used with these settings:"


class ClientArguments(TypedDict):
    """The arguments, by aiokafka's names."""

    bootstrap_servers: str
    security_protocol: str
    ssl_context: SSLContext | None
    sasl_mechanism: str
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: AbstractTokenProvider | None


class MemberArguments(TypedDict):
    """The arguments of a member of a consumer group, by aiokafka's names."""

    group_id: str
    enable_auto_commit: bool
    auto_offset_reset: Literal["earliest"]
    isolation_level: Literal["read_committed"]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int


def member_arguments(
    group: str, *, session_seconds: float, retry_milliseconds: int = RETRY_MILLISECONDS
) -> MemberArguments:
    """Return what makes a consumer a member that commits its offsets itself and skips no record."""
    heartbeat_seconds = min(session_seconds / 3, HEARTBEAT_SECONDS_MAX)
    return MemberArguments(
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",  # skips records of aborted transactions
        session_timeout_ms=int(session_seconds * 1000),
        heartbeat_interval_ms=int(heartbeat_seconds * 1000),
        metadata_max_age_ms=METADATA_SECONDS * 1000,
        retry_backoff_ms=retry_milliseconds,
    )


def client_arguments(settings: KafkaSettings) -> ClientArguments:
    """Read the files that the settings name, and return the arguments of one client.

    Raises InvalidSetting if a file cannot be used.
    """
    expect_lost_connections()
    protocol = settings.kafka_security_protocol
    token_provider = None
    if settings.kafka_sasl_token_file is not None:
        token_provider = _TokenFile(Path(settings.kafka_sasl_token_file))
        token_provider.read()
    return ClientArguments(
        bootstrap_servers=settings.bootstrap_servers,
        security_protocol=protocol,
        ssl_context=_ssl_context(settings) if protocol.has_tls else None,
        sasl_mechanism=settings.kafka_sasl_mechanism or SaslMechanism.PLAIN,
        sasl_plain_username=settings.kafka_sasl_username,
        sasl_plain_password=_password(settings),
        sasl_oauth_token_provider=token_provider,
    )


@final
class _TokenFile(AbstractTokenProvider):
    """Reads the token of OAUTHBEARER from a file that somebody else renews."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        """Return the token. Raises KafkaConfigurationError, which aiokafka logs, and it retries."""
        try:
            return await asyncio.to_thread(self.read)
        except InvalidSetting as error:
            raise KafkaConfigurationError(str(error.problems[0])) from None

    def read(self) -> str:
        """Return the token. Raises InvalidSetting if the file has none."""
        token = _read_secret("kafka_sasl_token_file", self._path).strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise _unusable("kafka_sasl_token_file", self._path, "does not contain one token")
        return token


def _password(settings: KafkaSettings) -> str | None:
    if settings.kafka_sasl_password is not None:
        return settings.kafka_sasl_password.get_secret_value()
    if settings.kafka_sasl_password_file is None:
        return None
    path = Path(settings.kafka_sasl_password_file)
    password = _read_secret("kafka_sasl_password_file", path).rstrip("\r\n")
    if not password or "\0" in password or "\n" in password:
        raise _unusable("kafka_sasl_password_file", path, "does not contain one line, the password")
    return password


def _ssl_context(settings: KafkaSettings) -> SSLContext:
    """Return a context that checks the broker's certificate and its name."""
    cafile, certfile = settings.kafka_ssl_cafile, settings.kafka_ssl_certfile
    if cafile is not None:
        _check_readable("kafka_ssl_cafile", Path(cafile))
    try:
        context = create_default_context(cafile=cafile)
    except SSLError:
        reason = "has no certificate in PEM"
        raise _unusable("kafka_ssl_cafile", Path(cafile or ""), reason) from None
    if certfile is None:
        return context
    keyfile, secret = settings.kafka_ssl_keyfile, settings.kafka_ssl_key_password
    _check_readable("kafka_ssl_certfile", Path(certfile))
    if keyfile is not None:
        _check_readable("kafka_ssl_keyfile", Path(keyfile))
    # Always given: without a password OpenSSL would wait for one at the terminal.
    password = "" if secret is None else secret.get_secret_value()
    try:
        context.load_cert_chain(certfile, keyfile, lambda: password)
    except SSLError as error:
        raise _unusable("kafka_ssl_certfile", Path(certfile), _certificate_fault(error)) from None
    return context


def _certificate_fault(error: SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"does not belong to the key ({variable_of('kafka_ssl_keyfile')})"
    return (
        f"or its key ({variable_of('kafka_ssl_keyfile')}) is not in PEM, or the key's password "
        f"({variable_of('kafka_ssl_key_password')}) is missing or wrong"
    )


def _check_readable(setting: str, path: Path) -> None:
    """Raise InvalidSetting for a file that cannot be read: OpenSSL does not name it."""
    try:
        if is_file := S_ISREG(path.stat().st_mode):
            path.open("rb").close()
    except OSError as error:
        reason = f"cannot be read: {error.strerror or type(error).__name__}"
        raise _unusable(setting, path, reason) from None
    if not is_file:  # OpenSSL would wait for the writer of a pipe
        raise _unusable(setting, path, "is not a file")


def _read_secret(setting: str, path: Path) -> str:
    try:
        return read_text(path, SECRET_BYTES_MAX)
    except UnreadableFile as error:
        raise _unusable(setting, path, error.reason) from None


def _unusable(setting: str, path: Path, reason: str) -> InvalidSetting:
    problem = Problem(variable_of(setting), "", f"{path} {reason}")
    return InvalidSetting(_UNUSABLE, [problem])
