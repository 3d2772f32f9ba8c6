"""Checks of an installation: each is ok, warn or fail, with what to do."""

from collections.abc import AsyncIterator
from typing import Final

from dueledger.ledger.errors import InvalidSetting, Unavailable
from dueledger.ledger.kafka.broker_check import find_connect_failure
from dueledger.ledger.kafka.topics import read_min_insync
from dueledger.ledger.runtime.kafka_settings import SaslMechanism
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import open_connection
from dueledger.ledger_checks import DoctorCheck, Health, check_ledger, check_machine

_SENT_AS_THEY_ARE: Final = frozenset({SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER})


async def run_checks(settings: Settings) -> AsyncIterator[DoctorCheck]:
    """Yield the checks, cheap ones first."""
    for check in check_machine():
        yield check
    try:
        async with open_connection(
            settings.dsn.get_secret_value(), application_name="dueledger-doctor"
        ) as connection:
            for check in await check_ledger(connection):
                yield check
    except (InvalidSetting, Unavailable) as error:
        yield DoctorCheck(
            "postgres", Health.FAIL, error.message, "start it, or correct DUELEDGER_DSN"
        )
    if not settings.names_kafka:
        yield DoctorCheck("kafka", Health.OK, "not set: DUELEDGER_BOOTSTRAP_SERVERS names none")
        return
    servers = settings.bootstrap_servers.split(",")
    checks = [await _kafka(settings, server.strip()) for server in servers]
    for check in checks:
        yield check
    if any(check.health is not Health.FAIL for check in checks):
        yield await _topic_replication(settings)


async def _kafka(settings: Settings, server: str) -> DoctorCheck:
    protocol, mechanism = settings.kafka_security_protocol, settings.kafka_sasl_mechanism
    tried = f"{server} by {protocol}{f' with {mechanism}' if mechanism else ''}"
    try:
        failure = await find_connect_failure(settings, server)
    except InvalidSetting as error:
        problem = error.problems[0]
        return DoctorCheck("kafka", Health.FAIL, str(problem), f"correct {problem.field}")
    if failure is not None:
        return DoctorCheck("kafka", Health.FAIL, f"{tried}: {failure.reason}", failure.remedy)
    if protocol.has_login and not protocol.has_tls and mechanism in _SENT_AS_THEY_ARE:
        return DoctorCheck(
            "kafka",
            Health.WARN,
            f"{tried}: responds; the password or token crosses the network unencrypted",
            "use a listener with SASL_SSL",
        )
    return DoctorCheck("kafka", Health.OK, f"{tried}: responds")


async def _topic_replication(settings: Settings) -> DoctorCheck:
    try:
        needed = await read_min_insync(settings)
    except Unavailable as error:
        return DoctorCheck("topic_replication", Health.WARN, error.message, "see kafka")
    return check_replication(settings.topic_replication, needed)


def check_replication(copies: int, needed: int | None) -> DoctorCheck:
    """Check that topics which a process creates have the replicas that brokers wait for."""
    name = "topic_replication"
    if needed is None:
        return DoctorCheck(name, Health.OK, f"{copies}; the brokers do not say what they wait for")
    says = f"{copies}; the brokers wait for {needed} (min.insync.replicas)"
    remedy = f"set DUELEDGER_TOPIC_REPLICATION to {needed + 1}; add replicas to existing topics"
    if copies < needed:
        return DoctorCheck(name, Health.FAIL, f"{says}: topics so created take no record", remedy)
    if copies == needed > 1:
        return DoctorCheck(name, Health.WARN, f"{says}: one that is away stops a topic", remedy)
    return DoctorCheck(name, Health.OK, says)
