"""The address of Postgres in a file: a mounted secret, which no list of processes shows."""

from pathlib import Path
from typing import Final

from dueledger.ledger.errors import InvalidSetting, Problem

DSN_FILE_VARIABLE: Final = "DUELEDGER_DSN_FILE"
_BYTES_MAX: Final = 65_536


def read_dsn_file(path: Path) -> str:
    """Return the address in a file. Raises InvalidSetting, which shows nothing of its content."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        dsn = content.decode().strip()
    except OSError as error:
        raise _unusable(path, error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise _unusable(path, "is not UTF-8") from None
    if not dsn or len(content) > _BYTES_MAX or len(dsn.split()) > 1:
        raise _unusable(path, "is not one address")
    return dsn


def _unusable(path: Path, reason: str) -> InvalidSetting:
    accepted = "a file with one line: postgresql://user:password@host:port/name"
    problem = Problem(DSN_FILE_VARIABLE, str(path), reason, accepted)
    return InvalidSetting("Settings are missing or wrong:", [problem])
