"""A domain team's handlers as the type checker must accept them, and the mistakes it must refuse.

Nothing runs this: `make check-types` reads it. An ignore that no error needs is an error itself,
so a refused mistake that becomes acceptable is noticed.
"""

from collections.abc import Sequence

from dueledger import (
    Completed,
    Connection,
    DueItem,
    Handlers,
    NotDue,
    Park,
    Retry,
    Snooze,
    Verdict,
)

handlers = Handlers()


@handlers.on("PolicyRenewalDue", concurrency=16, timeout_seconds=5.0)
async def renew(item: DueItem) -> Verdict:
    match item.business_key[:1]:
        case "C":
            return NotDue("cancelled by the customer")
        case "P":
            return Park("needs an underwriter")
        case "R":
            return Retry(after_seconds=30.0, reason="the printer is out of paper")
        case "S":
            return Snooze(seconds=3600.0)
        case _:
            return Completed({"document": str(item.id)})


@handlers.on("CertificateDue")
def issue(item: DueItem) -> Completed:
    return Completed(f'{{"certificate": "{item.cycle}"}}')


@handlers.on_batch("StatementDue", batch_max=1_000)
async def send(items: list[DueItem]) -> Sequence[Verdict]:
    return [Completed() for _ in items]


@handlers.on_transaction("PremiumDue")
async def book(item: DueItem, connection: Connection) -> Verdict:
    await connection.execute("insert into booked (policy) values ($1)", item.business_key)
    return Completed()


# A verdict is no bare string.
@handlers.on("A")  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
async def answers_in_prose(item: DueItem) -> str:
    return item.business_key


# A batch returns a verdict for each item.
@handlers.on_batch("B")  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
async def answers_once(items: list[DueItem]) -> Verdict:
    return Completed({"items": len(items)})


# It must be async.
@handlers.on_transaction("C")  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def blocks_the_connection(item: DueItem, connection: Connection) -> Verdict:
    return Completed({"item": item.cycle, "connection": repr(connection)})


def completes_without_a_reason() -> Verdict:
    # NotDue needs a reason.
    return NotDue()  # pyright: ignore[reportCallIssue]
