"""How many rows of an outbox one relay carries in a second, both databases on one server."""

from time import perf_counter
from typing import Final

from pydantic import SecretStr

from bench.draining import PREFIX
from bench.ledgers import MeasurementFailed
from bench.rig import APPLICATION, Rig
from bench.workload import make_batches
from dueledger.ledger.outbox import RelaySettings, open_relay
from dueledger.ledger.store import connect
from dueledger.ledger.store.outbox import outbox_schema

_COLUMNS: Final = ("tenant", "kind", "business_key", "effective_date", "due_at", "payload")
_WRITE: Final = """
insert into due_outbox.item (tenant, kind, business_key, effective_date, due_at, payload)
select u.tenant, u.kind, u.business_key, u.effective_date, u.due_at, u.payload::json
from unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::timestamptz[], $6::text[]) u (
  tenant, kind, business_key, effective_date, due_at, payload)
"""


async def measure_relay(rig: Rig, items: int) -> int:
    """Write `items` rows, and return how many a second a relay with default settings carries."""
    async with rig.ledger() as ledger, rig.database() as outbox_dsn:
        service = await connect(outbox_dsn, application_name=APPLICATION)
        try:
            await service.execute(outbox_schema())
            for drafts in make_batches(ledger.kind, items, prefix=PREFIX):
                columns = [[getattr(each, name) for each in drafts] for name in _COLUMNS]
                await service.execute(_WRITE, *columns)
            await service.execute("analyze due_outbox.item")
        finally:
            await service.close()
        rig.say(f"carrying {items:,} rows of an outbox")
        settings = RelaySettings(dsn=SecretStr(ledger.dsn), outbox_dsn=SecretStr(outbox_dsn))
        async with open_relay(settings) as relay:
            began, emitted = perf_counter(), 0
            while counts := await relay.tick():
                emitted += counts["emitted"]
            seconds = perf_counter() - began
    if emitted != items:
        raise MeasurementFailed(f"{emitted:,} of {items:,} rows became items")
    return round(items / seconds)
