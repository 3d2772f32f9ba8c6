"""The model of `dueledger size` against a ledger: bytes an item, and connections of processes."""

from collections.abc import Callable
from typing import Any

import pytest

from dueledger import Completed, DueItem, Handlers
from dueledger.allocator.process import CONNECTIONS_MAX
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.processes import ProcessRole
from dueledger.service import ServiceSettings
from dueledger.sizing import CONNECTIONS, Load, bytes_per_item, size_of
from dueledger.workers.connections import LEDGER_CONNECTIONS
from dueledger.workers.direct import DirectSettings
from dueledger.workers.process import run_direct_worker

BOUND = 0.15
"""The part by which the model may differ from the measured total."""
# Partitions without rows take a few pages each, however many items there are.
MEASURED = """
select parent.relname::text as name, sum(pg_total_relation_size(h.inhrelid)) as bytes
from pg_inherits h join pg_class parent on parent.oid = h.inhparent
where parent.relnamespace = 'ledger'::regnamespace and pg_relation_size(h.inhrelid) > 0
  and parent.relname in ('claim', 'due_item', 'run', 'transition')
group by parent.relname
union all
select 'pending', pg_total_relation_size('ledger.pending')
"""


@pytest.mark.parametrize(
    ("items", "payload", "evidence", "items_per_claim"),
    [(8_000, 200, 0, 4_000), (2_000, 1_000, 100, 10)],
)
async def test_the_bytes_an_item_takes_are_those_of_the_model(
    connection: Connection,
    database: str,
    kind: str,
    make_drafts: Callable[..., list[ItemDraft]],
    items: int,
    payload: int,
    evidence: int,
    items_per_claim: int,
) -> None:
    async def measure() -> dict[str, float]:
        rows = await connection.fetch(MEASURED)
        return {row["name"]: float(row["bytes"]) / items for row in rows}

    load = Load(1, payload, evidence_bytes=evidence, items_per_claim=items_per_claim)
    # What an earlier test of the database left behind is no item's.
    await connection.execute("vacuum full ledger.claim, ledger.run, ledger.transition")
    await connection.execute("vacuum full ledger.due_item, ledger.pending")
    empty = await measure()
    drafts = make_drafts(items, payload=f'"{"x" * (payload - 2)}"')
    actor_no = await register_actor(connection, "person:size", ActorKind.PERSON)
    await emit_items(connection, drafts, actor_no=actor_no)
    waiting = await measure()
    handlers = Handlers()
    outcome: Any = {"text": "x" * (evidence - 12)} if evidence else {}

    @handlers.on_batch(kind)
    async def complete(batch: list[DueItem]) -> list[Completed]:
        return [Completed(outcome) for _ in batch]

    settings = DirectSettings.model_validate(
        {"dsn": database, "direct_claim_items_max": items_per_claim}
    )
    await run_direct_worker(settings, handlers, Stop(), once=True)
    ended = await measure()
    model = bytes_per_item(load)
    pending = size_of(load).bytes_per_item["pending"]
    waits = waiting["due_item"] + waiting["pending"] - empty["pending"]
    assert waits == pytest.approx(model["due_item"] + pending, rel=BOUND)
    assert ended["due_item"] == pytest.approx(model["due_item"], rel=BOUND)
    assert ended["transition"] == pytest.approx(model["transition"], rel=BOUND)
    assert sum(ended[name] for name in model) == pytest.approx(sum(model.values()), rel=BOUND)


def test_the_connections_are_those_of_the_pools_and_of_the_presence() -> None:
    pools = {
        ProcessRole.ALLOCATOR: CONNECTIONS_MAX,
        ProcessRole.WORKER: LEDGER_CONNECTIONS + 1,  # that of HTTP endpoints
        ProcessRole.DIRECT_WORKER: LEDGER_CONNECTIONS + 2,  # and that of metrics
        ProcessRole.SERVICE: ServiceSettings.model_fields["service_connections_max"].default,
    }
    assert {role: CONNECTIONS[role] - 1 for role in pools} == pools
    assert CONNECTIONS.keys() == set(ProcessRole)  # test_presence counts each


def test_a_size_grows_with_the_load() -> None:
    small = size_of(Load(10_000_000, 200, retention_days=365))
    large = size_of(Load(100_000_000, 200, retention_days=365))
    assert small.rows["due_item"] == 3_650_000_000
    assert large.disk_bytes["total"] == pytest.approx(10 * small.disk_bytes["total"])
    assert large.cores["total"] == pytest.approx(10 * small.cores["total"], rel=0.05)
    assert size_of(Load(1, 200, peak_per_second=70_000)).cores["postgres"] > 1
