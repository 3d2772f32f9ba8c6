"""The version of the schema, and whether this code can use it.

A migration is applied while processes of the code before it run. Its header says which code can use
the schema after it: `-- code: N`, code that ships migration N or a later one.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from dueledger.ledger.errors import SchemaTooNew, SchemaTooOld
from dueledger.ledger.store.statements import SQL_ROOT, statement

if TYPE_CHECKING:
    from dueledger.ledger.store.connection import Connection

_CODE: Final = re.compile(r"^-- code: (\d+)$", re.MULTILINE)


def number_of(migration: str) -> int:
    """Return the number at the beginning of a migration's name."""
    return int(migration.partition("_")[0])


def oldest_code(text: str) -> int:
    """Return the least migration that code must ship to use the schema after this one."""
    found = _CODE.search(text)
    return 1 if found is None else int(found[1])


@cache
def shipped_number() -> int:
    """Return the number of the newest migration that this code ships."""
    return max(number_of(path.stem) for path in (SQL_ROOT / "migrations").glob("*.sql"))


async def require_usable_schema(connection: "Connection", shipped: int | None = None) -> None:
    """Raise SchemaTooOld or SchemaTooNew if code that ships migration `shipped` cannot use it.

    `shipped` is this code's unless given. A schema that is newer can be used, unless one of its
    migrations says otherwise: old and new processes run side by side during an upgrade.
    """
    shipped = shipped_number() if shipped is None else shipped
    row = await connection.fetchrow(statement("read_schema_version"))
    number, code_min = (0, 1) if row is None else (row["number"] or 0, row["code_min"] or 1)
    if number < shipped:
        message = (
            f"the schema of this database is at migration {number}, and this version needs "
            f"{shipped}; run `dueledger migrate` before its processes start"
        )
        raise SchemaTooOld(message, schema=number, needed=shipped)
    if code_min > shipped:
        message = (
            f"the schema of this database is at migration {number}, which this version, of "
            f"migration {shipped}, cannot use; start a newer version"
        )
        raise SchemaTooNew(message, schema=number, code_min=code_min, shipped=shipped)
