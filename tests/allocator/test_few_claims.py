"""A claim of a few items is one statement, and writes what the statements of a large one do."""

# pyright: reportPrivateUsage=false

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from aiokafka.record.memory_records import MemoryRecords

from dueledger.allocator.admission_group import admission_group_of
from dueledger.allocator.claim import item_claimer
from dueledger.allocator.claim.claim_batches import ClaimBatch, ClaimBatchBuilder
from dueledger.allocator.claim.item_claimer import FEW_ITEMS_MAX, ItemClaimer
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.publish.outgoing_batch import Compression, OutgoingBatch
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad, FlowShare
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.partitioner import partition_of
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.clock import read_now, set_clock, set_machine_clock
from dueledger.ledger.store.statements import name_of

Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]

PARTITIONS: Final = 4
BYTES_MAX: Final = 1_000_000
RETRIES: Final = (
    "update ledger.pending set state = 4, attempt = 2, starts = 3 where item_no % 2 = 0"
)
SUSPECTS: Final = "update ledger.pending set batch_max = 1 + item_no % 2"
TIMES: Final = "update ledger.kind set run_seconds = 20, dispatch_seconds = 7 where tenant = 'acme'"
LATER: Final = (
    "update ledger.pending set available_at = ledger.now() + interval '30s' where item_no % 3 = 0"
)
LIMITED: Final = "update ledger.flow set rate_per_second = 1000"
PAUSED: Final = "update ledger.flow set paused_at = now(), paused_by = 1 where tenant = 'acme'"


@dataclass(frozen=True, slots=True)
class Case:
    """Due items of each of two flows; `before` is done before the flows are listed, or after."""

    items: int = 4
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    is_few: bool = True
    payload: str = '{"premium":"123.45"}'
    claimed: int | None = None


CASES: Final = {
    "one": Case(1),
    "plain": Case(),
    "a-few": Case(FEW_ITEMS_MAX // 2),
    "more": Case(FEW_ITEMS_MAX // 2 + 1, is_few=False),
    "large": Case(payload=f'"{"x" * 250_000}"', is_few=False),
    "retries": Case(before=(RETRIES,)),
    "suspects": Case(before=(SUSPECTS,), is_few=False),
    "times-of-the-kind": Case(before=(TIMES,)),
    "some-later": Case(before=(LATER,)),
    "limited": Case(before=(LIMITED,), is_few=False),
    "paused-since": Case(after=(PAUSED,), claimed=4),
    "limited-since": Case(after=(LIMITED,), claimed=0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_claim_of_a_few_items_writes_what_a_large_one_does(
    emit_unwanted: Emit,
    make_drafts: Drafts,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
) -> None:
    for tenant in ("acme", "globex"):
        await emit_unwanted(make_drafts(case.items, tenant=tenant, payload=case.payload))
    for query in case.before:
        await connection.execute(query)
    now = await read_now(connection)
    await set_clock(connection, now, 0)
    await set_machine_clock(connection, now, 0)
    flows = await list_due_flows(connection, 10)
    for query in case.after:
        await connection.execute(query)
    await connection.execute("create temp table kept as select * from ledger.pending")
    written: list[tuple[Any, ...]] = []
    for is_few in (case.is_few, False):
        names: Counter[str] = Counter()
        due_ats: dict[int, float] = {}
        taken: Counter[int] = Counter()
        shares = [FlowShare(flow, 200, flow.floor) for flow in flows]
        partitions = {flow.topic: PARTITIONS for flow in flows}
        with connection.query_logger(
            lambda query, names=names: names.update([name_of(query.query)])
        ):
            batches = await _claimer().claim(connection, shares, partitions, taken, due_ats)
        assert ("claim_items" in names) == (not is_few), names
        await _check_records(connection, batches)
        written.append((await _claims(connection), await _pending(connection), taken, set(due_ats)))
        await connection.execute("delete from ledger.claim")
        await connection.execute("delete from ledger.pending")
        await connection.execute("insert into ledger.pending select * from kept")
        monkeypatch.setattr(item_claimer, "_FEW_FLOWS_MAX", -1)
    few, large = written
    assert few == large
    if case.claimed is not None:
        assert few[2].total() == case.claimed


async def test_postgres_computes_the_partition_of_a_key_as_kafkas_clients_do(
    connection: Connection,
) -> None:
    keys = ["x" * size for size in range(1, 14)] + [
        "Zürich",
        "家族 9",
        "\x7f\x80é",
        "POL-000000123",
    ]
    found = await connection.fetch(
        "select k, n, ledger.kafka_partition(k, n) as at"
        " from unnest($1::text[]) k, unnest(array[1, 3, 4, 1000]) n",
        keys,
    )
    assert {(row["k"], row["n"]): row["at"] for row in found} == {
        (key, count): partition_of(key.encode(), count) for key in keys for count in (1, 3, 4, 1000)
    }


def _claimer() -> ItemClaimer:
    def new_batch(_: str | None) -> OutgoingBatch:
        return OutgoingBatch(BYTES_MAX, Compression.NONE)

    return ItemClaimer(
        FlowLoad.LIGHT,
        ClaimBatchBuilder(7, new_batch),
        FlowQueue(admission_group_of),
        DeliveryBuffer(cast("Pool", None), 7),
        allocator_no=7,
        topic_window_items=1000,
        batch_bytes_max=BYTES_MAX,
    )


async def _check_records(connection: Connection, batches: Sequence[ClaimBatch]) -> None:
    """Compare the records of each claim with its row: its items in their order, and its id."""
    items = await connection.fetch("select id, item_no from ledger.due_item")
    numbers = {row["id"]: row["item_no"] for row in items}
    rows = await connection.fetch("select * from ledger.claim")
    claims = {row["fence"]: row for row in rows}
    assert len(claims) == len(batches)
    for batch in batches:
        claim = claims[batch.fence]
        assert (batch.topic, batch.partition) == (claim["topic"], claim["partition"])
        sealed = MemoryRecords(bytes(batch.records._build())).next_batch()
        assert sealed is not None
        records = list(sealed)[batch.records_before :][: claim["size"]]
        headers = [envelope.parse_work_headers(record.headers) for record in records]
        assert [numbers[each.item] for each in headers] == claim["item_no"]
        assert [each.position for each in headers] == list(range(1, claim["size"] + 1))
        assert [each.attempt for each in headers] == claim["attempt"]
        for record, each in zip(records, headers, strict=True):
            assert each.claim_id == (claim["fence"], claim["claimed_at"], claim["token"])
            assert partition_of(record.key or b"", PARTITIONS) == claim["partition"]


async def _claims(connection: Connection) -> list[Any]:
    """Return the claims without what is drawn, each with its items by their numbers."""
    rows = await connection.fetch("select * from ledger.claim")
    claims: list[Any] = []
    for row in rows:
        columns = dict(row)
        arrays = [columns.pop(name) for name in ("item_no", "effective_date", "attempt", "starts")]
        flow_nos = sorted(columns.pop("flow_nos"))
        assert len(columns.pop("token")) == 16
        del columns["fence"]
        claims.append((sorted(zip(*arrays, strict=True)), flow_nos, columns))
    return sorted(claims, key=lambda claim: claim[0])


async def _pending(connection: Connection) -> list[int]:
    rows = await connection.fetch("select item_no from ledger.pending order by item_no")
    return [row["item_no"] for row in rows]
