"""Kafka's jars: whole or not at all."""

import shutil
from pathlib import Path

import pytest

from dueledger.stack import StackError, kafka_jars
from dueledger.stack.start_progress import StartProgress

JAR = next(jar for jar in kafka_jars.pinned() if jar.artifact == "slf4j-api")


@pytest.fixture(scope="module")
def fetched() -> Path:
    kafka_jars.ensure(StartProgress(None))
    return kafka_jars.cache_dir()


@pytest.fixture
def mirror(fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a cache of our own with every jar in it, and a mirror that has one."""
    root = tmp_path / "mirror"
    (root / JAR.path).parent.mkdir(parents=True)
    shutil.copyfile(fetched / JAR.name, root / JAR.path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("M2_REPO", str(tmp_path / "no-maven"))
    monkeypatch.setenv(kafka_jars.MIRROR_VARIABLE, root.as_uri())
    kafka_jars.cache_dir().mkdir(parents=True)
    for jar in kafka_jars.pinned():
        (kafka_jars.cache_dir() / jar.name).symlink_to(fetched / jar.name)
    return root


def spoil(path: Path) -> None:
    spoilt = bytearray(path.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    path.unlink()
    path.write_bytes(spoilt)


def test_the_list_names_every_jar_once() -> None:
    assert len(kafka_jars.pinned()) == 46
    assert len({jar.name for jar in kafka_jars.pinned()}) == 46


def test_a_corrupted_jar_is_noticed_and_fetched_again(mirror: Path) -> None:
    cached = kafka_jars.cache_dir() / JAR.name
    spoil(cached)
    steps: list[str] = []
    paths = kafka_jars.ensure(StartProgress(steps.append))
    assert cached in paths
    assert cached.read_bytes() == (mirror / JAR.path).read_bytes()
    assert steps[0].startswith("kafka: fetching 1 jars")


@pytest.mark.usefixtures("mirror")
def test_jars_that_are_whole_are_not_fetched() -> None:
    steps: list[str] = []
    kafka_jars.ensure(StartProgress(steps.append))
    assert steps == []


def test_a_jar_with_a_wrong_checksum_never_enters_the_cache(mirror: Path) -> None:
    (kafka_jars.cache_dir() / JAR.name).unlink()
    spoil(mirror / JAR.path)
    with pytest.raises(StackError, match="its checksum is not the pinned one") as refusal:
        kafka_jars.ensure(StartProgress(None))
    assert refusal.value.reason == "jar_unavailable"
    assert len(list(kafka_jars.cache_dir().iterdir())) == len(kafka_jars.pinned()) - 1


def test_a_jar_that_cannot_be_had_says_what_to_do(mirror: Path) -> None:
    (kafka_jars.cache_dir() / JAR.name).unlink()
    (mirror / JAR.path).unlink()
    with pytest.raises(StackError, match=JAR.name) as refusal:
        kafka_jars.ensure(StartProgress(None))
    for way_out in ("HTTPS_PROXY", kafka_jars.MIRROR_VARIABLE, "containers or external"):
        assert way_out in refusal.value.remedy


def test_what_maven_has_already_is_used(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = kafka_jars.cache_dir() / JAR.name
    cached.unlink()
    monkeypatch.setenv("M2_REPO", str(mirror))
    monkeypatch.setenv(kafka_jars.MIRROR_VARIABLE, "file:///nowhere")
    kafka_jars.ensure(StartProgress(None))
    assert cached.read_bytes() == (mirror / JAR.path).read_bytes()
