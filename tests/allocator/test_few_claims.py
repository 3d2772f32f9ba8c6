"""A claim of a few items is one statement, and writes what the statements of a large one do."""

# pyright: reportPrivateUsage=false

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, cast

import pytest
from aiokafka.record.memory_records import MemoryRecords

from dueledger.allocator.admission_group import admission_group_of
from dueledger.allocator.claim import item_claimer
from dueledger.allocator.claim.claim_batches import ClaimBatch, ClaimBatchBuilder
from dueledger.allocator.claim.item_claimer import FEW_ITEMS_MAX, ItemClaimer
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.publish.outgoing_batch import Compression, OutgoingBatch
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ScannedFlows
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.partitioner import partition_of
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.claims import DueFlow, list_due_flows
from dueledger.ledger.store.clock import read_now, set_clock, set_machine_clock
from dueledger.ledger.store.few_claims import claim_few_items, find_unanswered_claims
from dueledger.ledger.store.statements import name_of

Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]

PARTITIONS: Final = 4
BYTES_MAX: Final = 1_000_000
RETRIES: Final = (
    "update ledger.pending set state = 4, attempt = 2, starts = 3 where item_no % 2 = 0"
)
SUSPECTS: Final = "update ledger.pending set batch_max = 1 + item_no % 2"
LARGE: Final = f'"{"x" * 250_000}"'
TIMES: Final = "update ledger.kind set run_seconds = 20, dispatch_seconds = 7 where tenant = 'acme'"
LATER: Final = (
    "update ledger.pending set available_at = ledger.now() + interval '30s' where item_no % 3 = 0"
)
LIMITED: Final = "update ledger.flow set rate_per_second = 1000"
TARGETS: Final = (
    "update ledger.flow set lag_target_seconds = case tenant when 'acme' then 9 else 5 end",
    "update ledger.pending set available_at = available_at - interval '1s' where item_no % 2 = 0",
)
ONE_OF_ACME: Final = (
    "update ledger.pending set available_at = ledger.now() + interval '30s' where item_no in"
    " (select item_no from ledger.pending join ledger.flow f using (flow_no)"
    " where f.tenant = 'acme' order by item_no offset 1)"
)
TARGET: Final = "update ledger.flow set lag_target_seconds = 5 where tenant = 'acme'"
PAUSED: Final = "update ledger.flow set paused_at = now(), paused_by = 1 where tenant = 'acme'"


@dataclass(frozen=True, slots=True)
class Case:
    """Due items of each of the flows; `before` is done before these are listed, or after."""

    items: int = 4
    tenants: Sequence[str] = ("acme", "globex")
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    is_few: bool = True
    terms: Mapping[str, str] = field(default_factory=dict[str, str])
    claimed: int | None = None
    is_measured: bool = False


CASES: Final = {
    "one": Case(1),
    "plain": Case(),
    "a-few": Case(FEW_ITEMS_MAX // 2),
    "more": Case(FEW_ITEMS_MAX // 2 + 1, is_few=False),
    "large": Case(terms={"payload": LARGE}, is_few=False),
    "one-is-large": Case(1, tenants=("acme",), terms={"payload": LARGE}),
    "long-keys": Case(terms={"prefix": "家" * 400}, is_few=False),
    "long-keys-of-partitions": Case(terms={"partition_key": "家" * 400}, is_few=False),
    "short-keys-of-partitions": Case(terms={"prefix": "家" * 400, "partition_key": "x"}),
    "retries": Case(before=(RETRIES,)),
    "suspects": Case(before=(SUSPECTS,), is_few=False),
    "times-of-the-kind": Case(before=(TIMES,)),
    "some-later": Case(before=(LATER,)),
    "lag-targets": Case(before=TARGETS, is_measured=True),
    "a-lag-target": Case(before=(TARGET,), is_measured=True),
    "a-lag-target-of-one-item": Case(before=(TARGET, ONE_OF_ACME), is_measured=True),
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
    for tenant in case.tenants:
        await emit_unwanted(make_drafts(case.items, tenant=tenant, **case.terms))
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
        scanned = ScannedFlows()
        taken: Counter[int] = Counter()
        shares = [FlowShare(flow, 200, flow.floor) for flow in flows]
        partitions = {flow.topic: PARTITIONS for flow in flows}
        with connection.query_logger(
            lambda query, names=names: names.update([name_of(query.query)])
        ):
            batches = await _claimer().claim(connection, shares, partitions, taken, scanned)
        assert ("claim_items" in names) == (not is_few), names
        await _check_records(connection, batches)
        written.append(
            (await _claims(connection), await _pending(connection), taken, set(scanned.due_ats))
        )
        await connection.execute("delete from ledger.claim")
        await connection.execute("delete from ledger.pending")
        await connection.execute("insert into ledger.pending select * from kept")
        monkeypatch.setattr(item_claimer, "_FEW_FLOWS_MAX", -1)
    few, large = written
    assert few == large
    assert any(columns["lag_flow_no"] for _, _, columns in few[0]) == case.is_measured
    if case.claimed is not None:
        assert few[2].total() == case.claimed


@pytest.mark.parametrize("change", ["topic = 'due.Other'", "settled_by = 'topic'"])
async def test_flows_whose_items_go_elsewhere_by_now_are_skipped_until_they_are_listed_again(
    emit_unwanted: Emit, make_drafts: Drafts, connection: Connection, change: str
) -> None:
    await emit_unwanted([*make_drafts(2), *make_drafts(1, tenant="globex")])
    flows = await list_due_flows(connection, 10)
    await connection.execute(f"update ledger.kind set {change} where tenant = 'acme'")  # noqa: S608

    batches, taken = await _claim(_claimer(), connection, flows)

    assert [len(batch.claim.item_nos) for batch in batches] == [1]
    assert [flow.tenant for flow in flows if taken[flow.flow_no]] == ["globex"]
    assert len(await _pending(connection)) == 2


async def test_a_few_items_are_those_that_may_start_first_within_the_share_of_their_flow(
    emit_unwanted: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    """A fifth of the share is for retries, and what first attempts leave; rows of others stay."""
    await emit_unwanted(make_drafts(12))
    await connection.execute(
        "update ledger.pending p set available_at = ledger.now() - make_interval(secs => o.secs),"
        " state = case when o.place <= 4 then 4 else 1 end"
        " from (select item_no, 100 + row_number() over (order by item_no % 5, item_no) as secs,"
        " row_number() over (order by item_no) as place from ledger.pending) o"
        " where o.item_no = p.item_no"
    )
    rows = await connection.fetch(
        "select item_no, state from ledger.pending order by available_at, item_no"
    )
    (flow,) = await list_due_flows(connection, 10)
    firsts = [row["item_no"] for row in rows if row["state"] == State.SCHEDULED]
    retries = [row["item_no"] for row in rows if row["state"] == State.RETRYABLE_FAILURE]
    await _claim(_claimer(), connection, [flow], quota=5)
    left = set(await _pending(connection))
    assert left == {*firsts[4:], *retries[1:]}
    await _claim(_claimer(), connection, [flow], quota=10)
    assert await _pending(connection) == []


async def test_g4_two_small_claims_beside_each_other_take_no_item_twice(
    emit_unwanted: Emit, make_drafts: Drafts, pool: Pool, connection: Connection
) -> None:
    await emit_unwanted(make_drafts(12))
    await connection.execute("update ledger.pending set state = 4 where item_no % 3 = 0")
    flows = await list_due_flows(connection, 10)
    async with pool.acquire() as other, other.transaction():
        _, of_other = await _claim(_claimer(), other, flows, quota=5)

        _, taken = await _claim(_claimer(), connection, flows)

    assert (of_other.total(), taken.total()) == (5, 7)
    rows = await connection.fetch("select unnest(item_no) as item_no from ledger.claim")
    assert len({row["item_no"] for row in rows}) == len(rows) == 12


async def test_a_small_claim_takes_plain_due_rows_from_the_floor_on_and_says_when_more_are_due(
    emit_unwanted: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    """Others are below the floor, in the future, of serial items, or of another flow."""
    rows = [
        (state, seconds, serial)
        for seconds, serial in ((-3600, None), (-10800, None), (30, None), (-3600, 42), (5, 42))
        for state in (State.SCHEDULED, State.RETRYABLE_FAILURE)
    ]
    others = [
        (State.RETRYABLE_FAILURE, -60, None),
        (State.RETRYABLE_FAILURE, 5, None),
        (State.SCHEDULED, 5, None),
    ]
    await emit_unwanted(make_drafts(len(rows)))
    await emit_unwanted(make_drafts(len(others), tenant="globex"))
    await connection.executemany(
        "update ledger.pending set state = $2, available_at = ledger.now() + make_interval("
        "secs => $3), serial = $4::bigint, overlap = 1 + 0 * $4::bigint,"
        " serial_due_at = ledger.now() + 0 * $4::bigint * interval '1s'"
        " where item_no = $1",
        [
            (item_no, *row)
            for item_no, row in zip(await _pending(connection), rows + others, strict=True)
        ],
    )
    before = await _pending(connection)
    flow = next(flow for flow in await list_due_flows(connection, 10) if flow.tenant == "acme")
    floor_at = await connection.fetchval("select ledger.now() - interval '2h'")
    flow = flow._replace(floor_at=floor_at, floor_block=0, retry_floor_at=floor_at)
    known = [await _claim_due(connection, flow) for _ in range(2)]
    assert await _pending(connection) == before[2:]
    assert known == [{}, {flow.flow_no: pytest.approx(30, abs=5)}]

    await connection.execute(
        "update ledger.pending set available_at = available_at + interval '60s'"
        " where available_at > ledger.now()"
    )
    assert await _claim_due(connection, flow) == {flow.flow_no: inf}


async def test_a_claim_whose_answer_was_lost_is_found_by_its_secret_alone(
    emit_unwanted: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    secrets = ["one", "another", "a third"]
    claimed: dict[str, list[ClaimId]] = {}
    for secret in secrets:
        await emit_unwanted(make_drafts(8, prefix=secret))
        flows = await list_due_flows(connection, 10)
        rows = await claim_few_items(
            connection,
            flows,
            [8],
            [flow.floor for flow in flows],
            {flow.topic: PARTITIONS for flow in flows},
            allocator_no=7,
            items_max=8,
            bytes_max=BYTES_MAX,
            key_bytes_max=BYTES_MAX,
            secret=secret,
        )
        assert rows is not None
        ids = {ClaimId(fence, rows.claimed_at, token) for *_, fence, token, _ in rows}
        claimed[secret] = [*ids]
        assert len({claim_id.token for claim_id in ids}) == len(ids) > 1
    found = await find_unanswered_claims(connection, secrets[::2])
    assert {*found} == {*claimed["a third"], *claimed["one"]}
    assert await find_unanswered_claims(connection, ["", "on", "claim"]) == []


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


async def _claim(
    claimer: ItemClaimer, connection: Connection, flows: Sequence[DueFlow], *, quota: int = 200
) -> tuple[list[ClaimBatch], Counter[int]]:
    taken: Counter[int] = Counter()
    shares = [FlowShare(flow, quota, flow.floor) for flow in flows]
    partitions = {flow.topic: PARTITIONS for flow in flows}
    names: Counter[str] = Counter()
    with connection.query_logger(lambda query: names.update([name_of(query.query)])):
        batches = await claimer.claim(connection, shares, partitions, taken, ScannedFlows())
        await asyncio.sleep(0)  # loggers are called in the next turn of the loop
    assert set(names) == {"claim_few_items"}
    return batches, taken


async def _claim_due(connection: Connection, flow: DueFlow) -> dict[int, float]:
    """Claim from one flow; return in how many seconds its next row is due, where it is said."""
    rows = await claim_few_items(
        connection,
        [flow],
        [16],
        [flow.floor],
        {flow.topic: PARTITIONS},
        allocator_no=7,
        items_max=16,
        bytes_max=BYTES_MAX,
        key_bytes_max=BYTES_MAX,
        secret="secret",  # noqa: S106 - of nothing
    )
    assert rows is not None
    return dict(rows.due_seconds)


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
