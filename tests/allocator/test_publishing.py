"""Due items are published once a fence, to their partition, and never early."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import ConsumerRecord

from dueledger.allocator import Allocator
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.partitioner import partition_of
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import (
    FlowLimits,
    FlowScope,
    pause_flows,
    resume_flows,
    set_flow_limits,
)
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from tests.claim_ids import claims_of_other_flows

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Grant = Callable[..., Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
ReadTopic = Callable[[str], Awaitable[list[ConsumerRecord]]]
PARTITIONS = 4


async def claims_of(connection: Connection) -> list[dict[str, Any]]:
    return [
        dict(row) for row in await connection.fetch("select * from ledger.claim order by fence")
    ]


async def test_every_due_item_is_published_once_at_base_offset_plus_position_less_one(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    drafts = make_drafts(300)
    await emit(drafts)

    counts = await (await start_allocator()).tick()

    assert counts["claimed"] == counts["published"] == 300
    records = await read_topic(f"due.{kind}")
    published = [(record, envelope.parse_work_headers(record.headers)) for record in records]
    assert Counter(headers.item for _, headers in published) == Counter(
        draft.id for draft in drafts
    )
    claims = {claim["fence"]: claim for claim in await claims_of(connection)}
    items = await connection.fetch("select id, item_no from ledger.due_item")
    numbers = {row["id"]: row["item_no"] for row in items}
    for record, headers in published:
        claim = claims[headers.fence]
        assert record.offset == claim["base_offset"] + headers.position - 1
        assert record.partition == claim["partition"]
        assert claim["item_no"][headers.position - 1] == numbers[headers.item]
        assert record.key == headers.business_key.encode()
        assert record.partition == partition_of(record.key or b"", PARTITIONS)
        assert record.value == b'{"premium":"123.45"}'
        assert headers.attempt == 1
    assert not (await (await start_allocator()).tick())["claimed"]


async def test_the_codec_that_a_kind_names_is_that_of_its_flows(
    emit: Emit, make_drafts: Drafts, connection: Connection, kind: str
) -> None:
    await put_kind_policy(connection, KindPolicy("acme", kind, compression="gzip"))
    await emit(make_drafts())

    (flow,) = await list_due_flows(connection, 10)

    assert flow.compression == "gzip"


async def test_a_kind_that_is_emitted_before_it_is_defined_has_the_codec_of_its_topic(
    emit: Emit, make_drafts: Drafts, connection: Connection, kind: str
) -> None:
    await put_kind_policy(connection, KindPolicy("acme", kind, compression="gzip"))
    await emit([*make_drafts(tenant="globex"), *make_drafts(kind="OtherDue")])

    flows = await list_due_flows(connection, 10)

    assert {(flow.tenant, flow.kind): flow.compression for flow in flows} == {
        ("globex", kind): "gzip",
        ("acme", "OtherDue"): None,
    }


async def test_claims_of_many_limited_flows_share_their_partitions_batches(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
    actor_no: int,
) -> None:
    await emit(
        [
            replace(draft, lane=f"lane-{number}", partition_key="together")
            for number, draft in enumerate(make_drafts(120))
        ]
    )
    limits = FlowLimits(concurrency_max=5)
    await set_flow_limits(connection, FlowScope("acme", kind), limits, actor_no=actor_no)

    counts = await (await start_allocator()).tick()

    assert counts["claimed"] == counts["published"] == 120
    claims = {claim["fence"]: claim for claim in await claims_of(connection)}
    assert len(claims) == 120
    records = await read_topic(f"due.{kind}")
    headers_by_offset = {
        record.offset: envelope.parse_work_headers(record.headers) for record in records
    }
    assert {headers.fence: offset for offset, headers in headers_by_offset.items()} == {
        fence: claim["base_offset"] for fence, claim in claims.items()
    }
    # The records of a batch are as old as one another.
    assert len({record.timestamp for record in records}) < 20


async def test_a_partition_key_decides_the_partition_and_the_business_key_stays_the_subject(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, read_topic: ReadTopic, kind: str
) -> None:
    await emit([replace(draft, partition_key="together") for draft in make_drafts(20)])

    await (await start_allocator()).tick()

    records = await read_topic(f"due.{kind}")
    assert {record.key for record in records} == {b"together"}
    assert {record.partition for record in records} == {partition_of(b"together", PARTITIONS)}
    subjects = {envelope.parse_work_headers(record.headers).business_key for record in records}
    assert len(subjects) == 20


async def test_g3_nothing_is_published_before_due_at_on_the_database_clock(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    due = datetime(2031, 5, 1, 9, tzinfo=UTC)
    await set_clock(connection, due - timedelta(microseconds=1), 0, database=True)
    await emit(make_drafts(3, due_at=due))

    early = await (await start_allocator()).tick()

    assert early["claimed"] == 0
    assert await read_topic(f"due.{kind}") == []
    await set_clock(connection, due, 0, database=True)
    assert (await (await start_allocator()).tick())["published"] == 3


async def test_g3_the_claim_itself_refuses_items_that_are_not_due_beside_some_that_are(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    far = datetime(2150, 1, 1, tzinfo=UTC)
    await emit([*make_drafts(5), *make_drafts(5, due_at=far, prefix="later")])

    counts = await (await start_allocator()).tick()

    assert counts["claimed"] == 5
    records = await read_topic(f"due.{kind}")
    assert all((record.key or b"").startswith(b"key-") for record in records)
    assert await connection.fetchval("select count(*) from ledger.pending") == 5


async def test_items_a_dead_run_left_behind_go_in_claims_no_larger_than_their_batch_max(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    await emit(make_drafts(40))
    await connection.execute(
        "update ledger.pending set batch_max = 3 where item_no in"
        " (select item_no from ledger.pending order by item_no limit 25)"
    )

    await (await start_allocator()).tick()

    claims = await claims_of(connection)
    suspects = [claim for claim in claims if claim["batch_max"] == 3]
    assert sum(claim["size"] for claim in suspects) == 25
    assert max(claim["size"] for claim in suspects) == 3
    others = [claim for claim in claims if claim["batch_max"] is None]
    assert sum(claim["size"] for claim in others) == 15
    assert len(await read_topic(f"due.{kind}")) == 40


async def test_a_paused_flow_is_left_alone_while_others_are_served(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection, actor_no: int
) -> None:
    drafts = make_drafts(5, lane="US", prefix="us")
    await emit([*make_drafts(7, lane="EU"), *drafts])
    scope = FlowScope("acme", drafts[0].kind, "US")
    await pause_flows(connection, scope, reason="an audit", actor_no=actor_no)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == 7
    assert (await allocator.tick())["claimed"] == 0

    await resume_flows(connection, scope, actor_no=actor_no)
    assert (await allocator.tick())["claimed"] == 5


async def test_g4_concurrent_allocators_never_claim_an_item_twice(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    await emit(make_drafts(3000))
    allocators = [await start_allocator(allocator_batch_items_max=200) for _ in range(3)]

    ticks = await asyncio.gather(*(allocator.tick() for allocator in allocators))
    while any(tick["claimed"] for tick in ticks):
        ticks = await asyncio.gather(*(allocator.tick() for allocator in allocators))

    handed_out = await connection.fetch("select unnest(item_no) as item_no from ledger.claim")
    assert len(handed_out) == len({row["item_no"] for row in handed_out}) == 3000
    records = await read_topic(f"due.{kind}")
    items = Counter(envelope.parse_work_headers(record.headers).item for record in records)
    assert len(items) == 3000
    assert set(items.values()) == {1}


async def test_a_full_record_batch_begins_a_new_claim_and_loses_nothing(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    payload = '{"letter":"' + "x" * 5000 + '"}'
    await emit(make_drafts(60, payload=payload))

    counts = await (await start_allocator(allocator_batch_bytes_max=17_000)).tick()

    assert counts["published"] == 60
    claims = await claims_of(connection)
    assert max(claim["size"] for claim in claims) == 3
    offsets = {(claim["partition"], claim["base_offset"]) for claim in claims}
    assert len(offsets) == len(claims)
    by_fence = {claim["fence"]: claim for claim in claims}
    for record in await read_topic(f"due.{kind}"):
        headers = envelope.parse_work_headers(record.headers)
        claim = by_fence[headers.fence]
        assert (record.partition, record.offset) == (
            claim["partition"],
            claim["base_offset"] + headers.position - 1,
        )


async def test_the_largest_payload_passes_unchanged(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, read_topic: ReadTopic, kind: str
) -> None:
    payload = '"' + "ü" * 131_071 + '"'
    await emit(make_drafts(2, payload=payload))

    await (await start_allocator(allocator_batch_bytes_max=16_384)).tick()

    assert [record.value for record in await read_topic(f"due.{kind}")] == [payload.encode()] * 2


async def test_g5_what_a_claim_never_started_is_handed_out_again_under_a_higher_fence(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    read_topic: ReadTopic,
    connection: Connection,
    kind: str,
) -> None:
    await emit(make_drafts(10))
    allocator = await start_allocator()
    await allocator.tick()
    await connection.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1s'"
    )

    reaped = await allocator.tick()
    await connection.execute(
        "update ledger.pending set available_at = ledger.now()"
    )  # backoff over
    again = await allocator.tick()

    assert (reaped["reaped_claims"], reaped["claimed"], again["claimed"]) == (10, 0, 10)
    fences: dict[object, list[int]] = {}
    for record in await read_topic(f"due.{kind}"):
        headers = envelope.parse_work_headers(record.headers)
        fences.setdefault(headers.item, []).append(headers.fence)
    assert {len(given) for given in fences.values()} == {2}
    open_fences = set(
        await connection.fetchval(
            "select array_agg(fence) from ledger.claim where closed_at is null"
        )
    )
    assert {max(given) for given in fences.values()} == open_fences


async def test_a_flood_in_one_flow_leaves_another_its_share_of_the_first_claim(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit([*make_drafts(2000, lane="flood"), *make_drafts(30, lane="calm", prefix="calm")])

    await (await start_allocator(allocator_batch_items_max=100)).tick()

    lanes = await connection.fetch(
        "select f.lane from ledger.claim c"
        " cross join lateral unnest(c.item_no, c.effective_date) u (number, date)"
        " join ledger.due_item i on i.item_no = u.number and i.effective_date = u.date"
        " join ledger.flow f on f.flow_no = i.flow_no order by c.fence"
    )
    assert Counter(row["lane"] for row in lanes[:80]) == {"flood": 50, "calm": 30}


async def test_one_tenants_deadlines_are_not_anothers(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, kind: str, connection: Connection
) -> None:
    terms: dict[str, tuple[int, int, float | None]] = {
        "acme": (30, 120, None),
        "brisk": (5, 60, 1.5),
        "umbra": (30, 120, 7200.0),
        "zeta": (30, 120, None),
    }
    for tenant, (dispatch, queue, run) in terms.items():
        policy = KindPolicy(
            tenant, kind, dispatch_seconds=dispatch, queue_seconds=queue, run_seconds=run
        )
        await put_kind_policy(connection, policy)
    await emit([draft for tenant in terms for draft in make_drafts(8, tenant=tenant)])

    await (await start_allocator()).tick()

    claims = await connection.fetch(
        "select array_agg(distinct k.tenant order by k.tenant) as tenants, c.queue_seconds,"
        " c.run_seconds from ledger.claim c"
        " cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)"
        " join ledger.due_item i on i.item_no = u.item_no and i.effective_date = u.effective_date"
        " join ledger.flow f on f.flow_no = i.flow_no"
        " join ledger.kind k on k.kind_no = f.kind_no"
        " group by c.fence, c.queue_seconds, c.run_seconds"
    )
    assert ["acme", "zeta"] in [claim["tenants"] for claim in claims], "the same share claims"
    for claim in claims:
        for tenant in claim["tenants"]:
            assert terms[tenant][1:] == (claim["queue_seconds"], claim["run_seconds"])
    assert await claims_of_other_flows(connection) == []


async def test_accounting_balances_while_items_are_handed_out(
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    make_drafts: Drafts,
    connection: Connection,
) -> None:
    await emit_unwanted(make_drafts(50))
    await grant(20)
    await (await start_allocator()).tick()

    [account] = await read_accounting(connection)

    assert (account.items, account.pending, account.handed_out) == (50, 30, 20)
