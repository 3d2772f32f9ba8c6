"""The pinned tz database decides everywhere, whatever database the machine has."""

import shutil
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from dueledger.definitions.named_calendars import check_reach
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.rules.calendar_change import calendar_ends, known_until
from dueledger.ledger.schedule import load_zone

BERLIN = "Europe/Berlin"
YEARS_END = datetime(2027, 12, 31, 23, tzinfo=UTC)  # midnight in Berlin


@pytest.fixture(autouse=True)
def other_machine(tmp_path: Path) -> Iterator[None]:
    """A machine whose own tz database gives Berlin the time of Kiritimati, 14 hours ahead."""
    there = tmp_path / BERLIN
    there.parent.mkdir()
    with as_file(files("tzdata").joinpath("zoneinfo", "Pacific", "Kiritimati")) as kiritimati:
        shutil.copyfile(kiritimati, there)

    def forget() -> None:
        zoneinfo.ZoneInfo.clear_cache()
        load_zone.cache_clear()

    zoneinfo.reset_tzpath([str(tmp_path)])
    forget()
    yield
    zoneinfo.reset_tzpath()
    forget()


def every_four_hours() -> Definition:
    return parse_definition(
        {
            "definition": "d",
            "tenant": "acme",
            "kind": "CloseDue",
            "business_key": "d",
            "when": {"cron": "0 */4 * * *", "timezone": BERLIN},
            "calendar": {"weekend": [], "last_day": "2027-12-31", "roll": "following"},
        }
    )


def test_zones_come_from_the_pinned_database_whatever_the_machine_has() -> None:
    noon = datetime(2027, 1, 1, 12, tzinfo=UTC)
    assert noon.astimezone(zoneinfo.ZoneInfo(BERLIN)).utcoffset() == timedelta(hours=14)
    assert noon.astimezone(load_zone(BERLIN)).utcoffset() == timedelta(hours=1)


def test_the_pinned_database_decides_how_far_a_calendar_is_known() -> None:
    definition = every_four_hours()
    assert YEARS_END in calendar_ends(definition)
    start = YEARS_END - timedelta(days=2)
    assert known_until(definition, start, YEARS_END + timedelta(days=2)) == YEARS_END


def test_the_pinned_database_decides_whether_a_calendar_has_ended() -> None:
    rule: dict[str, Any] = {
        "definition": "rule",
        "tenant": "acme",
        "kind": "PolicyRenewalDue",
        "event": "PolicyActivated",
        "business_key": "data.number",
        "effective_date": "data.expires_on",
        "cycle": "data.term",
        "when": {"relative": "P-30D", "at": "09:00", "timezone": BERLIN},
        "calendar": {"weekend": [], "last_day": "2027-12-31", "roll": "following"},
    }
    last = YEARS_END - timedelta(minutes=30)
    check_reach([parse_definition(rule)], last, last)
