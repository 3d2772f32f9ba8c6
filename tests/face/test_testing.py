import threading
from collections.abc import Sequence
from datetime import date, datetime

import pytest

from dueledger import Completed, Connection, DueItem, Handlers, Park, Retry, Verdict
from dueledger.ledger.identity import item_id
from dueledger.testing import due_item, run


class PrinterOnFire(Exception):
    """An error that a handler of a domain team may raise."""


def test_an_item_has_the_id_that_the_ledger_would_give_it() -> None:
    item = due_item("RenewalDue", tenant="acme", business_key="P-1", cycle="2027")
    assert item.id == item_id("acme", "RenewalDue", "P-1", "2027", item.effective_date)
    assert item.due_at.isoformat() == "2027-03-31T00:00:00+00:00"
    assert item.json() == {}


@pytest.mark.parametrize("payload", [{"a": [1]}, '{"a": [1]}', b'{"a": [1]}'])
def test_a_payload_is_json_or_becomes_it(payload: dict[str, list[int]] | str | bytes) -> None:
    assert due_item("RenewalDue", payload=payload).json() == {"a": [1]}


def test_an_item_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="attempt must be 1 or more"):
        due_item("RenewalDue", attempt=0)
    with pytest.raises(ValueError, match="due_at must have an offset"):
        due_item("RenewalDue", due_at=datetime.fromisoformat("2027-03-31T09:00"))


async def test_each_form_of_handler_gives_its_verdict(connection: Connection) -> None:
    handlers = Handlers()
    threads: list[int] = []

    @handlers.on("Single")
    async def single(item: DueItem) -> Verdict:
        return Retry(reason=f"attempt {item.attempt}")

    @handlers.on("Threaded")
    def threaded(item: DueItem) -> Verdict:
        threads.append(threading.get_ident())
        return Completed(item.cycle)

    @handlers.on_batch("Batch")
    async def batch(items: list[DueItem]) -> Sequence[Verdict]:
        return [Park(item.business_key) for item in items]

    @handlers.on_transaction("Transaction")
    async def transaction(item: DueItem, connection: Connection) -> Verdict:
        found = await connection.fetchval("select $1::date", item.effective_date)
        return Completed({"date": str(found)})

    assert await run(handlers, due_item("Single", attempt=3)) == Retry(reason="attempt 3")
    assert await run(handlers, due_item("Threaded", cycle="{}")) == Completed("{}")
    assert threads != [threading.get_ident()]
    assert await run(handlers, due_item("Batch")) == Park("KEY-1")
    item = due_item("Transaction", effective_date=date(2028, 2, 29))
    assert await run(handlers, item, connection=connection) == Completed({"date": "2028-02-29"})
    with pytest.raises(ValueError, match="is transactional: pass run"):
        await run(handlers, item)


async def test_what_a_handler_raises_is_raised_as_it_is() -> None:
    handlers = Handlers()

    @handlers.on("Broken")
    async def broken(_: DueItem) -> Verdict:
        raise PrinterOnFire

    with pytest.raises(PrinterOnFire):
        await run(handlers, due_item("Broken"))
    with pytest.raises(LookupError, match="'Unknown'"):
        await run(handlers, due_item("Unknown"))


async def test_what_is_no_verdict_is_refused() -> None:
    handlers = Handlers()

    @handlers.on_batch("Short")
    def short(_: list[DueItem]) -> Sequence[Verdict]:
        return []

    with pytest.raises(TypeError, match="one verdict for each item, not 0"):
        await run(handlers, due_item("Short"))
