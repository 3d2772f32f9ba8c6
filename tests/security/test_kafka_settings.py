"""Settings of Kafka's security: what contradicts itself is refused in one sentence, before a start.

No broker is needed here.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConfigurationError, KafkaError

from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.dev.child_processes import forget_kafka_security, process_environment
from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.rejects import RejectSender
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.setting_problems import read_settings
from dueledger.stack import Endpoints

from .certificates import Authority

SECRET = "hunter2-and-more"  # noqa: S105 - opens nothing
SCRAM = {"SASL_MECHANISM": "SCRAM-SHA-512", "SASL_USERNAME": "alice"}
LOGIN = {"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM, "SASL_PASSWORD": SECRET}
TOKEN = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "OAUTHBEARER"}


def read(monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> KafkaSettings:
    for name, text in settings.items():
        monkeypatch.setenv(f"DUELEDGER_KAFKA_{name}", text)
    return read_settings(KafkaSettings)


REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"SECURITY_PROTOCOL": "TLS"}, "SECURITY_PROTOCOL", "SASL_SSL"),
    ({"SASL_PASSWORD": SECRET}, "SECURITY_PROTOCOL", "has no login"),
    ({"SECURITY_PROTOCOL": "SSL", "SASL_MECHANISM": "PLAIN"}, "SECURITY_PROTOCOL", "SASL_SSL"),
    ({"SSL_CAFILE": "ca.pem"}, "SECURITY_PROTOCOL", "has no TLS"),
    (
        {**LOGIN, "SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_CAFILE": "ca.pem"},
        "SECURITY_PROTOCOL",
        "SASL_SSL",
    ),
    ({"SECURITY_PROTOCOL": "SASL_SSL"}, "SASL_MECHANISM", "SCRAM-SHA-512"),
    ({**LOGIN, "SASL_MECHANISM": "GSSAPI"}, "SASL_MECHANISM", "SCRAM-SHA-512"),
    ({**LOGIN, "SASL_PASSWORD": ""}, "SASL_PASSWORD", "at least 1"),
    ({**LOGIN, "SASL_PASSWORD_FILE": "x"}, "SASL_PASSWORD", "not in both"),
    ({"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM}, "SASL_PASSWORD", "SASL_PASSWORD_FILE"),
    (
        {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN", "SASL_PASSWORD": SECRET},
        "SASL_USERNAME",
        "needs it",
    ),
    ({**LOGIN, "SASL_TOKEN_FILE": "x"}, "SASL_TOKEN_FILE", "nothing here"),
    (TOKEN, "SASL_TOKEN_FILE", "needs it"),
    ({**TOKEN, "SASL_PASSWORD": SECRET}, "SASL_PASSWORD", "logs in by a token"),
    ({"SECURITY_PROTOCOL": "SSL", "SSL_KEYFILE": "k"}, "SSL_CERTFILE", "is missing"),
    ({"SECURITY_PROTOCOL": "SSL", "SSL_KEY_PASSWORD": SECRET}, "SSL_CERTFILE", "is missing"),
    ({"SECURITY_PROTOCOL": "SSL", "SSL_CAFILE": ""}, "SSL_CAFILE", "at least 1"),
]


@pytest.mark.parametrize(("settings", "named", "said"), REFUSED)
def test_settings_that_contradict_each_other_are_refused_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], named: str, said: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read(monkeypatch, settings)
    (problem,) = refused.value.problems
    assert problem.field == f"DUELEDGER_KAFKA_{named}"
    assert said in str(problem)
    assert SECRET not in str(refused.value)


def test_no_settings_mean_a_client_without_tls_or_login(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = client_arguments(read(monkeypatch, {}))
    assert arguments["security_protocol"] == "PLAINTEXT"
    assert arguments["ssl_context"] is None


def test_secrets_are_in_no_text_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, LOGIN)
    assert client_arguments(settings)["sasl_plain_password"] == SECRET
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump_json()}"
    with pytest.raises(ValueError, match="username") as refused:
        KafkaSettings.model_validate({"kafka_sasl_username": 7, "kafka_sasl_password": SECRET})
    assert SECRET not in str(refused.value)


FILES: list[tuple[dict[str, str], str, bytes | None, str]] = [
    ({"SECURITY_PROTOCOL": "SSL"}, "SSL_CAFILE", None, "No such file"),
    ({"SECURITY_PROTOCOL": "SSL"}, "SSL_CAFILE", b"no pem", "no certificate in PEM"),
    ({"SECURITY_PROTOCOL": "SSL"}, "SSL_CERTFILE", None, "No such file"),
    ({"SECURITY_PROTOCOL": "SSL"}, "SSL_CERTFILE", b"no pem", "not in PEM"),
    ({"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM}, "SASL_PASSWORD_FILE", None, "No such file"),
    ({"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM}, "SASL_PASSWORD_FILE", b"\n", "one line"),
    (
        {"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM},
        "SASL_PASSWORD_FILE",
        SECRET.encode() + b"\nmore\n",
        "one line",
    ),
    (
        {"SECURITY_PROTOCOL": "SASL_SSL", **SCRAM},
        "SASL_PASSWORD_FILE",
        SECRET.encode() + b"\xff",
        "not UTF-8",
    ),
    (TOKEN, "SASL_TOKEN_FILE", None, "No such file"),
    (TOKEN, "SASL_TOKEN_FILE", b" \n", "one token"),
    (TOKEN, "SASL_TOKEN_FILE", SECRET.encode() + b"\x01auth=x", "one token"),
    (TOKEN, "SASL_TOKEN_FILE", b"x" * 70_000, "longer than"),
]


@pytest.mark.parametrize(("settings", "named", "content", "said"), FILES)
def test_a_file_that_cannot_be_used_is_named_and_its_content_never_shown(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    settings: dict[str, str],
    named: str,
    content: bytes | None,
    said: str,
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSetting) as refused:
        client_arguments(read(monkeypatch, {**settings, named: str(path)}))
    (problem,) = refused.value.problems
    assert problem.field == f"DUELEDGER_KAFKA_{named}"
    assert str(path) in problem.reason
    assert said in problem.reason
    assert SECRET not in str(refused.value)


def test_a_key_of_another_certificate_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority("authority", tmp_path)
    one, other = authority.issue("one"), authority.issue("other")
    files = {"SSL_CERTFILE": str(one.certfile), "SSL_KEYFILE": str(other.keyfile)}
    with pytest.raises(InvalidSetting, match="does not belong to the key"):
        client_arguments(read(monkeypatch, {"SECURITY_PROTOCOL": "SSL", **files}))


@pytest.mark.parametrize(("password", "usable"), [("", False), ("wrong", False), (SECRET, True)])
def test_an_encrypted_key_needs_its_password_and_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, password: str, *, usable: bool
) -> None:
    issued = Authority("authority", tmp_path).issue("locked", password=SECRET)
    settings = {"SECURITY_PROTOCOL": "SSL", "SSL_CERTFILE": str(issued.both)}
    if password:
        settings["SSL_KEY_PASSWORD"] = password
    read_as = read(monkeypatch, settings)
    if usable:
        assert client_arguments(read_as)["ssl_context"] is not None
        return
    with pytest.raises(InvalidSetting, match="password") as refused:
        client_arguments(read_as)
    assert SECRET not in str(refused.value)


async def test_a_token_is_read_again_for_each_login_and_a_lost_file_is_an_error_of_kafka(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    arguments = client_arguments(read(monkeypatch, {**TOKEN, "SASL_TOKEN_FILE": str(path)}))
    provider = arguments["sasl_oauth_token_provider"]
    assert provider is not None
    assert await provider.token() == "first"
    path.write_text("second\n")
    assert await provider.token() == "second"
    path.unlink()
    with pytest.raises(KafkaError, match="SASL_TOKEN_FILE"):  # aiokafka tries again
        await provider.token()


async def test_rejects_are_tried_again_if_a_file_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = read(
        monkeypatch, {"SECURITY_PROTOCOL": "SSL", "SSL_CAFILE": str(tmp_path / "gone.pem")}
    )
    with pytest.raises(KafkaConfigurationError, match=r"gone\.pem"):
        await RejectSender(settings, "due-rejected", client="test").send([])


async def test_an_allocator_misses_a_file_at_its_start_not_when_items_are_due(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DUELEDGER_DSN", "postgresql://nobody@127.0.0.1:1/x")
    monkeypatch.setenv("DUELEDGER_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("DUELEDGER_KAFKA_SSL_CAFILE", str(tmp_path / "gone.pem"))
    with pytest.raises(InvalidSetting, match=r"gone\.pem"):
        async with open_allocator(read_settings(AllocatorSettings), stop=Stop()):
            pass


def test_embedded_servers_are_not_reached_with_the_security_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUELEDGER_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("dueledger_kafka_sasl_password", SECRET)  # settings are read in any case
    forget_kafka_security()
    environment = process_environment(Endpoints("postgresql://", "127.0.0.1:9092"))
    for names in (environment, os.environ):
        assert not [name for name in names if name.upper().startswith("DUELEDGER_KAFKA_")]
