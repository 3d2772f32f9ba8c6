"""Why a client cannot use a server of Kafka, in plain words, for `dueledger doctor`."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLCertVerificationError, SSLError
from typing import Final

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.runtime.kafka_settings import (
    KafkaSettings,
    SaslMechanism,
    SecurityProtocol,
    variable_of,
)

CHECK_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0
# How aiokafka says that the responses make no sense: the server is no broker, or pretends to be.
_SENSELESS: Final = (AssertionError, LookupError, ValueError)

# OpenSSL's numbers of faults of a certificate.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME: Final = frozenset({62, 64})

_SERVERS: Final = variable_of("bootstrap_servers")
_PROTOCOL: Final = variable_of("kafka_security_protocol")
_MECHANISM: Final = variable_of("kafka_sasl_mechanism")
_CAFILE: Final = variable_of("kafka_ssl_cafile")
_CERTFILE: Final = variable_of("kafka_ssl_certfile")


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """Why a client cannot use a server, and what to do."""

    reason: str
    remedy: str


async def find_connect_failure(settings: KafkaSettings, server: str) -> ConnectFailure | None:
    """Connect to one server, log in, and ask for its brokers; return why that fails, else None.

    Raises InvalidSetting if a file that the settings name cannot be used.
    """
    arguments = client_arguments(settings)
    host, _, port = server.rpartition(":")
    connection: AIOKafkaConnection | None = None
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            connection = await create_conn(
                host.strip("[]"),
                int(port),
                client_id="dueledger-doctor",
                request_timeout_ms=int(CHECK_SECONDS * 1000),
                ssl_context=arguments["ssl_context"],
                security_protocol=arguments["security_protocol"],
                sasl_mechanism=arguments["sasl_mechanism"],
                sasl_plain_username=arguments["sasl_plain_username"],
                sasl_plain_password=arguments["sasl_plain_password"],
                sasl_oauth_token_provider=arguments["sasl_oauth_token_provider"],
            )
            # A listener with a login tells its versions to anybody, and then nothing more.
            metadata = await connection.send(MetadataRequest([]))
            # Of a refused token aiokafka sees no error; the next response is empty.
            if not metadata.brokers:
                return _closed(settings)
    except (KafkaError, OSError, *_SENSELESS) as error:
        return _describe(error, settings, host)
    finally:
        if connection is not None:
            await _close(connection)
    return None


async def _close(connection: AIOKafkaConnection) -> None:
    closed = connection.close()
    if closed is not None:
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await closed


def _describe(error: Exception, settings: KafkaSettings, host: str) -> ConnectFailure:
    for cause in _causes(error):
        if isinstance(cause, SSLCertVerificationError):
            return _broker_certificate(cause, host)
        if isinstance(cause, SSLError) and "ALERT" in _reason(cause):
            return _alert(cause, settings)
        if isinstance(cause, KafkaError) and (failure := _describe_login(cause, settings)):
            return failure
    return _describe_connection(error, settings)


def _describe_login(error: KafkaError, settings: KafkaSettings) -> ConnectFailure | None:
    match error:
        case SaslAuthenticationFailed():
            return _login_refused(settings)
        case UnsupportedSaslMechanismError():
            return ConnectFailure(
                f"the broker does not offer the login {settings.kafka_sasl_mechanism}",
                f"set {_MECHANISM} to one that its listener offers",
            )
        case IllegalSaslStateError():
            return ConnectFailure(
                "this listener expects no login",
                f"set {_PROTOCOL} to {_without_login(settings)}, or use another port",
            )
        case KafkaConfigurationError():  # of the file with the token
            return ConnectFailure(str(error.args[0]), "correct the file")
        case _:
            return None


def _describe_connection(error: Exception, settings: KafkaSettings) -> ConnectFailure:
    protocol = settings.kafka_security_protocol
    address = f"start it, or correct {_SERVERS} (host:port[,host:port])"
    match error:
        case TimeoutError():
            return ConnectFailure(f"no answer within {CHECK_SECONDS:.0f} s", address)
        case SSLError() | ConnectionResetError() | ConnectionAbortedError() if protocol.has_tls:
            return ConnectFailure(
                "the server does not speak TLS on this port",
                f"use the port of the listener with TLS, or set {_PROTOCOL} to the listener's",
            )
        case KafkaConnectionError():
            return _closed(settings)
        case socket.gaierror():
            return ConnectFailure("the host is unknown", f"correct {_SERVERS}")
        case OSError():
            return ConnectFailure(f"it cannot be reached ({type(error).__name__})", address)
        case _:
            return ConnectFailure(
                f"its responses are not those of a broker ({type(error).__name__})",
                f"correct {_SERVERS} (host:port[,host:port])",
            )


def _closed(settings: KafkaSettings) -> ConnectFailure:
    """Return why a server probably closes a connection: Kafka gives no reason."""
    protocol = settings.kafka_security_protocol
    if settings.kafka_sasl_mechanism is SaslMechanism.OAUTHBEARER and protocol.has_tls:
        return _login_refused(settings)
    match protocol:
        case SecurityProtocol.PLAINTEXT:
            expected, wanted = "TLS or a login", "SSL, SASL_PLAINTEXT or SASL_SSL"
        case SecurityProtocol.SASL_PLAINTEXT:
            expected, wanted = "TLS, or another password or token", "SASL_SSL"
        case SecurityProtocol.SSL:
            expected, wanted = "a login", f"SASL_SSL, or set {_CERTFILE} if it wants a certificate"
        case SecurityProtocol.SASL_SSL:
            expected, wanted = "another login", "the listener's"
    return ConnectFailure(
        f"the server closed the connection; its listener probably expects {expected}",
        f"set {_PROTOCOL} to {wanted}",
    )


def _login_refused(settings: KafkaSettings) -> ConnectFailure:
    if settings.kafka_sasl_mechanism is SaslMechanism.OAUTHBEARER:
        file = variable_of("kafka_sasl_token_file")
        reason = f"the broker refuses the token of {settings.kafka_sasl_token_file}"
        return ConnectFailure(reason, f"renew the token in the file of {file}")
    return ConnectFailure(
        f"the broker refuses the user {settings.kafka_sasl_username!r} or the password",
        f"correct {variable_of('kafka_sasl_username')} and {variable_of('kafka_sasl_password')}, "
        f"or check that the user exists for {settings.kafka_sasl_mechanism}",
    )


def _broker_certificate(error: SSLCertVerificationError, host: str) -> ConnectFailure:
    match error.verify_code:
        case code if code in _UNKNOWN_AUTHORITY:
            return ConnectFailure(
                "the broker's certificate is signed by an unknown authority",
                f"set {_CAFILE} to the file with the certificate of that authority",
            )
        case code if code == _EXPIRED:
            return ConnectFailure("the broker's certificate has expired", "renew it on the broker")
        case code if code == _NOT_YET_VALID:
            return ConnectFailure(
                "the broker's certificate is not valid yet", "check the clocks of both machines"
            )
        case code if code in _OTHER_NAME:
            return ConnectFailure(
                f"the broker's certificate is not for {host}",
                f"use a name of the certificate in {_SERVERS}, or have it issued for {host}",
            )
        case _:
            return ConnectFailure(
                f"the broker's certificate cannot be trusted: {error.verify_message}",
                "have it issued again",
            )


def _alert(error: SSLError, settings: KafkaSettings) -> ConnectFailure:
    """Describe an error that the broker sent: nearly all concern the client's certificate."""
    if "CERT" not in _reason(error) and "UNKNOWN_CA" not in _reason(error):
        reason = f"the broker refuses TLS ({error.reason})"
        return ConnectFailure(reason, "compare the TLS versions of its listener")
    if settings.kafka_ssl_certfile is None:
        return ConnectFailure(
            "the broker wants a client certificate", f"set {_CERTFILE} (and its key)"
        )
    return ConnectFailure(
        f"the broker refuses the client certificate ({error.reason})",
        f"check that {settings.kafka_ssl_certfile} has not expired and that the broker trusts its "
        "authority",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _reason(error: SSLError) -> str:
    return (error.reason or "").upper().replace(" ", "_")


def _without_login(settings: KafkaSettings) -> SecurityProtocol:
    has_tls = settings.kafka_security_protocol.has_tls
    return SecurityProtocol.SSL if has_tls else SecurityProtocol.PLAINTEXT
