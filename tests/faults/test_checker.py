"""The checker finds nothing after a quiet run, and each of its rules finds what breaks it."""

from typing import Any

import pytest

from .checker import broken_rules, gathered
from .rules import RULES
from .site import Site

pytestmark = pytest.mark.long

# Rows that a broken guarantee would leave, by the rule that must find them.
BREAKING = {
    "G1 what was acknowledged is exactly one row": "insert into emitted values (gen_random_uuid())",
    "G1 nothing is owed that nobody emitted": "delete from emitted",
    "G2 each item stands in exactly one place": "delete from ended where terminal",
    "G2 what is parked says why, in its row and in the journal": """
        update ledger.review set reason = ''
    """,
    "G2 only poison is parked": "update emitted set poisonous = false",
    "G2 what was withdrawn had been asked to end so, or gave way to another": """
        update ended set event = 'cancelled' where terminal
    """,
    "G2 what was skipped gave way to another of its key that was handed out": """
        update ended set event = 'skipped' where terminal
    """,
    "G2 what waits again says why in the journal": """
        insert into ledger.pending (item_no, effective_date, flow_no, available_at, starts)
        select 0, effective_date, flow_no, now(), 1 from ledger.due_item limit 1
    """,
    "G3 nothing is claimed early": "update handed set due_at = claimed_at + interval '1 ms'",
    "G3 nothing is started early": "update worked set due_at = started_at + interval '1 ms'",
    "G3 nothing is worked early": "update effect set at = '2025-12-31T23:59:59Z'",
    "G4 what was worked was handed out under that fence, at that position": """
        update effect set attempt = attempt + 1
    """,
    "G4 what was handed out under a fence is worked at most once, but for what a topic settles": """
        insert into effect select * from effect
    """,
    "G4 what was worked had been started": "delete from worked",
    "G4 an item is started at most once under a fence": """
        insert into worked select run_no + 1000000, worker_no, started_at, closed_at, fence,
          position, item_no, id, due_at, by_topic from worked
    """,
    "G4 the fences of an item's runs only grow": """
        insert into worked select run_no + 1000000, worker_no, started_at, closed_at, fence - 1,
          position, item_no, id, due_at, by_topic from worked
    """,
    "G4 the fences of an item's claims grow with time": """
        insert into handed select fence + 1000000, claimed_at - interval '1 h', topic, partition,
          base_offset, published_at, closed_at, position, item_no, attempt, id, due_at,
          by_topic from handed
    """,
    "G4 what is handed out again was given back, or its run's end is in the journal": """
        insert into handed select fence + 1000000, claimed_at, topic, partition,
          base_offset, published_at, closed_at, position, item_no, attempt, id, due_at,
          by_topic from handed
    """,
    "G4 what ended in a run ended once there, by who held it or a reaper": """
        update worked set worker_no = 0
    """,
    "G4 what completed did so under its newest fence": "update worked set fence = fence - 1",
    "G4 items of one key run one after another, where order or overlap asks for it": """
        update item set ordering = 'key', key = 'one'
    """,
    "G4 between the attempts of an item none of its key runs, where failures hold": """
        update ended set at = at + interval '1 h' where terminal
    """,
    "G4 no key is held by an item that ended": """
        insert into ledger.held_key select 1, i.item_no, i.effective_date, i.flow_no, now()
        from ledger.due_item i join ended t using (item_no) where t.terminal limit 1
    """,
    "G4 no item waits for a key that nobody holds": """
        insert into ledger.pending (
          item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
        select 0, effective_date, flow_no, 'infinity', 1, now(), 1 from ledger.due_item limit 1
    """,
    "G4 what was answered stale is recorded": "insert into refusal values ('settle', null, 0)",
    "G5 all but poison is completed, and worked, unless it was withdrawn or skipped": """
        delete from ended where event = 'completed'
    """,
    "G6 what completed was worked under that fence": "delete from effect",
    "G6 an effect within the completing transaction happened exactly once": """
        insert into public.effect_within select * from public.effect_within limit 1
    """,
    "G7 what was answered as withdrawn has ended so": """
        insert into asked select id, 'cancelled', true from emitted
    """,
    "G8 a terminal state is the last": """
        insert into ended
        select item_no, run_no + 1, 'failed', false, actor_no, at, reason, id, kind from ended
        where terminal
    """,
    "G8 a run that is closed has ended in full, or was taken from its worker": "delete from ended",
    "G13 each occurrence that its version owes is one item, and completed": """
        insert into occurrence values ('Schedule', '2027')
    """,
    "G13 what its version does not owe was handed out before, or ended by a version": """
        delete from handed; insert into live select * from item
    """,
    "Kafka: what was worked came from there": "delete from record",
    "Kafka: nothing is published without its claim, nor other than claimed": """
        update record set fence = fence + 1000000
    """,
    "Kafka: nothing is published twice under one fence unless that is left ambiguous": """
        insert into record select topic, partition, place + 1000000, fence, position, item, copied
        from record
    """,
    "Kafka: what was acknowledged lies at base offset + position - 1": """
        update record set place = place + 1
    """,
    "Kafka: what was said never to have left is not there": """
        insert into unsent select fence from record
    """,
    "G2 the accounting identity": "delete from ledger.transition",
}


async def test_a_quiet_run_breaks_no_rule_and_each_rule_can_be_broken(site: Site) -> None:
    for handler in ("batch", "single", "threaded", "transaction"):
        kind = await site.add_kind(handler, attempt_max=2)
        await site.emit([*site.drafts(kind, 50), *site.drafts(kind, 1, prefix="poison")])
    policies: list[dict[str, Any]] = [{"ordering": "key"}, {"dispatch": "direct"}]
    for policy in policies:
        await site.emit(site.drafts(await site.add_kind("single", **policy), 50))
    await site.start_allocator()
    worker = await site.start_worker(DUELEDGER_FAILURES_PER_THOUSAND="200")
    await site.worked_by(worker)  # before the other has taken everything
    await site.start_direct_worker(DUELEDGER_FAILURES_PER_THOUSAND="200")

    await site.finished()

    assert await site.end_all() == {}
    assert await site.count_completed() == 300
    async with gathered(site) as connection:
        assert await broken_rules(site, connection) == []
        assert BREAKING.keys() == RULES.keys()
        for rule, breaking in BREAKING.items():
            trial = connection.transaction()
            await trial.start()
            await connection.execute(breaking)
            broken = await broken_rules(site, connection, {rule: RULES[rule]})
            await trial.rollback()
            assert broken, rule
