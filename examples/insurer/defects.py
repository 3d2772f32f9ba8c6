"""Damages the ledger and the insurer's bookings on purpose, and puts back what was there.

    python -m dueledger.examples.insurer.defects make
    python -m dueledger.examples.insurer.defects mend

The first prints a JSON document: each type of finding that a reconciliation has to make, and of
what. Rows are changed as by a superuser who repairs by hand, past every guard of the ledger; the
rows before are kept in `insurer.kept`. A record that is sent twice stays in Kafka.
Reads DUELEDGER_DSN and DUELEDGER_BOOTSTRAP_SERVERS.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

TOPIC: Final = "due.PolicyRenewalDue"
ITEMS_OF_EACH: Final = 2

_SCHEMA: Final = Path(__file__).with_name("defects.sql")
_KEY: Final = "select business_key from ledger.due_item where item_no = $1"
_BOOKING: Final = "select 'premiums booked: ' || id from ledger.due_item where item_no = $1"
_TWIN: Final = """
with twin as (
  insert into ledger.due_item
    (effective_date, flow_no, id, business_key, cycle, due_at, payload, definition_no, event_no,
     emitted_at, actor_no)
  select effective_date, flow_no,
    ledger.item_id('insurer', 'PolicyRenewalDue', {key}, {cycle}, effective_date), {key}, {cycle},
    due_at, payload, definition_no, event_no, emitted_at, actor_no
  from ledger.due_item where item_no = $1
  returning item_no, effective_date, flow_no, due_at
), noted as (
  insert into insurer.kept (relation, item_no)
  select relation, item_no from twin, unnest(array['due_item', 'pending']) relation
)
insert into ledger.pending (item_no, effective_date, flow_no, available_at)
select item_no, effective_date, flow_no, due_at from twin
"""


@dataclass(frozen=True, slots=True)
class Defect:
    """One kind of defect, made of two renewals.

    They were completed, or still wait. `changes` are statements with the number of an item as their
    parameter; `named` gives the text by which the finding names it.
    """

    finding: str
    of: Literal["completed", "waiting"]
    changes: tuple[str, ...]
    named: str = _KEY


DEFECTS: Final = (
    # Parked while it waits: upkeep would make an item pending again that has no state at all.
    Defect(
        "UNBALANCED",
        "waiting",
        (
            """
            insert into ledger.review
              (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
            select item_no, effective_date, flow_no, ledger.now(), 0, 0, 'by mistake', actor_no
            from ledger.due_item where item_no = $1
            """,
        ),
    ),
    Defect(
        "WRONG_TERMS",
        "completed",
        ('update ledger.due_item set payload = \'{"premium":"1.00"}\' where item_no = $1',),
    ),
    Defect(
        "WRONG_DATE",
        "completed",
        ("update ledger.due_item set due_at = due_at - interval '1 hour' where item_no = $1",),
    ),
    Defect(
        "PREMATURE",
        "completed",
        (
            """
            update ledger.transition t set at = i.due_at - interval '1 hour'
            from ledger.due_item i where i.item_no = t.item_no and t.item_no = $1
            """,
        ),
    ),
    Defect(
        "UNEXCUSED",
        "waiting",
        (
            "delete from ledger.pending where item_no = $1",
            """
            insert into ledger.transition
              (effective_date, event, attempt, item_no, actor_no, at, detail)
            select effective_date, 13 /* skipped */, 0, item_no, actor_no, ledger.now(),
              '{"reason":"holiday of the clerk"}'
            from ledger.due_item where item_no = $1
            """,
        ),
    ),
    Defect(
        "TAMPERED",
        "waiting",
        ("update ledger.due_item set id = gen_random_uuid() where item_no = $1",),
    ),
    Defect(
        "OUTCOME_CONFLICT",
        "completed",
        (
            """
            update ledger.transition
            set actor_no = (select min(actor_no) from ledger.actor where kind = 'service')
            where item_no = $1
            """,
        ),
    ),
    Defect("DUPLICATE", "waiting", (_TWIN.format(key="business_key", cycle="cycle || ' again'"),)),
    Defect(
        "UNEXPECTED",
        "waiting",
        (_TWIN.format(key="'NO-POLICY-' || item_no", cycle="cycle"),),
        "select 'NO-POLICY-' || $1::bigint",
    ),
    Defect(
        "EFFECT_REPEATED",
        "completed",
        (
            """
            insert into insurer.premium_booked
            select policy_number, term || ' again', due_item, amount, booked_by
            from insurer.premium_booked
            where due_item = (select id from ledger.due_item where item_no = $1)
            """,
        ),
        _BOOKING,
    ),
    Defect(
        "EFFECT_UNRECORDED",
        "waiting",
        (
            """
            insert into insurer.premium_booked
            select business_key, cycle,
              ledger.item_id('insurer', 'None', business_key, cycle, effective_date), 1, 'repair'
            from ledger.due_item where item_no = $1
            """,
        ),
        """
        select 'premiums booked: '
          || ledger.item_id('insurer', 'None', business_key, cycle, effective_date)
        from ledger.due_item where item_no = $1
        """,
    ),
)


async def make_defects(connection: asyncpg.Connection[Any]) -> dict[str, list[str]]:
    """Damage two renewals in each way; return the findings to be made: type → names."""
    found: dict[str, list[str]] = {}
    async with connection.transaction():
        await connection.execute(_SCHEMA.read_text(encoding="utf-8"))
        await connection.execute("set local session_replication_role = replica")
        for defect in DEFECTS:
            taken = await connection.fetch(
                "select item_no from insurer.take($1, $2)", defect.of == "completed", ITEMS_OF_EACH
            )
            for row in taken:
                names = found.setdefault(defect.finding, [])
                names.append(await connection.fetchval(defect.named, row["item_no"]))
                for change in defect.changes:
                    await connection.execute(change, row["item_no"])
    return found


async def mend_defects(connection: asyncpg.Connection[Any]) -> dict[str, int]:
    """Put back every row that was changed, as from a backup."""
    async with connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        return {"rows": await connection.fetchval("select insurer.put_back()")}


async def send_again(bootstrap_servers: str) -> list[str]:
    """Send one record of the work topic once more; return the name of its finding."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers) as consumer:
        await consumer.topics()
        place = TopicPartition(TOPIC, min(consumer.partitions_for_topic(TOPIC) or {0}))
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        record = await consumer.getone()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        sent = await producer.send_and_wait(
            TOPIC,
            record.value,
            key=record.key,
            partition=record.partition,
            headers=list(record.headers),
        )
    return [f"record:{TOPIC}/{sent.partition}/{sent.offset}"]


async def run(command: str) -> object:
    """Run one command and return its result."""
    connection: asyncpg.Connection[Any] = await asyncpg.connect(os.environ["DUELEDGER_DSN"])
    try:
        if command == "mend":
            return await mend_defects(connection)
        found = await make_defects(connection)
        found["ORPHAN_RECORD"] = await send_again(os.environ["DUELEDGER_BOOTSTRAP_SERVERS"])
        return found
    finally:
        await connection.close()


if __name__ == "__main__":
    if sys.argv[1:] not in (["make"], ["mend"]):
        sys.exit("usage: python -m dueledger.examples.insurer.defects make|mend")
    print(json.dumps(asyncio.run(run(sys.argv[1]))))
