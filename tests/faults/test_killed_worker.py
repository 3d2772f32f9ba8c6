"""By the defaults, a worker is killed with a thousand items, one of which kills."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dueledger.ledger.states import TransitionEvent

from . import measures
from .named_handlers import HOLD_VARIABLE, POISON
from .programs import eventually
from .recovery import Way
from .site import Site
from .supervision import Slot, supervised
from .timetable import Timetable

pytestmark = pytest.mark.faults
WORKERS = 3
ITEMS = 1000
OTHER_KINDS = 2
OTHERS_PER_SECOND = 300
SETTLED_SECONDS = (
    10  # until the two started last have their partitions, and have worked what waited
)
CALM_SECONDS = 15
GONE_SECONDS = 15  # until the group has given the partitions of a dead member to the others
INNOCENTS_SECONDS = 90
PARKED_SECONDS = 400  # five leases and more
RATE_SHARE = 0.8
LAG_FACTOR = 2.0
LAG_SECONDS_MIN = 0.05  # below it, twice the lag is noise
RUNNING = """
select count(*) from ledger.open_item
join ledger.due_item using (effective_date, item_no)
join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
where k.name = $1 and state = 3
"""
INNOCENTS = """
select count(t.at) as completed, max(t.attempt) as attempt,
  extract(epoch from max(t.at) - $3)::float as seconds
from ledger.due_item i join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
  and t.event = 5
where k.name = $1 and i.business_key not like $2
"""
# The lease of a killed worker ends without an error: nobody is blamed.
BLAMES = """
select t.event, t.attempt, k.attempt_max
from ledger.due_item i join ledger.transition t using (item_no, effective_date)
join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
where i.business_key like $1 and t.detail ->> 'error' = 'HandlerProcessDied'
order by t.at
"""


@pytest.mark.parametrize("way", ["kafka", "direct"])
async def test_g5_a_worker_killed_with_a_thousand_items_delays_no_other_and_blames_no_innocent(
    site: Site, way: Way, tmp_path: Path
) -> None:
    site.use_defaults()
    hold = tmp_path / "hold"
    hold.touch()
    policy: dict[str, Any] = {"dispatch": "direct"} if way == "direct" else {}
    # The default backoff would only make the test longer.
    doomed = await site.add_kind("held", backoff_base_seconds=1, backoff_cap_seconds=1, **policy)
    others = [await site.add_kind("quick", **policy) for _ in range(OTHER_KINDS)]
    options = ["--direct"] if way == "direct" else []
    start_worker = partial(site.start_named_worker, *options, **{HOLD_VARIABLE: str(hold)})
    victim, *workers = [Slot(start_worker) for _ in range(WORKERS)]
    await site.emit([*site.drafts(doomed, ITEMS - 1), *site.drafts(doomed, 1, prefix=POISON)])
    async with supervised([victim, Slot(site.start_allocator)]):

        async def all_running() -> bool:
            return await site.fetchval(RUNNING, doomed) == ITEMS

        await eventually(all_running)
        seconds = SETTLED_SECONDS + CALM_SECONDS + INNOCENTS_SECONDS + GONE_SECONDS
        load = await Timetable.plan(site, others, OTHERS_PER_SECOND, seconds, ahead=seconds)
        async with supervised(workers):
            async with load.emitted():
                calm_from = await measures.after(site, load.starts_at, SETTLED_SECONDS)
                killed_at = await measures.after(site, calm_from, CALM_SECONDS)
                victim.is_closed = True
                await victim.kill(0)
                hold.unlink()
                await measures.after(site, killed_at, INNOCENTS_SECONDS)
            gone_at = killed_at + timedelta(seconds=GONE_SECONDS)
            measured_until = killed_at + timedelta(seconds=INNOCENTS_SECONDS)
            before = await measures.ended_per_second(site, calm_from, killed_at, others)
            meanwhile = await measures.ended_per_second(site, killed_at, measured_until, others)
            calm = await measures.lags(site, calm_from, killed_at, others)
            unread = await measures.places_of_worker(site, doomed, killed_at)
            everywhere = await measures.lags(site, killed_at, measured_until, others)
            lags = await measures.lags(site, killed_at, measured_until, others, without=unread)
            afterwards = await measures.lags(site, gone_at, measured_until, others)
            completed, attempt, last_seconds = await _innocents(site, doomed, killed_at)
            print(  # noqa: T201  # the figures
                f"{way}: others {before:.0f}/s, then {meanwhile:.0f}/s; lags {calm}, then "
                f"{everywhere}, {lags} without {len(unread)} partitions of the killed worker, "
                f"{afterwards} from {GONE_SECONDS} s on; "
                f"{completed} innocents completed after {last_seconds} s, "
                f"at most at attempt {attempt}"
            )

            async def has_parked() -> bool:
                return bool(await site.parked()) and await site.count_open() == 0

            await eventually(has_parked, seconds=PARKED_SECONDS)
    assert [each for slot in (victim, *workers) for each in slot.surprises] == []
    assert (completed, attempt) == (ITEMS - 1, 1)
    assert last_seconds <= INNOCENTS_SECONDS
    assert meanwhile >= RATE_SHARE * before
    lag_max = LAG_FACTOR * max(calm.p99_seconds, LAG_SECONDS_MIN)
    assert lags.p99_seconds <= lag_max
    assert afterwards.p99_seconds <= lag_max
    async with site.connected() as connection:
        blames = await connection.fetch(BLAMES, f"{POISON}%")
    cap = blames[0]["attempt_max"]
    assert [(row["event"], row["attempt"]) for row in blames] == [
        *((TransitionEvent.FAILED, attempt) for attempt in range(1, cap)),
        (TransitionEvent.PARKED, cap),
    ]


async def _innocents(site: Site, kind: str, killed_at: datetime) -> tuple[int, int, float]:
    """Return how many have completed, at which attempt at most, and after how long."""
    async with site.connected() as connection:
        row = await connection.fetchrow(INNOCENTS, kind, f"{POISON}%", killed_at)
    assert row is not None
    return row["completed"], row["attempt"], row["seconds"]
