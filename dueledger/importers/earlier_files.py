"""Files that an earlier import wrote and that a later one makes no longer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.runtime.text_file import read_text

_BYTES_MAX: Final = 1_048_576  # of one definition


def find_obsolete(folder: Path, written: Iterable[Path], source: str) -> list[Path]:
    """Return the files of a folder whose definitions name `source` and that were not written now.

    Files that cannot be read as definitions are somebody else's.
    """
    now = set(written)
    others = [path for path in sorted(folder.glob("*.yaml")) if path not in now and path.is_file()]
    return [path for path in others if _is_from(path, source)]


def _is_from(path: Path, source: str) -> bool:
    try:
        text = read_text(path, _BYTES_MAX)
        definitions = load_definitions(text, source=str(path), calendars=None)
    except DueledgerError:
        return False
    return all(one.source == source for one in definitions)
