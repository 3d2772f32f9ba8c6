"""A consumer that has nothing of ours but the headers: `foreign.py KIND`.

It works each record that comes, leaves evidence of it, and answers on the outcome topic. Its
offsets move once its answers are acknowledged; whatever breaks ends it, and the next one begins
where it left off.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.errors import KafkaError

UNAVAILABLE = 3
POLL_MILLISECONDS = 100


def answer_to(headers: Mapping[str, bytes | None]) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Say that the item is done, as a CloudEvent in binary mode."""
    item, fence, token, position = (
        (headers[name] or b"").decode()
        for name in ("ce_dueitem", "ce_duefence", "ce_duetoken", "ce_dueposition")
    )
    document = {
        "item": item,
        "fence": int(fence),
        "token": token,
        "position": int(position),
        "verdict": "completed",
    }
    return json.dumps(document).encode(), [
        ("ce_specversion", b"1.0"),
        ("ce_id", f"{item}:{fence}".encode()),
        ("ce_source", b"/foreign"),
        ("ce_type", b"dueledger.outcome"),
        ("content-type", b"application/json"),
    ]


async def work(
    records: list[ConsumerRecord], producer: AIOKafkaProducer, evidence: "asyncpg.Connection"
) -> None:
    """Work records and report; return once the reports are acknowledged."""
    all_headers = [dict(record.headers) for record in records]
    numbers = ("ce_duefence", "ce_dueposition", "ce_dueattempt")
    await evidence.executemany(
        "insert into effect (item, fence, position, attempt, worker)"
        " values ($1::text::uuid, $2, $3, $4, $5)",
        [
            (
                (headers["ce_dueitem"] or b"").decode(),
                *(int(headers[name] or b"") for name in numbers),
                os.getpid(),
            )
            for headers in all_headers
        ],
    )
    for headers in all_headers:
        value, answered = answer_to(headers)
        await producer.send(
            os.environ["DUELEDGER_OUTCOME_TOPIC"], value, headers["ce_subject"], headers=answered
        )
    await producer.flush()


async def main(kind: str) -> None:
    """Consume until a stop is requested."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    servers = os.environ["DUELEDGER_BOOTSTRAP_SERVERS"]
    evidence = await asyncpg.connect(os.environ["DUELEDGER_EVIDENCE_DSN"])
    async with (
        AIOKafkaConsumer(
            f"due.{kind}",
            bootstrap_servers=servers,
            group_id=f"foreign-{kind}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            metadata_max_age_ms=2000,  # so that the topic is soon seen once it is made
        ) as consumer,
        AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer,
    ):
        while not stop.is_set():
            for records in (await consumer.getmany(timeout_ms=POLL_MILLISECONDS)).values():
                await work(records, producer, evidence)
                await consumer.commit()
    await evidence.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except (
        KafkaError,
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncio.CancelledError,  # a consumer may stop as the fetch that it cancelled itself
    ):
        sys.exit(UNAVAILABLE)
