"""The mapping of SQLSTATEs and constraints of Postgres to the ledger's errors."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import asyncpg

from dueledger.ledger.errors import DueledgerError, InvalidItem, UnseenPartition
from dueledger.ledger.flow_bounds import FLOW_BOUNDS

_CONSTRAINTS: Final[dict[str, tuple[str, str]]] = {
    "due_item_effective_date_range": ("effective_date", "it is outside 1970–2199"),
    "due_item_due_at_range": ("due_at", "it is outside 1970–2199"),
    "due_item_payload_bytes_max": ("payload", "it is larger than 256 KiB (262,144 bytes)"),
    "due_item_business_key_length": ("business_key", "it must have 1 to 512 characters"),
    "due_item_cycle_length": ("cycle", "it must have at most 200 characters"),
    "due_item_partition_key_length": ("partition_key", "it must have 1 to 512 characters"),
    "due_item_labels_bytes_max": ("labels", "they are larger than 8 KiB (8,192 bytes)"),
    "due_item_separator_free": ("business_key", "U+001F is not allowed in a key or cycle"),
    "kind_tenant_shape": ("tenant", "1 to 100 of A–Z, a–z, 0–9, '.', '_', '-'"),
    "kind_name_shape": ("kind", "1 to 100 of A–Z, a–z, 0–9, '.', '_', '-'"),
    "flow_lane_length": ("lane", "it must have at most 100 characters"),
    **{
        f"flow_{name}_range": (name, f"it must be {bounds.text}")
        for name, bounds in FLOW_BOUNDS.items()
    },
}


class ClockRefused(DueledgerError):
    """A simulated clock is set for a role that must not use one."""

    code = "CLOCK_REFUSED"


@contextmanager
def mapped_unseen_partition() -> Generator[None]:
    """Turn refusals of `ledger.none_lost` and rows without a partition into UnseenPartition."""
    try:
        yield
    except asyncpg.CheckViolationError as error:
        if error.constraint_name:
            raise
        raise UnseenPartition(str(error.message)) from error
    except asyncpg.PostgresError as error:
        if error.sqlstate != "DL005":
            raise
        raise UnseenPartition(str(error.message)) from error


@contextmanager
def mapped_errors() -> Generator[None]:
    """Turn errors of Postgres about an item into InvalidItem with the field's name."""
    try:
        yield
    except asyncpg.CheckViolationError as error:
        if not error.constraint_name:
            raise  # no partition for the row: the row itself is valid
        field, reason = _CONSTRAINTS.get(
            error.constraint_name, (error.constraint_name, "it breaks a constraint")
        )
        message = f"{field}: {reason}"
        raise InvalidItem(message, field=field) from error
    except asyncpg.NotNullViolationError as error:
        message = f"{error.column_name}: it is missing"
        raise InvalidItem(message, field=error.column_name) from error
    except asyncpg.CharacterNotInRepertoireError as error:
        message = "a text field contains NUL or is not UTF-8"
        raise InvalidItem(message, field="text") from error
    except (asyncpg.InvalidTextRepresentationError, asyncpg.UntranslatableCharacterError) as error:
        message = "payload: it is not JSON"
        raise InvalidItem(message, field="payload") from error
    except (asyncpg.DataError, asyncpg.ProgramLimitExceededError) as error:
        message = f"a value cannot be stored: {error.message}"
        raise InvalidItem(message, field="value") from error
    except asyncpg.PostgresError as error:
        match error.sqlstate:
            case "DL001":
                raise ClockRefused(str(error)) from error
            case "DL002":
                raise InvalidItem(str(error.message), field=str(error.column_name)) from error
            case _:
                raise
