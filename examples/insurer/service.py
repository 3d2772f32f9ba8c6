"""The insurer's policy service: it has policies in its own tables, and sends events to Kafka.

    python -m dueledger.examples.insurer.service prepare --policies 20000 --day 2027-03-01
    python -m dueledger.examples.insurer.service send book
    python -m dueledger.examples.insurer.service send changes
    python -m dueledger.examples.insurer.service faults

Reads DUELEDGER_DSN and DUELEDGER_BOOTSTRAP_SERVERS; each command prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from aiokafka import AIOKafkaProducer

from dueledger.examples.insurer.portfolio import Event, Portfolio, make_portfolio

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC: Final = "domain-events"
SOURCE: Final = "/insurer/policies"

_SCHEMA: Final = Path(__file__).with_name("schema.sql")
_UNACKNOWLEDGED_MAX: Final = 2_000


async def prepare(connection: asyncpg.Connection[Any], portfolio: Portfolio) -> dict[str, int]:
    """Make the tables and write the policies with their events, in one transaction."""
    async with connection.transaction():
        await connection.execute("drop schema if exists insurer cascade")
        await connection.execute(_SCHEMA.read_text(encoding="utf-8"))
        await connection.copy_records_to_table(
            "policy",
            schema_name="insurer",
            records=[
                (
                    policy.number,
                    policy.region,
                    policy.product,
                    policy.term,
                    Decimal(policy.premium_cents) / 100,
                    policy.expires_on,
                    policy.status,
                )
                for policy in portfolio.policies
            ],
        )
        await connection.copy_records_to_table(
            "outbox", schema_name="insurer", records=_outbox_rows(portfolio)
        )
        await connection.copy_records_to_table(
            "fault", schema_name="insurer", records=sorted(portfolio.faults.items())
        )
    await connection.execute("analyze insurer.policy")
    return {"policies": len(portfolio.policies), "faults": len(portfolio.faults)}


def _outbox_rows(portfolio: Portfolio) -> list[tuple[object, ...]]:
    waves = [("book", event) for event in portfolio.book]
    waves += [("changes", event) for event in portfolio.changes]
    return [
        (
            event_no,
            wave,
            event.id,
            event.type,
            event.policy_number,
            event.occurred_at,
            event.body,
            event.copies,
        )
        for event_no, (wave, event) in enumerate(waves, start=1)
    ]


async def send(
    connection: asyncpg.Connection[Any], bootstrap_servers: str, wave: str
) -> dict[str, int]:
    """Send one wave in its order. Events that are sent twice are repeated at the end."""
    events = [
        Event(**dict(row))
        for row in await connection.fetch(
            """
            select event_id as id, event_type as type, policy_number, occurred_at, body, copies
            from insurer.outbox where wave = $1 order by event_no
            """,
            wave,
        )
    ]
    first = [event for event in events if event.copies >= 1]
    again = [event for event in events if event.copies == 2]  # noqa: PLR2004 - sent twice
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=5
    ) as producer:
        await _send_events(producer, first)
        await _send_events(producer, again)
    return {"sent": len(first) + len(again), "events": len(first), "twice": len(again)}


async def _send_events(producer: AIOKafkaProducer, events: Iterable[Event]) -> None:
    """Send with a bound on unacknowledged events; a policy's events keep their order."""
    unacknowledged: list[asyncio.Future[Any]] = []
    for event in events:
        unacknowledged.append(
            await producer.send(
                TOPIC,
                key=event.policy_number.encode(),
                value=event.body.encode(),
                headers=_headers(event),
            )
        )
        if len(unacknowledged) >= _UNACKNOWLEDGED_MAX:
            await asyncio.gather(*unacknowledged)
            unacknowledged.clear()
    await asyncio.gather(*unacknowledged)


def _headers(event: Event) -> list[tuple[str, bytes]]:
    """CloudEvents 1.0, binary mode."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": SOURCE,
        "ce_type": event.type,
        "ce_subject": event.policy_number,
        "ce_time": event.occurred_at.isoformat().replace("+00:00", "Z"),
        "content-type": "application/json",
    }
    return [(name, value.encode()) for name, value in attributes.items()]


async def list_faults(connection: asyncpg.Connection[Any]) -> dict[str, list[str]]:
    """Return the injected faults: fault → policy numbers."""
    faults: dict[str, list[str]] = {"event_lost": [], "premium_not_booked": []}
    rows = await connection.fetch(
        "select fault, policy_number from insurer.fault order by policy_number"
    )
    for row in rows:
        faults[row["fault"]].append(row["policy_number"])
    return faults


async def run(arguments: argparse.Namespace) -> object:
    """Run one command and return its result."""
    connection: asyncpg.Connection[Any] = await asyncpg.connect(os.environ["DUELEDGER_DSN"])
    try:
        match arguments.command:
            case "prepare":
                portfolio = make_portfolio(
                    arguments.policies, seed=arguments.seed, day=arguments.day
                )
                return await prepare(connection, portfolio)
            case "send":
                servers = os.environ["DUELEDGER_BOOTSTRAP_SERVERS"]
                return await send(connection, servers, arguments.wave)
            case _:
                return await list_faults(connection)
    finally:
        await connection.close()


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="insurer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="make the tables and the policies")
    preparing.add_argument("--policies", type=int, default=20_000)
    preparing.add_argument("--seed", type=int, default=7)
    preparing.add_argument(
        "--day",
        type=date.fromisoformat,
        required=True,
        help="the day on which most renewals are due",
    )
    sending = commands.add_parser("send", help="send a wave of events to Kafka")
    sending.add_argument("wave", choices=("book", "changes"))
    commands.add_parser("faults", help="list the injected faults")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(read_arguments(sys.argv[1:])))))
