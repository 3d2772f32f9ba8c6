"""What a source no longer has is found whole, however many definitions it has."""

from typing import Any

from dueledger.definitions.prune import find_pruned
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.store import Connection
from dueledger.ledger.store.definitions import define

COUNT = 10_005
DOCUMENT: dict[str, Any] = {
    "definition": "kept",
    "tenant": "acme",
    "kind": "Due",
    "business_key": "kept",
    "source": "crontab:tab",
    "when": {"cron": "0 6 * * *", "timezone": "UTC"},
}
COPY = """
insert into ledger.definition
  (tenant, name, version, kind, document, effective_from, created_at, actor_no)
select tenant, n.name, version, kind, document || jsonb_build_object('definition', n.name),
  effective_from, created_at, actor_no
from ledger.definition, lateral (select 'gone-' || n as name from generate_series(1, $1) n) n
"""


async def test_all_of_a_large_source_is_found(connection: Connection, actor_no: int) -> None:
    kept = parse_definition(DOCUMENT)
    await define(
        connection,
        DOCUMENT,
        tenant="acme",
        name="kept",
        kind="Due",
        event_type=None,
        effective_from=None,
        actor_no=actor_no,
    )
    await connection.execute(COPY, COUNT)
    pruned = await find_pruned(connection, [kept], "crontab:tab")
    assert {one.definition for one in pruned} == {f"gone-{n}" for n in range(1, COUNT + 1)}
    assert len(pruned) == COUNT
    assert all(one.ended for one in pruned)
