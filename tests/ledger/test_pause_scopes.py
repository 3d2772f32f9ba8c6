"""A flow is paused by the earliest pause in force that covers it, whatever was paused before."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import (
    FlowScope,
    end_pauses,
    list_pauses,
    pause_flows,
    reapply_pauses,
    resume_flows,
)
from dueledger.ledger.store.items import emit_items

from .conftest import Ledger

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
TENANTS, KINDS, LANES = ("acme", "other"), ("First", "Second"), ("", "eu")
FLOWS: Final = [
    FlowScope(tenant, kind, lane) for tenant in TENANTS for kind in KINDS for lane in LANES
]
SCOPES: Final = [
    FlowScope(tenant, kind, lane)
    for tenant in TENANTS
    for kind in (None, *KINDS)
    for lane in (None, *LANES)
]
NUMBERS: Final = """
select name.relname, pg_sequence_last_value(s.seqrelid) as number
from pg_sequence s join pg_class name on name.oid = s.seqrelid
where name.relname in ('pause_pause_no_seq', 'flow_flow_no_seq', 'kind_kind_no_seq')
order by 1
"""


def _contains(wide: FlowScope, narrow: FlowScope) -> bool:
    return (
        wide.tenant == narrow.tenant
        and wide.kind in (None, narrow.kind)
        and wide.lane in (None, narrow.lane)
    )


Terms = tuple[datetime | None, int | None, str | None]


@dataclass
class Model:
    """What is in force: who paused each scope, when and why."""

    ledger: Ledger
    now: datetime = NOON
    flows: list[FlowScope] = field(default_factory=list[FlowScope])
    pauses: dict[FlowScope, Terms] = field(default_factory=dict[FlowScope, Terms])

    def terms(self, flow: FlowScope) -> Terms:
        covering = [terms for scope, terms in self.pauses.items() if _contains(scope, flow)]
        return covering[0] if covering else (None, None, None)  # they are in order of time

    async def _pass_a_minute(self) -> None:
        self.now += MINUTE
        await set_clock(self.ledger.connection, self.now, 0)

    async def emit(self, *flows: FlowScope) -> None:
        await self._pass_a_minute()
        self.ledger.made += 1
        drafts = [
            draft
            for flow in flows
            for draft in self.ledger.make_drafts(
                prefix=f"batch-{self.ledger.made}{flow.lane}",
                tenant=flow.tenant,
                kind=flow.kind,
                lane=flow.lane,
            )
        ]
        results = await emit_items(self.ledger.connection, drafts, actor_no=self.ledger.worker_no)
        assert all(result.created for result in results)
        self.flows += [flow for flow in flows if flow not in self.flows]

    async def pause(self, scope: FlowScope, until: datetime | None = None) -> None:
        await self._pass_a_minute()
        reason, actor_no = str(scope), self.ledger.other_worker_no
        running = {flow for flow in self.flows if self.terms(flow)[0] is None}
        result = await pause_flows(
            self.ledger.connection, scope, reason=reason, actor_no=actor_no, until=until
        )
        assert len(result.pauses) == (scope not in self.pauses)
        self.pauses.setdefault(scope, (self.now, actor_no, reason))
        assert {FlowScope(**flow) for flow in result.flows} == {
            flow for flow in running if _contains(scope, flow)
        }

    async def resume(self, scope: FlowScope) -> None:
        await self._pass_a_minute()
        before = {flow: self.terms(flow) for flow in self.flows}
        result = await resume_flows(
            self.ledger.connection, scope, actor_no=self.ledger.other_worker_no
        )
        ended = [each for each in self.pauses if _contains(scope, each)]
        assert [pause["reason"] for pause in result.pauses] == list(map(str, ended))
        for each in ended:
            del self.pauses[each]
        assert {
            FlowScope(flow.tenant, flow.kind, flow.lane): (flow.still_paused, flow.pause_reason)
            for flow in result.flows
        } == {
            flow: (self.terms(flow)[0] is not None, self.terms(flow)[2])
            for flow, terms in before.items()
            if terms[0] is not None and _contains(scope, flow)
        }
        rows = await self.ledger.connection.fetch(
            "select reason, resumed_by from ledger.pause where resumed_at = $1 order by pause_no",
            self.now,
        )
        assert [tuple(row) for row in rows] == [
            (str(each), self.ledger.other_worker_no) for each in ended
        ]

    async def check(self) -> None:
        """Compare all flows and pauses with the ledger's."""
        rows = await self.ledger.connection.fetch(
            "select k.tenant, k.name as kind, f.lane, f.paused_at, f.paused_by, f.pause_reason"
            " from ledger.flow f join ledger.kind k using (kind_no)"
        )
        assert {FlowScope(*tuple(row)[:3]): tuple(row)[3:] for row in rows} == {
            flow: self.terms(flow) for flow in self.flows
        }
        rows = await list_pauses(self.ledger.connection)
        assert sorted(row["reason"] for row in rows) == sorted(map(str, self.pauses))


@pytest.fixture
def model(undone_ledger: Ledger) -> Model:
    return Model(undone_ledger)


async def test_each_pause_and_its_end_cover_their_scope_alone(model: Model) -> None:
    await model.emit(*FLOWS)
    for scope in SCOPES:
        await model.pause(scope)
        await model.check()
        await model.resume(scope)
        await model.check()


async def test_pauses_that_overlap_end_one_by_one(model: Model) -> None:
    await model.emit(*FLOWS)
    for scope in [*SCOPES, *SCOPES[:3]]:
        await model.pause(scope)
        await model.check()
    for scope in reversed(SCOPES):
        await model.resume(scope)
        await model.check()
    for scope in reversed(SCOPES):
        await model.pause(scope)
    for scope in SCOPES[9:]:  # those of one tenant end at once
        await model.resume(scope)
        await model.check()
    assert len(model.pauses) == 9


async def test_a_flow_resumes_beside_pauses_of_other_kinds_and_lanes(model: Model) -> None:
    await model.emit(*FLOWS)
    lanes = FlowScope("acme", None, ""), FlowScope("acme", None, "eu")
    kinds = FlowScope("acme", "First"), FlowScope("acme", "Second")
    for first, second in (lanes, kinds):
        await model.pause(first)
        await model.pause(second)
        await model.resume(second)
        await model.check()
        await model.resume(first)


async def test_a_new_flow_is_paused_by_the_earliest_pause_that_covers_it(model: Model) -> None:
    for scope in SCOPES[3:6]:
        await model.pause(scope)
    for number, flow in enumerate(FLOWS):
        await model.emit(*FLOWS[: number + 1])
        await model.check()
        if number % 3 == 0:
            await model.pause(FlowScope(flow.tenant, None, "eu"))
        if number % 3 == 1:
            await model.resume(FlowScope("acme", "First"))


async def test_a_pause_ends_by_its_own_end_and_others_that_cover_its_flows_go_on(
    model: Model,
) -> None:
    connection = model.ledger.connection
    lane, kind, tenant = FlowScope("acme", "First", "eu"), FlowScope("acme", "First"), SCOPES[0]
    end = NOON + 30 * MINUTE
    await model.emit(*FLOWS)
    for scope, until in ((lane, None), (kind, end), (FlowScope("other", "First"), end)):
        await model.pause(scope, until)
    await model.pause(tenant, end + MINUTE)
    for now, ended in (
        (end - timedelta(microseconds=1), []),
        (end, [kind, FlowScope("other", "First")]),
        (end + 2 * MINUTE, [tenant]),
    ):
        await set_clock(connection, now, 0)
        found = [each for _ in range(3) for each in await end_pauses(connection, 1)]
        assert [FlowScope(each["tenant"], each["kind"], each["lane"]) for each in found] == ended
        for scope in ended:
            del model.pauses[scope]
        await reapply_pauses(connection)
        await model.check()
    assert list(model.pauses) == [lane]
    rows = await connection.fetch(
        "select resumed_at, resumed_by from ledger.pause where resumed_at is not null order by 1"
    )
    assert [tuple(row) for row in rows] == [(end, None), (end, None), (end + 2 * MINUTE, None)]


async def test_the_end_of_a_pause_moves_and_is_never_past(model: Model) -> None:
    async def pause(until: datetime | None, scope: FlowScope) -> list[dict[str, Any]]:
        actor_no = model.ledger.worker_no
        paused = await pause_flows(
            model.ledger.connection, scope, reason="again", actor_no=actor_no, until=until
        )
        return paused.pauses

    scope, later = FlowScope("acme", "First"), NOON + 30 * MINUTE
    await model.emit(*FLOWS)
    await model.pause(scope)
    for until in (NOON, model.now):
        with pytest.raises(InvalidInput, match="it is past by the ledger's clock"):
            await pause(until, scope)
    with pytest.raises(InvalidInput):
        await pause(model.now, SCOPES[9])
    for until, count in ((later, 1), (later, 0), (later + MINUTE, 1), (None, 1), (None, 0)):
        moved = await pause(until, scope)
        assert [each["reason"] for each in moved] == [str(scope)] * count
        [pause_in_force] = await list_pauses(model.ledger.connection)
        assert pause_in_force["paused_until"] == until
        await model.check()


@pytest.mark.parametrize("scope", SCOPES[:9], ids=str)
async def test_a_new_flow_is_paused_only_by_a_pause_in_force_of_its_scope(
    model: Model, scope: FlowScope
) -> None:
    await model.pause(FlowScope("acme"))
    await model.resume(FlowScope("acme"))
    await model.pause(scope)
    await model.emit(*FLOWS)
    await model.check()


async def test_upkeep_pauses_and_resumes_each_flow_that_is_not_as_it_should_be(
    model: Model,
) -> None:
    await model.emit(*FLOWS)
    for scope in (SCOPES[1], SCOPES[3], SCOPES[8], SCOPES[16]):
        await model.pause(scope)
    await model.pause(SCOPES[9])
    await model.resume(SCOPES[9])
    connection = model.ledger.connection
    assert await reapply_pauses(connection) == 0
    await model.check()
    for half in (0, 1):  # each flow is wrong once, beside flows that are right
        changed = await connection.execute(
            "update ledger.flow set pause_reason = null,"
            " paused_at = case when paused_at is null then now() end,"
            " paused_by = case when paused_at is null then $2::bigint end where flow_no % 2 = $1",
            half,
            model.ledger.worker_no,
        )
        assert await reapply_pauses(connection) == int(changed.split()[1]) == len(FLOWS) // 2
        await model.check()


async def test_what_exists_takes_no_number_again(model: Model) -> None:
    async def numbers() -> list[tuple[str, int]]:
        return [tuple(row) for row in await model.ledger.connection.fetch(NUMBERS)]

    await model.emit(*FLOWS)
    await model.pause(SCOPES[0])
    before = await numbers()
    await model.emit(*FLOWS)
    await model.pause(SCOPES[0])
    assert await numbers() == before
