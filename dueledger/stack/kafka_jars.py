"""Kafka's jars: fetched once into the user's cache, and verified by pinned checksums."""

import contextlib
import hashlib
import os
import shutil
import ssl
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Final

from dueledger.stack.endpoints import StackError
from dueledger.stack.start_progress import StartProgress

VERSION: Final = "4.3.1"
MIRROR_VARIABLE: Final = "DUELEDGER_MAVEN_MIRROR"

_FETCHES_MAX: Final = 8
_FETCH_ATTEMPTS_MAX: Final = 3
_FETCH_SECONDS: Final = 60.0
_CHUNK_BYTES: Final = 1 << 18
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned artifact."""

    sha256: str
    size_bytes: int
    group: str
    artifact: str
    version: str

    @property
    def name(self) -> str:
        """The file name in the cache."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path below a Maven repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


@cache
def pinned() -> tuple[Jar, ...]:
    """Return the jars of the checked-in list."""
    lines = Path(__file__).with_name("kafka_jars.txt").read_text().splitlines()
    return tuple(_parse(line) for line in lines if line and not line.startswith("#"))


def cache_dir() -> Path:
    """Return the directory of the jars: one per user, shared by all checkouts."""
    root = os.environ.get("XDG_CACHE_HOME")
    cache_home = Path(root) if root and Path(root).is_absolute() else Path.home() / ".cache"
    return cache_home / "dueledger" / f"kafka-{VERSION}"


def ensure(steps: StartProgress) -> list[Path]:
    """Return the paths of all jars, each one verified; fetch those missing or wrong.

    Safe to call from several processes at once: a jar gets its name only when complete, by a
    rename, and a second process replaces it with the same bytes.
    """
    directory = cache_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        wanted = [jar for jar in pinned() if not _is_whole(directory / jar.name, jar)]
        if wanted:
            _fetch_all(wanted, directory, steps)
    except OSError as error:
        raise StackError(
            "cache_unusable",
            f"The jars of Kafka cannot be stored in {directory}: {error}",
            "Free space there, or name another directory with XDG_CACHE_HOME.",
        ) from error
    return [directory / jar.name for jar in pinned()]


def _parse(line: str) -> Jar:
    sha256, size, coordinate = line.split()
    group, artifact, version = coordinate.split(":")
    return Jar(sha256, int(size), group, artifact, version)


def _is_whole(path: Path, jar: Jar) -> bool:
    try:
        if path.stat().st_size != jar.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


def _fetch_all(wanted: list[Jar], directory: Path, steps: StartProgress) -> None:
    total_bytes = sum(jar.size_bytes for jar in wanted)
    steps.report(
        f"kafka: fetching {len(wanted)} jars ({total_bytes / _MIB:.0f} MiB) into {directory}, once"
    )
    lock = threading.Lock()
    done_bytes = 0
    shown_tenths = 0

    def fetch(jar: Jar) -> None:
        nonlocal done_bytes, shown_tenths
        _fetch(jar, directory, steps)
        with lock:
            done_bytes += jar.size_bytes
            tenths = done_bytes * 10 // total_bytes
            if tenths > shown_tenths:
                shown_tenths = tenths
                steps.report(
                    f"kafka: fetched {done_bytes / _MIB:.0f} of {total_bytes / _MIB:.0f} MiB"
                )

    largest_first = sorted(wanted, key=lambda jar: -jar.size_bytes)
    pool = ThreadPoolExecutor(_FETCHES_MAX, thread_name_prefix="stack-jars")
    try:
        for fetched in [pool.submit(fetch, jar) for jar in largest_first]:
            fetched.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _fetch(jar: Jar, directory: Path, steps: StartProgress) -> None:
    staged = directory / f".{jar.name}.{os.getpid()}.part"
    reason = "not found"
    try:
        for attempt in range(_FETCH_ATTEMPTS_MAX):
            try:
                if attempt == 0 and _is_whole(kept := _maven_cache() / jar.path, jar):
                    shutil.copyfile(kept, staged)
                else:
                    _download(f"{_repository()}/{jar.path}", staged, steps)
            except (OSError, HTTPException) as error:
                reason = str(error)
                continue
            if _is_whole(staged, jar):
                staged.replace(directory / jar.name)
                return
            reason = "its checksum is not the pinned one"
    finally:
        staged.unlink(missing_ok=True)
    raise StackError(
        "jar_unavailable",
        f"{jar.name}, which Kafka needs, cannot be fetched: {reason}",
        "Behind a proxy set HTTPS_PROXY (and SSL_CERT_FILE for its certificate); "
        f"with a Maven mirror set {MIRROR_VARIABLE} to its root; "
        "or use the containers or external provider, which need no jars.",
    )


def _download(url: str, target: Path, steps: StartProgress) -> None:
    # The scheme is the mirror's or jgo's; the content is verified by the pinned checksum.
    with (
        urllib.request.urlopen(url, timeout=_FETCH_SECONDS, context=_trust()) as response,  # noqa: S310
        target.open("wb") as file,
    ):
        while chunk := response.read(_CHUNK_BYTES):
            steps.check()
            file.write(chunk)


@cache
def _trust() -> ssl.SSLContext:
    """Trust the system's authorities and, if a Python has no path to them, certifi's."""
    context = ssl.create_default_context()
    with contextlib.suppress(ImportError):
        import certifi  # noqa: PLC0415  (comes with the embedded extra)

        context.load_verify_locations(certifi.where())
    return context


def _maven_cache() -> Path:
    named = os.environ.get("M2_REPO")
    return Path(named) if named else Path.home() / ".m2" / "repository"


def _repository() -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    if mirror:
        return mirror.rstrip("/")
    try:
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415  (of the embedded extra)
    except ImportError as error:
        raise StackError(
            "jgo_missing",
            "Kafka's jars cannot be fetched: the package jgo is missing.",
            "Install dueledger[embedded], or use the containers or external provider.",
        ) from error
    return MAVEN_CENTRAL_URL
