"""Rows of populations: which can be read, and which the ledger could have."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Final, Protocol

import orjson

from dueledger.ledger.definitions.model import (
    BUSINESS_KEY_CHARS_MAX,
    CYCLE_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
)
from dueledger.ledger.errors import InvalidItem, shown_value
from dueledger.ledger.identity import TENANT_SHAPE, item_id
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
from dueledger.reconciler.sources import PopulationRow, SourceFailed, SourceTotals

POPULATION_COLUMNS: Final = frozenset(
    {"tenant", "kind", "business_key", "cycle", "effective_date", "due_at"}
)
OPTIONAL_COLUMNS: Final = {
    "payload": (str, "text"),
    "partition_key": (str, "text"),
    "ended": (bool, "true or false"),
    "start_by": (datetime, "a timestamp with time zone"),
    "complete_by": (datetime, "a timestamp with time zone"),
}
_YEAR_MIN: Final = DUE_MIN.year
_YEAR_MAX: Final = DUE_END.year - 1
_SHAPE: Final = "A-Z a-z 0-9 . _ -"
_INFINITE_YEARS: Final = (date.min.year, date.max.year)  # as asyncpg reads infinities


class ReadRow(Protocol):
    """A row by the names of its columns, as asyncpg's is."""

    def __getitem__(self, name: str, /) -> Any: ...  # noqa: ANN401 - of any type


def usable_rows(
    name: str,
    records: Iterable[ReadRow],
    columns: AbstractSet[str],
    named_kinds: frozenset[tuple[str, str]] | None,
    extract: SourceTotals,
) -> list[PopulationRow]:
    """Return the rows of a population that can be used, counting them and why others cannot be.

    Raises SourceFailed for a row that no ledger could have, or of a kind that is not named.
    """
    rows: list[PopulationRow] = []
    for record in records:
        row = population_row(record, columns)
        if isinstance(row, str):
            extract.skipped[row] += 1
            continue
        if reason := impossible_reason(row):
            raise SourceFailed(name, reason)
        if named_kinds is not None and (row.tenant, row.kind) not in named_kinds:
            shown = f"{shown_value(row.kind)} of {shown_value(row.tenant)}"
            reason = f"a row is {shown}, which its `tenant` and `kinds` do not name"
            raise SourceFailed(name, reason)
        extract.add(row.id)
        rows.append(row)
    return rows


def population_row(record: ReadRow, columns: AbstractSet[str]) -> PopulationRow | str:
    """Return the row, or the reason to skip it."""
    texts: dict[str, str] = {}
    for name in ("tenant", "kind", "business_key", "cycle"):
        value: Any = record[name]
        if not isinstance(value, str):
            return f"{name} is {'null' if value is None else 'not text'}"
        texts[name] = value
    effective: Any = record["effective_date"]
    due: Any = _instant(record["due_at"])
    if not isinstance(effective, date) or isinstance(effective, datetime):
        return "effective_date is not a date"
    if not isinstance(due, datetime) or _has_no_zone(due):
        return "due_at is not a timestamp with time zone"
    optional: dict[str, Any] = {}
    for name, (type_, what) in OPTIONAL_COLUMNS.items():
        value = _instant(record[name]) if name in columns else None
        if value is not None and (not isinstance(value, type_) or _has_no_zone(value)):
            return f"{name} is not {what}"
        optional[name] = value
    identity = b""  # such a row fails the source
    usable = _unusable_name(texts["tenant"], texts["kind"]) is None
    if usable and _YEAR_MIN <= effective.year <= _YEAR_MAX:
        try:
            identity = item_id(
                texts["tenant"], texts["kind"], texts["business_key"], texts["cycle"], effective
            ).bytes
        except InvalidItem as refusal:
            return f"{refusal.problems[0].field} {refusal.problems[0].reason}"
    return PopulationRow(
        identity,
        texts["tenant"],
        texts["kind"],
        texts["business_key"],
        texts["cycle"],
        effective,
        due,
        optional["payload"],
        optional["partition_key"],
        bool(optional["ended"]),
        optional["start_by"],
        optional["complete_by"],
        columns,
    )


def _has_no_zone(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is None


def _instant(value: object) -> object:
    """Return the value; of an infinite instant, which may have no time zone, in UTC."""
    if isinstance(value, datetime) and value.year in _INFINITE_YEARS:
        return value.replace(tzinfo=UTC)
    return value


def impossible_reason(row: PopulationRow) -> str | None:
    """Return why the ledger can have no such item, or None."""
    if unusable := _unusable_name(row.tenant, row.kind):
        reason = unusable
    elif not _YEAR_MIN <= row.effective_date.year <= _YEAR_MAX:
        reason = f"effective_date is outside {_YEAR_MIN} to {_YEAR_MAX}"
    elif name := _impossible_instant(row):
        reason = f"{name} is outside {_YEAR_MIN} to {_YEAR_MAX}"
    elif not 0 < len(row.business_key) <= BUSINESS_KEY_CHARS_MAX:
        reason = f"business_key is empty, or longer than {BUSINESS_KEY_CHARS_MAX} characters"
    elif len(row.cycle) > CYCLE_CHARS_MAX:
        reason = f"cycle is longer than {CYCLE_CHARS_MAX} characters"
    elif row.payload is not None and (fault := _payload_fault(row.payload)):
        reason = f"payload {fault}"
    elif row.partition_key is not None and not 0 < len(row.partition_key) <= BUSINESS_KEY_CHARS_MAX:
        reason = f"partition_key is empty, or longer than {BUSINESS_KEY_CHARS_MAX} characters"
    else:
        return None
    return f"{reason} in the row of {shown_value(row.business_key)}"


def _impossible_instant(row: PopulationRow) -> str | None:
    """Return the name of an instant that the ledger cannot have, or None."""
    for name, instant in (
        ("due_at", row.due_at),
        ("start_by", row.start_by),
        ("complete_by", row.complete_by),
    ):
        if instant is not None and not _YEAR_MIN <= instant.astimezone(UTC).year <= _YEAR_MAX:
            return name
    return None


@lru_cache(maxsize=1024)
def _unusable_name(tenant: str, kind: str) -> str | None:
    for name, value in (("tenant", tenant), ("kind", kind)):
        if not TENANT_SHAPE.fullmatch(value):
            shown = shown_value(value)
            return (
                f"{name} {shown} is empty, longer than 100 characters, or has others than {_SHAPE}"
            )
    return None


def _payload_fault(payload: str) -> str | None:
    if len(payload) > PAYLOAD_BYTES_MAX or len(payload.encode()) > PAYLOAD_BYTES_MAX:
        return "is over 256 KiB"
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return "is not JSON, or too deep"
    return None
