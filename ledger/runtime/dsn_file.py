"""The address of Postgres in a file: a mounted secret, which no list of processes shows."""

from pathlib import Path
from typing import Final

from dueledger.ledger.errors import InvalidSetting, Problem, UnreadableFile
from dueledger.ledger.runtime.text_file import SECRET_BYTES_MAX, read_text

DSN_FILE_VARIABLE: Final = "DUELEDGER_DSN_FILE"
DSN_ACCEPTED: Final = "postgresql://user:password@host:port/name"


def read_dsn_file(path: Path, variable: str = DSN_FILE_VARIABLE) -> str:
    """Return the address in a file, which an environment variable names.

    Raises InvalidSetting, which shows nothing of its content.
    """
    try:
        dsn = read_text(path, SECRET_BYTES_MAX).strip()
    except UnreadableFile as error:
        raise _unusable(path, variable, error.reason) from None
    if not dsn or len(dsn.split()) > 1:
        raise _unusable(path, variable, "is not one address")
    return dsn


def _unusable(path: Path, variable: str, reason: str) -> InvalidSetting:
    accepted = f"a file with one line: {DSN_ACCEPTED}"
    problem = Problem(variable, str(path), reason, accepted)
    return InvalidSetting("Settings are missing or wrong:", [problem])
