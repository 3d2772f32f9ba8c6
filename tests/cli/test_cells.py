"""`dueledger migrate --cell`: which numbers a ledger gives, decided once."""

from collections.abc import Callable
from typing import Any

Command = Callable[..., Any]


def test_the_first_migrate_gives_the_cell_and_no_later_one_another(
    dueledger_unmigrated: Command,
) -> None:
    beyond = dueledger_unmigrated("migrate", "--cell", "1023", "--json")
    assert (beyond.code, beyond.document["error"]["code"]) == (2, "USAGE")

    assert dueledger_unmigrated("migrate", "--cell", "7").code == 0
    assert dueledger_unmigrated("migrate", "--cell", "7").code == 0
    assert dueledger_unmigrated("migrate").code == 0

    other = dueledger_unmigrated("migrate", "--cell", "8", "--json")
    assert (other.code, other.document["error"]["code"]) == (1, "CONFLICT")
    refusal = other.document["error"]["detail"]
    assert refusal.startswith("this ledger is cell 7 and cannot become cell 8:")
