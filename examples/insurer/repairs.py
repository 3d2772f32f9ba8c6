"""Books missing premiums: `python -m dueledger.examples.insurer.repairs`, until SIGTERM.

Dueledger's reconciler finds a renewal that completed without its premium and asks for it on the
topic `due-repairs`. A command may come more than once; the booking happens once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any, Final
from uuid import UUID

import asyncpg
from aiokafka import AIOKafkaConsumer, ConsumerRecord

TOPIC: Final = "due-repairs"
GROUP: Final = "insurer-repairs"

_BOOK: Final = """
insert into insurer.premium_booked (policy_number, term, due_item, amount, booked_by)
select policy_number, term, due_item, premium, 'repair'
from insurer.renewal_issued where due_item = $1
on conflict (policy_number, term) do nothing
returning amount
"""


async def book_missing(connection: asyncpg.Connection[Any], record: ConsumerRecord) -> str:
    """Book the premium that one command requests; return the result as text."""
    command = json.loads(record.value or b"{}")
    if command.get("type") != "EFFECT_MISSING" or command.get("kind") != "PolicyRenewalDue":
        return f"not ours: {command.get('type')} of {command.get('kind')}"
    amount = await connection.fetchval(_BOOK, UUID(command["item"]))
    booked = "booked already" if amount is None else f"booked {amount}"
    return f"{command['business_key']}: {booked}"


async def run() -> None:
    """Consume commands; a record's offset is committed when its booking is."""
    loop = asyncio.get_running_loop()
    me = asyncio.current_task()
    assert me is not None  # noqa: S101 - it runs in one
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, me.cancel)
    connection: asyncpg.Connection[Any] = await asyncpg.connect(os.environ["DUELEDGER_DSN"])
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=os.environ["DUELEDGER_BOOTSTRAP_SERVERS"],
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1_000,  # the topic may be made after this process began
    )
    await consumer.start()
    try:
        async for record in consumer:
            print(await book_missing(connection, record), flush=True)
            await consumer.commit()
    finally:
        await consumer.stop()
        await connection.close()


if __name__ == "__main__":
    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        sys.exit(0)
