"""All findings or repairs of a report as CSV, beside the page that shows samples of them.

RFC 4180: commas, CRLF, a header. UTF-8; times are ISO 8601 with their offset; columns are the
fields of the report's model, in its order. No text begins with a character that makes a spreadsheet
compute it, and characters that cannot be seen are escapes.
"""

import csv
from collections.abc import Iterable
from datetime import date
from typing import Final, NamedTuple, TextIO, final

import orjson
from pydantic import BaseModel

from dueledger.ledger.visible_text import escape_json, visible

_FORMULA: Final = ("=", "+", "-", "@")


@final
class CsvList:
    """A file of rows of one model."""

    def __init__(self, file: TextIO, model: type[BaseModel]) -> None:
        self._columns = tuple(model.model_fields)
        self._writer = csv.writer(file)
        self._writer.writerow(self._columns)

    def add(self, rows: Iterable[BaseModel]) -> None:
        """Write rows."""
        self._writer.writerows(
            [_cell(getattr(row, name)) for name in self._columns] for row in rows
        )


class ReportLists(NamedTuple):
    """All findings and all repairs of a report, and the names of their files."""

    findings: CsvList
    repairs: CsvList
    findings_file: str
    repairs_file: str


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case date():  # a time, too
            return value.isoformat()
        case dict():
            text = escape_json(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())
        case _:
            text = visible(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text
