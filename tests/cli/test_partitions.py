"""What people see of the default partition, and how they move what upkeep cannot."""

from collections.abc import Callable
from datetime import date
from typing import Any

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items

Command = Callable[..., Any]
MakeDrafts = Callable[..., list[ItemDraft]]


def _partitions(dueledger_on: Command) -> tuple[str, str]:
    checks = dueledger_on("doctor", "--json").document["checks"]
    (check,) = (check for check in checks if check["name"] == "partitions")
    return check["health"], check["text"]


async def test_the_doctor_names_months_that_upkeep_cannot_move_and_migrate_moves_them(
    dueledger_on: Command, connection: Connection, actor_no: int, make_drafts: MakeDrafts
) -> None:
    assert _partitions(dueledger_on)[0] == "warn"  # of the next month
    assert dueledger_on("migrate").code == 0
    assert _partitions(dueledger_on) == ("ok", "0 items in the default partition")
    await emit_items(connection, make_drafts(3, effective_date=date(2040, 5, 1)), actor_no=actor_no)
    assert not await connection.fetchval(
        "select ledger.make_partition('due_item', '2040-05-01', 2)"
    )
    health, text = _partitions(dueledger_on)
    assert (health, text[:40]) == ("warn", "3 items are in the default partition, an")
    assert text.endswith(" 2040-05")

    assert dueledger_on("migrate", "--move-all").code == 0

    assert _partitions(dueledger_on) == ("ok", "0 items in the default partition")
    rows = await connection.fetchval("select count(*) from ledger.due_item_204005")
    assert rows == 3
