"""What the ledger says of each month of effective dates, as a digest: the mark of the cache."""

from collections.abc import Mapping
from datetime import date
from hashlib import sha256

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.windows import DateRange


async def read_marks(connection: Connection) -> dict[DateRange, str]:
    """Return a mark for each range of dates with a table partition, one snapshot for each.

    Two equal marks of a range mean that each column of each row is as it was: of items, of the
    journal, and of where the open items are. A change that is committed after its mark was read
    shows in a later one.
    """
    open_days = await reconciled_rows.digest_open_days(connection)
    marks: dict[DateRange, str] = {}
    for from_date, to_date in await reconciled_rows.list_item_partitions(connection):
        days = await reconciled_rows.digest_days(connection, from_date, to_date)
        window = DateRange.of(from_date, to_date)
        marks[window] = _mark(days, {day: open_days[day] for day in open_days if window.has(day)})
    return marks


def _mark(days: Mapping[date, str], open_days: Mapping[date, str]) -> str:
    text = "\n".join(
        f"{day} {digest}"
        for digests in (days, open_days)
        for day, digest in sorted(digests.items())
    )
    return sha256(text.encode()).hexdigest()
