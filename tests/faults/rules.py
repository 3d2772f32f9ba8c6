"""The guarantees as queries, each for what must not be, and the tables that they ask.

`handed` has a row an item and claim, `worked` a row an item and run, `ended` the journal.
"""

from typing import Final

PREPARE: Final = """
set enable_seqscan = on;
create temp table emitted (id uuid, kind text, poisonous boolean);
create temp table occurrence (kind text, cycle text);
create temp table asked (id uuid, event text, done boolean);
create temp table effect (
  item uuid, fence bigint, position integer, attempt integer, at timestamptz);
create temp table record (
  topic text, partition integer, place bigint, fence bigint, position integer, item uuid,
  copied boolean);
create temp table refusal (verb text, fence bigint, run_no bigint);
create temp table unsent (fence bigint);
"""
DERIVE: Final = """
create temp table item as
  select i.item_no, i.id, i.due_at, i.overlap, i.definition_no, k.name as kind,
    split_part(i.cycle, '~', 1) as cycle, k.ordering,
    k.failure_holds,
    coalesce(i.partition_key, i.business_key) as key
  from ledger.due_item i join ledger.flow using (flow_no) join ledger.kind k using (kind_no);
create temp table handed as
  select c.fence, c.claimed_at, c.topic, c.partition, c.base_offset, c.published_at, c.closed_at,
    u.position, u.item_no, u.attempt, i.id, i.due_at, c.topic_actor_no is not null as by_topic
  from ledger.claim c
  cross join lateral unnest(c.item_no, c.attempt) with ordinality u (item_no, attempt, position)
  join item i on i.item_no = u.item_no;
create temp table worked as
  select r.run_no, r.worker_no, r.started_at, r.closed_at, h.fence, h.position, h.item_no, h.id,
    h.due_at, h.by_topic
  from ledger.run r
  join handed h on h.fence = r.fence and h.position between r.from_position and r.to_position;
create temp table ended as
  select t.item_no, t.run_no, e.name as event, s.terminal, t.actor_no, t.at,
    t.detail ->> 'reason' as reason, i.id, i.kind
  from ledger.transition t
  join item i using (item_no)
  join ledger.transition_event e on e.event = t.event
  join ledger.state s on s.state = e.after_state;
create temp table live as
  select i.* from item i
  where i.definition_no is not null and not exists (
    select from ended t
    where t.item_no = i.item_no and t.event = 'superseded' and t.reason = 'version');
create index on item (item_no);
create index on handed (fence, position);
create index on handed (item_no, fence);
create index on worked (fence, position);
create index on worked (item_no, run_no);
create index on ended (item_no, run_no);
create index on ended (id);
create index on effect (item);
create index on record (fence, position);
analyze item; analyze handed; analyze worked; analyze ended; analyze effect; analyze record;
"""

RULES: Final = {
    "G1 what was acknowledged is exactly one row": """
        select e.id, count(i.item_no) from emitted e left join item i using (id)
        group by e.id having count(i.item_no) <> 1
    """,
    "G1 nothing is owed that nobody emitted": """
        select i.id from item i
        where i.definition_no is null and not exists (select from emitted e where e.id = i.id)
    """,
    "G2 each item stands in exactly one place": """
        with place as (
          select item_no from ledger.pending union all select item_no from ledger.review
          union all select item_no from ledger.open_item
          union all select item_no from ended where terminal)
        select i.id, count(p.item_no) from item i left join place p using (item_no)
        group by i.id having count(p.item_no) <> 1
    """,
    "G2 the accounting identity": """
        select * from ledger.accounting()
        where items <> pending + handed_out + running + reviews
          + completed + cancelled + superseded + skipped + written_off
    """,
    "G2 what is parked says why, in its row and in the journal": """
        select r.item_no, r.reason from ledger.review r
        where r.reason = ''
          or not exists (select from ended t where t.item_no = r.item_no and t.event = 'parked')
    """,
    "G2 only poison is parked": """
        select i.id, r.reason from ledger.review r join item i using (item_no)
        where not exists (select from emitted e where e.id = i.id and e.poisonous)
    """,
    "G2 what was withdrawn had been asked to end so, or gave way to another": """
        select t.id, t.event, t.reason from ended t join item i using (item_no)
        where t.event in ('cancelled', 'superseded', 'written_off')
          and not exists (select from asked a where a.id = t.id and a.event = t.event)
          and not (t.event = 'cancelled' and t.reason = 'overlap' and i.overlap is not null)
          and not (t.event = 'superseded' and t.reason = 'version' and i.definition_no is not null)
    """,
    "G2 what was skipped gave way to another of its key that was handed out": """
        select t.id, t.reason from ended t join item i using (item_no)
        where t.event = 'skipped' and (
          t.reason is distinct from 'overlap' or i.overlap not in (2, 3, 4)
          or not exists (
            select from item o join handed h on h.item_no = o.item_no
            where o.kind = i.kind and o.key = i.key and o.item_no <> i.item_no))
    """,
    "G7 what was answered as withdrawn has ended so": """
        select a.id, a.event from asked a
        where a.done and not exists (
          select from ended t where t.id = a.id and t.event = a.event and t.terminal)
    """,
    "G2 what waits again says why in the journal": """
        select p.item_no from ledger.pending p
        where p.starts > 0 and not exists (select from ended t where t.item_no = p.item_no)
    """,
    "G3 nothing is claimed early": "select id, fence from handed where claimed_at < due_at",
    "G3 nothing is started early": "select id, run_no from worked where started_at < due_at",
    "G3 nothing is worked early": """
        select e.item, e.at from effect e join item i on i.id = e.item where e.at < i.due_at
    """,
    "G4 what was worked was handed out under that fence, at that position": """
        select e.* from effect e left join handed h using (fence, position)
        where h.id is distinct from e.item or h.attempt <> e.attempt
    """,
    "G4 what was handed out under a fence is worked at most once, but for what a topic settles": """
        select e.item, e.fence, e.position, count(*) from effect e
        join handed h using (fence, position)
        where not h.by_topic
        group by e.item, e.fence, e.position having count(*) > 1
    """,
    "G4 what was worked had been started": """
        select e.* from effect e join handed h using (fence, position)
        left join worked w using (fence, position)
        where not h.by_topic and (w.run_no is null or w.started_at > e.at)
    """,
    "G4 an item is started at most once under a fence": """
        select fence, position from worked group by fence, position having count(*) > 1
    """,
    "G4 the fences of an item's runs only grow": """
        select * from (
          select id, run_no, fence, lag(fence) over (partition by item_no order by run_no) as before
          from worked) w where fence <= before
    """,
    "G4 the fences of an item's claims grow with time": """
        select * from (
          select id, fence, claimed_at,
            lag(claimed_at) over (partition by item_no order by fence) as before
          from handed) h where claimed_at < before
    """,
    "G4 what is handed out again was given back, or its run's end is in the journal": """
        select h.id, h.fence, w.run_no from (
          select *, lead(fence) over (partition by item_no order by fence) as next from handed) h
        left join worked w on w.fence = h.fence and w.position = h.position
        where h.next is not null and (
          (w.run_no is null and h.closed_at is null)
          or (w.run_no is not null and not exists (
            select from ended t
            where t.item_no = h.item_no and t.run_no = w.run_no and not t.terminal)))
    """,
    "G4 what ended in a run ended once there, by who held it or a reaper": """
        select t.id, t.run_no, count(*) from ended t join worked w using (item_no, run_no)
        group by t.id, t.run_no
        having count(*) > 1
          or bool_or(t.actor_no <> w.worker_no and not w.by_topic
            and t.event not in ('timed_out', 'parked', 'cancelled', 'superseded'))
    """,
    "G4 what completed did so under its newest fence": """
        select t.id, w.fence from ended t
        left join worked w using (item_no, run_no)
        where t.event = 'completed' and (
          w.fence is null or exists (
            select from handed h where h.item_no = t.item_no and h.fence > w.fence))
    """,
    "G4 items of one key run one after another, where order or overlap asks for it": """
        select * from (
          select w.id, w.run_no, w.started_at, i.key,
            lag(w.run_no) over by_key as run_before, lag(t.at) over by_key as ended_before
          from worked w
          join item i using (item_no)
          left join ended t using (item_no, run_no)
          where i.ordering = 'key' or i.overlap is not null
          window by_key as (partition by i.kind, i.key order by w.run_no)) w
        where run_before is not null and (ended_before is null or started_at < ended_before)
    """,
    "G4 between the attempts of an item none of its key runs, where failures hold": """
        select * from (
          select s.*, lag(s.ended_at) over by_key as before
          from (
            select i.id, i.kind, i.key, min(w.run_no) as first_run, min(w.started_at) as began_at,
              (select max(t.at) from ended t where t.item_no = i.item_no) as ended_at
            from worked w join item i using (item_no)
            where (i.ordering = 'key' or i.overlap is not null) and i.failure_holds
            group by i.item_no, i.id, i.kind, i.key) s
          window by_key as (partition by s.kind, s.key order by s.first_run)) s
        where began_at < before
    """,
    "G4 no key is held by an item that ended": """
        select h.serial, t.id, t.event from ledger.held_key h join ended t using (item_no)
        where t.terminal
    """,
    "G4 no item waits for a key that nobody holds": """
        select p.item_no from ledger.pending p
        where p.available_at = 'infinity'
          and not exists (select from ledger.held_key h where h.serial = p.serial)
    """,
    "G4 what was answered stale is recorded": """
        select r.* from refusal r where not exists (
          select from ledger.rejected_write x
          where x.verb = r.verb and (r.run_no is null or x.run_no = r.run_no)
            and (r.fence is null or x.fence is null or x.fence = r.fence))
    """,
    "G5 all but poison is completed, and worked, unless it was withdrawn or skipped": """
        select e.id, e.kind from emitted e
        where not e.poisonous and not (
          exists (select from ended t where t.id = e.id and t.event = 'completed')
          and exists (select from effect f where f.item = e.id))
          and not exists (select from ended t where t.id = e.id
            and t.event in ('cancelled', 'superseded', 'skipped'))
    """,
    "G6 what completed was worked under that fence": """
        select t.id, w.fence, w.position from ended t join worked w using (item_no, run_no)
        where t.event = 'completed' and not exists (
          select from effect e
          where e.item = t.id and e.fence = w.fence and e.position = w.position)
    """,
    "G6 an effect within the completing transaction happened exactly once": """
        select * from (
          select i.id,
            (select count(*) from public.effect_within e where e.item = i.id) as effects,
            (select count(*) from ended t where t.id = i.id and t.event = 'completed') as completed
          from item i where i.kind = any ($1::text[])) i
        where effects <> completed
    """,
    "G8 a terminal state is the last": """
        select t.id, t.event, l.event from ended t
        join ended l on l.item_no = t.item_no and l is distinct from t
        where t.terminal and (l.terminal or l.run_no > t.run_no or l.at > t.at)
    """,
    "G8 a run that is closed has ended in full, or was taken from its worker": """
        select w.id, w.run_no from worked w
        where w.closed_at is not null and not exists (
          select from ended t where t.item_no = w.item_no and t.run_no = w.run_no)
    """,
    "G13 each occurrence that its version owes is one item, and completed": """
        select o.cycle, count(t.item_no) from occurrence o
        left join live i on i.kind = o.kind and i.cycle = o.cycle
        left join ended t on t.item_no = i.item_no and t.event = 'completed'
        group by o.kind, o.cycle having count(i.item_no) <> 1 or count(t.item_no) <> 1
    """,
    "G13 what its version does not owe was handed out before, or ended by a version": """
        select i.id, i.due_at from live i
        where not exists (select from occurrence o where o.kind = i.kind and o.cycle = i.cycle)
          and not exists (select from handed h where h.item_no = i.item_no)
    """,
    "Kafka: what was worked came from there": """
        select e.* from effect e join handed h using (fence, position)
        where h.topic <> 'direct' and not exists (
          select from record r where r.fence = e.fence and r.position = e.position)
    """,
    "Kafka: nothing is published without its claim, nor other than claimed": """
        select r.* from record r left join handed h using (fence, position)
        where h.id is distinct from r.item or h.topic <> r.topic
          or (h.partition <> r.partition and not r.copied)
    """,
    "Kafka: nothing is published twice under one fence unless that is left ambiguous": """
        select r.fence, r.position, count(*) from record r join handed h using (fence, position)
        where not r.copied and h.published_at is not null
        group by r.fence, r.position having count(*) > 1
    """,
    "Kafka: what was acknowledged lies at base offset + position - 1": """
        select h.fence, h.position, h.base_offset from handed h
        where h.base_offset is not null and not exists (
          select from record r where r.fence = h.fence and r.position = h.position
            and r.partition = h.partition and r.place = h.base_offset + h.position - 1)
    """,
    "Kafka: what was said never to have left is not there": """
        select r.fence, r.position from record r join unsent u using (fence)
    """,
}
