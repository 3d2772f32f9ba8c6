"""The storage of a new broker: Kafka's tool makes it once per user, then it is copied.

The tool takes a second and starts a JVM. What it writes differs by ids alone.
"""

import contextlib
import secrets
import shutil
import signal
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dueledger.stack.endpoints import StackError
from dueledger.stack.server_process import launched, server_environment

_SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CHECKPOINT: Final = "bootstrap.checkpoint"
"""The features of the cluster, at the levels of the release."""
_PROPERTIES: Final = "meta.properties"
_IDS: Final = """\
version=1
cluster.id={cluster_id}
node.id={node}
directory.id={directory_id}
"""


def new_id() -> str:
    """Return a random id as Kafka writes them."""
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def copy(kept: Path, directory: Path, *, cluster_id: str, node: int) -> bool:
    """Make the storage in `directory` of what `keep` kept; False if there is nothing."""
    try:
        checkpoint = (kept / _CHECKPOINT).read_bytes()
    except OSError:
        return False
    directory.mkdir()
    (directory / _CHECKPOINT).write_bytes(checkpoint)
    ids = _IDS.format(cluster_id=cluster_id, node=node, directory_id=new_id())
    (directory / _PROPERTIES).write_text(ids)
    return True


def keep(directory: Path, kept: Path) -> None:
    """Keep what every storage begins with, if the cache can be written."""
    with (
        contextlib.suppress(OSError),
        tempfile.TemporaryDirectory(dir=kept, prefix=".storage-") as scratch,
    ):
        Path(shutil.copy(directory / _CHECKPOINT, scratch)).rename(kept / _CHECKPOINT)


def format_by_tool(
    java: Sequence[str], settings: Path, *, cluster_id: str, scram_users: Mapping[str, str]
) -> None:
    """Make the storage that `settings` name, with Kafka's tool. Raises StackError."""
    command = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        f"--cluster-id={cluster_id}",
        f"--config={settings}",
        *(
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for mechanism in _SCRAM_MECHANISMS
            for name, password in scram_users.items()
        ),
    ]
    result = subprocess.run(  # noqa: S603  (a list of our own, no shell)
        launched(command, stop_signal=signal.SIGTERM),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=server_environment(),
        start_new_session=True,
        check=False,
    )
    if result.returncode != 0:
        output = result.stdout.decode(errors="replace").strip()
        raise StackError(
            "kafka_format_failed",
            f"Kafka cannot format its storage by {settings}:\n{output[-2000:]}",
            "Choose a data directory you can write to, or use the containers or external provider.",
        )
