"""The command `preview`: which definition, which event, and the words beside the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dueledger

Command = Callable[..., Any]

CHECKOUT = Path(dueledger.__file__).resolve().parents[1]
INSURER = str(CHECKOUT / "examples/insurer/definitions.yaml")

SCHEDULES = """
{definition: hourly, tenant: acme, kind: X, business_key: x, when: {cron: "@hourly", timezone: UTC}}
---
definition: nightly
tenant: acme
kind: X
business_key: x
when: {cron: "30 2 * * *", timezone: Europe/Berlin, gap: skip}
"""
EVENT = """{"data": {"policy_number": "P-1", "term": "1", "region": "n", "product": "p",
    "expires_on": "2027-03-31"}}"""


def test_one_of_several_is_chosen_by_name_and_its_clock_changes_are_shown(
    dueledger: Command, tmp_path: Path
) -> None:
    (tmp_path / "two.yaml").write_text(SCHEDULES, encoding="utf-8")
    window = ("preview", "two.yaml", "--from", "2027-03-27", "--count", "2")
    refused = dueledger(*window)
    assert refused.code == 2
    assert "--definition hourly, nightly" in refused.err
    ran = dueledger(*window, "--definition", "nightly")
    assert "At 02:30 every day, Europe/Berlin; a time that a clock" in ran.err
    assert "2027-03-29T00:30:00Z" in ran.out
    changes = ran.out.partition("clocks change")[2]
    assert "02:30 does not exist on this day: skipped" in changes


def test_a_day_without_an_offset_is_a_day_of_the_definitions_zone(
    dueledger: Command, tmp_path: Path
) -> None:
    document = "{definition: d, tenant: acme, kind: X, business_key: x, smear: PT5M, when: {cron: "
    document += '"30 * * * *", timezone: America/New_York}}'
    (tmp_path / "one.yaml").write_text(document, encoding="utf-8")
    day = ("preview", "one.yaml", "--from", "2027-03-14", "--to", "2027-03-15")
    shown = dueledger(*day, "--json").document["occurrences"]
    assert [shown[0]["local"], shown[-1]["local"]] == ["2027-03-14T00:30:00", "2027-03-14T23:30:00"]
    assert len(shown) == 23
    utc = dueledger("preview", "one.yaml", "--from", "2027-03-14T00:00Z", "--count", "1", "--json")
    assert utc.document["occurrences"][0]["local"] == "2027-03-13T19:30:00"
    printed = dueledger(*day).out
    assert " PT4M" in printed or " PT3M" in printed, "a smear is a duration"
    assert "1 h forward" in printed


def test_an_event_rule_is_previewed_for_an_example_event(
    dueledger: Command, tmp_path: Path
) -> None:
    (tmp_path / "event.json").write_text(EVENT, encoding="utf-8")
    ran = dueledger("preview", INSURER, "--event", "event.json")
    assert "2027-03-01T14:00:00Z" in ran.out
    assert "P-1" in ran.out
    assert "The event owes an item." in ran.err


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ('{"type": "PolicyCancelled", "data": {"policy_number": "P-1"}}', "withdraws open items"),
        ('{"type": "Other", "data": {}}', "does not match this rule"),
    ],
)
def test_an_event_that_owes_nothing_says_what_it_does(
    dueledger: Command, tmp_path: Path, event: str, says: str
) -> None:
    (tmp_path / "event.json").write_text(event, encoding="utf-8")
    ran = dueledger("preview", INSURER, "--event", "event.json", "--json")
    assert ran.document == {"occurrences": [], "skipped": []}
    assert says in ran.err


@pytest.mark.parametrize("event", ['{"type": "PolicyActivated"}', '{"data": {}}'])
def test_an_event_that_cannot_be_used_is_refused(
    dueledger: Command, tmp_path: Path, event: str
) -> None:
    (tmp_path / "event.json").write_text(event, encoding="utf-8")
    ran = dueledger("preview", INSURER, "--event", "event.json", "--json")
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"]
