"""What is declared about repairs: treatment by kind and type, rate, who proposes, and which."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType, RepairAction
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.repairs import approve_repairs, list_repairs
from dueledger.reconciler import (
    Reconciler,
    ReconcilerSources,
    RepairSelection,
    SqlPopulation,
    load_sources,
)
from dueledger.reconciler.read import finding_pages
from dueledger.reconciler.repair import open_repairs
from dueledger.reconciler.repair.command_publisher import RepairCommand
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]


class KeptCommands:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.commands: list[RepairCommand] = []

    async def publish(self, commands: list[RepairCommand]) -> None:
        self.commands += commands


async def test_g11_what_is_done_about_a_finding_is_declared_by_tenant_kind_and_type(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    complete_all: Callable[..., Awaitable[None]],
    actor_no: int,
    tmp_path: Path,
) -> None:
    overdue, missing = FindingType.OVERDUE, FindingType.MISSING
    kinds = {name: f"{name.title()}Due" for name in Treatment}
    # An item that was handed out and has no evidence waits for a person under every policy.
    materialised = {Treatment.AUTO, Treatment.PROPOSE}
    declared = {name: missing if name in materialised else overdue for name in Treatment}
    parked = [
        draft
        for name, type_ in declared.items()
        if type_ is overdue
        for draft in make_drafts(1, kind=kinds[name])
    ]
    file = tmp_path / "sources.yaml"
    file.write_text(
        "repairs:\n"
        + "".join(
            f"  - {{tenant: acme, kind: {kind}, findings: {{{declared[name]}: {name}}}}}\n"
            for name, kind in kinds.items()
        )
    )
    await emit_items(frozen, parked, actor_no=actor_no)
    await complete_all(TransitionEvent.PARKED)
    await owe(
        [
            draft
            for name in (*materialised, Treatment.NEVER)
            for draft in make_drafts(1, kind=kinds[name], due_at=NOON, prefix="another")
        ]
    )
    sources = ReconcilerSources((policies,), (), load_sources(file).policies)
    publisher = KeptCommands()
    reconciler = make_reconciler(sources, publisher=publisher)
    await reconciler.run_pass()

    planned = {(each.kind, each.finding_type): each for each in await reconciler.plan()}
    await reconciler.repair(list(planned.values()))

    assert {key: each.action for key, each in planned.items()} == {
        (kinds[Treatment.AUTO], missing): RepairAction.MATERIALISE,
        (kinds[Treatment.PROPOSE], missing): RepairAction.MATERIALISE,
        (kinds[Treatment.ESCALATE], overdue): RepairAction.ESCALATE,
        # Another type of the same kind is repaired as by default.
        (kinds[Treatment.NEVER], missing): RepairAction.MATERIALISE,
    }
    repairs = {row["kind"]: row for row in await list_repairs(frozen)}
    assert {kind: row["status"] for kind, row in repairs.items()} == {
        kinds[Treatment.AUTO]: "executed",
        kinds[Treatment.PROPOSE]: "proposed",
        kinds[Treatment.ESCALATE]: "executed",
        kinds[Treatment.NEVER]: "executed",
    }
    assert "a person approves it" in repairs[kinds[Treatment.PROPOSE]]["held_because"]
    assert [command.tenant for command in publisher.commands] == ["acme"]


async def test_g11_a_proposal_is_executed_after_another_person_than_its_maker_approved_it(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    kind: str,
) -> None:
    await owe(make_drafts(1, due_at=NOON))
    asked = RepairPolicies({("acme", kind): {FindingType.MISSING: Treatment.PROPOSE}})
    reconciler = make_reconciler(ReconcilerSources((policies,), (), asked))
    ann, bob = [
        await register_actor(frozen, f"person:{name}", ActorKind.PERSON) for name in ("ann", "bob")
    ]
    reconciler.proposer_no = ann
    await reconciler.run_pass()

    planned = await reconciler.plan()
    assert [each.held_because for each in planned] == [
        "the policy of its kind: a person approves it"
    ]
    assert await reconciler.repair(planned) == 0
    [proposed] = await list_repairs(frozen)
    assert (proposed["status"], proposed["proposed_by"]) == ("proposed", "person:ann")
    own = await approve_repairs(frozen, [proposed["id"]], reason="mine", actor_no=ann)
    assert own == {proposed["id"]: "own"}
    assert await reconciler.repair(await reconciler.plan()) == 0
    await approve_repairs(frozen, [proposed["id"]], reason="checked", actor_no=bob)
    # What is approved is what is executed: with other terms it is another proposal.
    payload = await domain.fetchval("select payload from policy_due")
    await domain.execute('update policy_due set payload = \'{"premium": "999999.00"}\'')
    await reconciler.run_pass()
    assert await reconciler.repair(await reconciler.plan()) == 0
    waiting = {row["id"]: row for row in await list_repairs(frozen)}
    assert "another proposal says how" in waiting.pop(proposed["id"])["held_because"]
    [other] = waiting.values()
    assert (other["approved_by"], "999999" in other["command"]["payload"]) == (None, True)
    await domain.execute("update policy_due set payload = $1", payload)
    await reconciler.run_pass()
    planned = await reconciler.plan()
    assert [(each.id, each.held_because) for each in planned] == [(proposed["id"], None)]
    assert await reconciler.repair(planned) == 1
    assert await reconciler.plan() == []
    assert await frozen.fetchval("select payload::text from ledger.due_item") == payload
    [executed] = [row for row in await list_repairs(frozen) if row["executed_at"]]
    assert [executed[name] for name in ("proposed_by", "approved_by", "executed_by")] == [
        "person:ann",
        "person:bob",
        "reconciler:test",
    ]


async def test_g11_an_item_whose_source_does_not_say_its_payload_waits_for_a_person(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(1, due_at=NOON))
    without = replace(policies, query=policies.query.replace(", payload", ""))
    reconciler = make_reconciler(ReconcilerSources((without,)))
    await reconciler.run_pass()

    planned = await reconciler.plan()
    assert "does not say its payload" in (planned[0].held_because or "")
    assert await reconciler.repair(planned) == 0

    bob = await register_actor(frozen, "person:bob", ActorKind.PERSON)
    [proposed] = await list_repairs(frozen)
    await approve_repairs(frozen, [proposed["id"]], reason="it has none", actor_no=bob)
    assert await reconciler.repair(await reconciler.plan()) == 1


async def test_g11_repairs_beyond_the_rate_of_all_reconcilers_wait_for_the_next_minute(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
) -> None:
    await owe(make_drafts(5, due_at=NOON))
    first, second = [make_reconciler(ReconcilerSources((policies,))) for _ in range(2)]
    first.repair_rate_max = second.repair_rate_max = 2
    await first.run_pass()

    assert await first.repair(await first.plan()) == 2
    assert await second.repair(await second.plan()) == 0
    held = [row for row in await list_repairs(frozen) if row["held_because"]]
    assert {row["held_because"] for row in held} == {"2 repairs a minute were executed"}
    assert len(held) == 3
    await frozen.execute("update ledger.repair set executed_at = executed_at - interval '61 s'")
    assert await second.repair(await second.plan()) == 2


async def test_a_dry_run_names_the_state_before_and_after_of_the_repairs_that_are_meant(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    complete_all: Callable[..., Awaitable[None]],
    kind: str,
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parked = make_drafts(1)
    await emit_items(frozen, parked, actor_no=actor_no)
    await complete_all(TransitionEvent.PARKED)
    others = make_drafts(2, kind="LetterDue", tenant="umbra", due_at=NOON)
    await owe([*parked, *make_drafts(2, due_at=NOON, prefix="other"), *others])
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()

    changes = {
        (each.tenant, each.finding_type): (each.before, each.after)
        for each in await reconciler.plan()
    }
    assert changes == {
        ("acme", FindingType.OVERDUE): ("ManualReview, attempt 0", "Scheduled, attempt 0"),
        ("acme", FindingType.MISSING): ("no item", "Scheduled"),
        ("umbra", FindingType.MISSING): ("no item", "Scheduled"),
    }
    for selection, count in (
        (RepairSelection(), 5),
        (RepairSelection(FindingType.MISSING), 4),
        (RepairSelection(FindingType.MISSING, limit=3), 3),
        (RepairSelection(kind=kind), 3),
        (RepairSelection(FindingType.MISSING, "umbra"), 2),
        (RepairSelection(tenant="umbra", kind=kind), 0),
    ):
        assert len(await reconciler.plan(selection)) == count
    monkeypatch.setattr(finding_pages, "PAGE_ROWS", 1)
    monkeypatch.setattr(open_repairs, "PLANNED_MAX", 2)
    assert len(await reconciler.plan()) == 2
    assert len(await reconciler.plan(RepairSelection(FindingType.OVERDUE))) == 1
