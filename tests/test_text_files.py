"""Files that commands and settings name, whatever these are: read whole or refused, and no wait."""

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pytest

from dueledger.calendars.files import CalendarFileOptions, read_file
from dueledger.definitions.files import read_definitions, read_files
from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.systemd import import_systemd
from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.errors import InvalidInput, InvalidSetting, UnreadableFile
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.runtime import text_file
from dueledger.ledger.runtime.dsn_file import read_dsn_file
from dueledger.ledger.runtime.kafka_settings import KafkaSettings, SaslMechanism, SecurityProtocol
from dueledger.ledger.runtime.text_file import SECRET_BYTES_MAX, read_text
from dueledger.preview.example_event import example_event
from dueledger.reconciler.sources_file import load_sources
from tests.definition_documents import NIGHTLY, RENEWAL

CALENDAR: Final = CalendarFileOptions("sat,sun", None, date(2027, 12, 31))
RULE: Final = load_definitions(RENEWAL, source="rule")[0]
ANEW: Final = NewDefinitionFields("t", datetime(2026, 1, 1, tzinfo=UTC), "k")
SECRET: Final = "hunter2"  # noqa: S105 - what must not be shown


def read_kafka_password(path: Path) -> object:
    settings = KafkaSettings(
        kafka_security_protocol=SecurityProtocol.SASL_PLAINTEXT,
        kafka_sasl_mechanism=SaslMechanism.PLAIN,
        kafka_sasl_username="u",
        kafka_sasl_password_file=str(path),
    )
    return client_arguments(settings)


def read_certificates(path: Path) -> object:
    settings = KafkaSettings(
        kafka_security_protocol=SecurityProtocol.SSL, kafka_ssl_cafile=str(path)
    )
    return client_arguments(settings)


READERS: Final[dict[str, Callable[[Path], object]]] = {
    "definition.yaml": read_definitions,
    "one.yaml": lambda path: read_files([path, path]),
    "days.csv": lambda path: read_file(path, CALENDAR),
    "days.ics": lambda path: read_file(path, CALENDAR),
    "days.json": lambda path: read_file(path, CALENDAR),
    "job.yaml": lambda path: import_kubernetes(path, ANEW),
    "jobs.xml": lambda path: import_quartz(path, ANEW),
    "Jobs.java": lambda path: import_quartz(path, ANEW),
    "a.timer": lambda path: import_systemd(path, ANEW),
    "schedule.json": lambda path: import_eventbridge(path, ANEW),
    "event.json": lambda path: example_event(path, RULE),
    "sources.yaml": load_sources,
    "dsn": read_dsn_file,
    "password": read_kafka_password,
    "ca.pem": read_certificates,
}


WITHOUT_JOBS: Final = ("job.yaml", "Jobs.java", "a.timer", "schedule.json")
"""Empty ones have no job, which is no error."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["none", "device", "silent", "latin-1", "long", "folder"])
def test_a_file_that_is_no_text_is_refused_by_every_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, kind: str
) -> None:
    monkeypatch.setattr(text_file, "_WAIT_SECONDS_MAX", 0.0)
    path = tmp_path / name
    writer: int | None = None
    match kind:
        case "device":
            path.symlink_to("/dev/zero")
        case "silent":
            os.mkfifo(path)
            writer = os.open(path, os.O_RDWR)
        case "latin-1":
            path.write_bytes(f"{SECRET}\xe9".encode("latin-1"))
        case "long":
            with path.open("wb") as file:
                file.truncate(text_file.DEFINITION_BYTES_MAX + 1)
        case "folder" if name != "job.yaml":
            path.mkdir()
        case _:
            pass
    try:
        with pytest.raises((InvalidInput, InvalidSetting)) as refused:
            READERS[name](path)
    finally:
        if writer is not None:
            os.close(writer)
    shown = str(refused.value)
    assert str(path) in shown
    assert SECRET not in shown


@pytest.mark.parametrize("name", [name for name in READERS if name not in WITHOUT_JOBS])
def test_a_pipe_that_nobody_writes_is_empty(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises((InvalidInput, InvalidSetting)):
        READERS[name](tmp_path / name)


def test_a_pipe_is_read_to_its_end() -> None:
    near, far = os.pipe()
    os.write(far, b"\xef\xbb\xbf" + NIGHTLY.encode())
    os.close(far)
    try:
        [definition] = read_definitions(Path(f"/dev/fd/{near}"))
    finally:
        os.close(near)
    assert definition == load_definitions(NIGHTLY, source="text")[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xef\xbb\xbfa\0", "byte 4 is NUL"),
        (b"a\xff", "byte 1 is not UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), "is longer than 65,536 bytes"),
    ],
)
def test_the_first_byte_that_is_no_text_is_named(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UnreadableFile) as refused:
        read_text(tmp_path / "file", SECRET_BYTES_MAX)
    assert refused.value.reason == reason
