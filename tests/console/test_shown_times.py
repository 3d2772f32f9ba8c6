"""Each time of the first page and of a flow's is exact, in other zones and in UTC, too."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest

from dueledger.console.activity import LedgerActivity
from dueledger.console.clock import iso
from dueledger.console.overview import OverviewRefresh
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.ledger.store.clock import read_now
from tests.console.conftest import Browser
from tests.console.test_late_flows import text_of
from tests.console.test_overview import activity, api, key
from tests.ledger.conftest import Ledger
from tests.service.conftest import Api

__all__ = ["activity", "api", "key"]  # the ledger has what one test made alone

_TIME = re.compile(r'<time datetime="([^"]+)"[^>]*? title="([^"]+)">([^<]+)</time>')
_DUE = "2026-01-01T09:00:00Z"


@pytest.fixture
async def seeded(api: Api, browser: Browser, key: NewApiKey, activity: LedgerActivity) -> Browser:
    """A browser in Kolkata that shows UTC, on a ledger with a flow that has long been late."""
    coming = iso(await read_now(api.owner) + timedelta(hours=1))
    await api.emit(
        key,
        api.item("T-1", kind="Times", due_at=_DUE),
        api.item("T-2", kind="Times", due_at=coming),
    )
    await api.owner.execute(
        "update ledger.pending p set available_at = i.due_at from ledger.due_item i"
        " where i.item_no = p.item_no"
    )
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)
    browser.session.cookie_jar.update_cookies({"dueledger_zone": "Asia/Kolkata"}, browser.origin)
    return browser


async def test_the_first_page_has_the_exact_time_of_what_it_says_as_a_span(
    api: Api, seeded: Browser
) -> None:
    await api.owner.execute(
        "insert into ledger.alert (name, labels, value, since, sent_to)"
        """ values ('ItemsLate', '["acme", "Times", "due.Times", "kafka"]', 9,"""
        " '2026-01-01 09:00+00', '[]')"
    )
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " values ('acme', 'Times', '2026-01-01 09:00+00', ledger.now())"
    )
    page = (await seeded.open("/console/")).text
    assert page.count("<time ") == len(_TIME.findall(page))
    span = r"[\d,]+ d( \d+ h)? ago"
    exact = f"2026-01-01 09:00:00 UTC · 2026-01-01 14:30:00 +05:30 · {_DUE}"
    for part, end, words in (
        ("<h1", "</h1>", f"due {span} 2026-01-01 09:00"),
        ('class="alerts"', "</ul>", f"began {span} 2026-01-01 09:00"),
        ("Complete before</span>", "</li>", f"{span} 2026-01-01 09:00"),
        ('class="since"', "</a>", "late, due 2026-01-01 09:00"),
    ):
        shown = page.partition(part)[2].partition(end)[0]
        [(utc, title, _)] = _TIME.findall(shown)
        assert utc == _DUE, part
        assert re.fullmatch(f"({span} · )?{re.escape(exact)}", title), part
        assert re.search(words, text_of(shown)), part
    [(utc, title)] = re.findall(r'<time datetime="([^"]+)" data-until title="([^"]+)"', page)
    assert re.search(rf"UTC · .* \+05:30 · {utc}$", title)


async def test_a_minute_of_the_last_hour_has_its_day_and_other_zones(
    api: Api,
    seeded: Browser,
    activity: LedgerActivity,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    now = await read_now(api.owner)
    await ledger.place(State.COMPLETED, tenant="acme", due_at=now - timedelta(seconds=40))
    await ledger.stand_at(now + timedelta(minutes=2))
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)
    page = (await seeded.open("/console/")).text.partition('id="minutes"')[2]
    utc, title, shown = _TIME.findall(page.partition("</table>")[0])[0]
    assert title.startswith(f"{utc[:10]} {shown}:00 UTC · ")
    assert title.endswith(f" +05:30 · {utc}")


async def test_the_lag_of_a_flow_says_when_its_oldest_item_was_due(seeded: Browser) -> None:
    page = (await seeded.open("/console/flows/acme/Times")).text
    shown = page.partition(">Lag</span>")[2].partition("</li>")[0]
    [(utc, title, span)] = _TIME.findall(shown)
    assert (utc, "ago" in span) == (_DUE, False)
    assert title.endswith(f" · 2026-01-01 14:30:00 +05:30 · {_DUE}")
    assert unescape(shown).count("since the oldest item was due, 2026-01-01 09:00<") == 1
