"""Free loopback ports, kept from run to run if they are still free."""

import json
import socket
from pathlib import Path
from typing import Final, cast

LOOPBACK: Final = "127.0.0.1"


def choose(record: Path, names: tuple[str, ...], *, fresh: bool = False) -> dict[str, int]:
    """Return a port for each name: the recorded one if it is free, otherwise a new one."""
    kept = {} if fresh else _read(record)
    chosen: dict[str, int] = {}
    for name in names:
        port = kept.get(name)
        chosen[name] = port if port is not None and _is_free(port) else free()
    record.write_text(json.dumps(chosen))
    return chosen


def _read(record: Path) -> dict[str, int]:
    try:
        return cast("dict[str, int]", json.loads(record.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return cast("int", probe.getsockname()[1])
