"""Controlling flows from the terminal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.logins import with_login

Command = Callable[..., Any]

OWED = ("--tenant", "acme", "--kind", "ReminderDue", "--effective-date", "2027-03-01")
FLOW = ("acme", "ReminderDue")
NIGHTLY = """
definition: nightly-close
tenant: acme
kind: BookClosingDue
business_key: books
when: {cron: "0 2 * * *", timezone: Europe/Berlin}
"""


@pytest.fixture
def database(database: str) -> str:
    """Run the commands under an operator's login."""
    return with_login(database, "operator")


def test_a_flow_is_paused_explained_and_resumed(dueledger_on: Command) -> None:
    dueledger_on("emit", *OWED, "--key", "INV-1", "--due-at", "2026-01-01")
    paused = dueledger_on("pause", *FLOW, "--reason", "month end", "--json")
    assert [flow["kind"] for flow in paused.document["flows"]] == ["ReminderDue"]
    assert paused.document["pauses"] == [
        {
            "tenant": "acme",
            "kind": "ReminderDue",
            "lane": None,
            "reason": "month end",
            "paused_until": None,
        }
    ]
    why = dueledger_on("why", "INV-1", "--json").document
    assert (why["code"], "month end" in why["sentence"]) == ("PAUSED", True)
    assert "month end" in dueledger_on("flow", "pauses").out
    resumed = dueledger_on("resume", "acme", "--json")
    assert [flow["still_paused"] for flow in resumed.document["flows"]] == [False]
    assert [pause["kind"] for pause in resumed.document["pauses"]] == ["ReminderDue"]
    assert dueledger_on("flow", "pauses", "--json").lines == []


def test_a_flow_is_resumed_at_a_rate_which_is_its_limit_from_then_on(
    dueledger_on: Command, database: str
) -> None:
    for lane in ("eu", "us"):
        owed = (*OWED, "--key", "INV-1", "--due-at", "2026-01-01", "--lane", lane)
        dueledger_on("emit", *owed)
    dueledger_on("pause", *FLOW, "--reason", "month end")
    for wrong in ("0", "-1", "none", "fast"):
        refused = dueledger_on("resume", *FLOW, "--rate", wrong)
        assert (refused.code, "--rate" in refused.err) == (2, True)
    assert len(dueledger_on("flow", "pauses", "--json").lines) == 1
    resumed = dueledger_on("resume", *FLOW, "--rate", "2.5", "--json")
    assert [flow["still_paused"] for flow in resumed.document["flows"]] == [False, False]
    flows = dueledger_on("flow", "list", "--tenant", "acme", "--json").lines
    assert {flow["lane"]: flow["rate_per_second"] for flow in flows} == {"eu": 2.5, "us": 2.5}
    audited = dueledger_on("audit", "--json", DUELEDGER_DSN=with_login(database, "auditor")).lines
    assert audited[0]["operation"] == "resumeFlows"
    rates = [audited[0][when]["rate_per_second"] for when in ("before", "after")]
    assert rates == [None, 2.5]


def test_a_pause_of_a_missing_flow_is_reported_when_it_is_set_and_when_it_ends(
    dueledger_on: Command,
) -> None:
    pause = ("pause", "nobody", "K", "--lane", "", "--reason", "not yet")
    assert "A pause is in force for nobody × K × the default lane" in dueledger_on(*pause).err
    again = dueledger_on(*pause)
    assert "There was a pause already" in again.err
    until = dueledger_on(*pause, "--until", "2190-01-01T10:00:00+01:00")
    assert "default lane until 2190-01-01T09:00:00+00:00: flows" in until.err
    assert "2190-01-01" in dueledger_on("flow", "pauses").out
    assert dueledger_on(*pause, "--until", "2026-01-01").code == 2
    ended = dueledger_on("resume", "nobody")
    assert "nobody × K × the default lane ended: not yet" in ended.err
    assert "There was no pause" in dueledger_on("resume", "nobody").err


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_reason_says_something(dueledger: Command, reason: str) -> None:
    ran = dueledger("pause", "acme", "--reason", reason, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "USAGE")
    assert dueledger("trigger", "nightly", "--tenant", "acme", "--reason", reason).code == 2
    assert dueledger("pause", "acme", "--reason", "x", "--lane", "x" * 101).code == 2


def test_limits_are_set_before_anything_is_owed_and_ended_by_none(dueledger_on: Command) -> None:
    dueledger_on("flow", "set", *FLOW, "--rate", "2.5", "--concurrency", "4", "--weight", "3")
    shown = dueledger_on("flow", "show", *FLOW, "--json").document
    limits = (shown["rate_per_second"], shown["concurrency_max"], shown["weight"])
    assert limits == (2.5, 4, 3)
    dueledger_on("flow", "set", *FLOW, "--rate", "none", "--lag-target", "PT1M0.05S")
    shown = dueledger_on("flow", "show", *FLOW, "--json").document
    limits = (shown["rate_per_second"], shown["concurrency_max"], shown["lag_target_seconds"])
    assert limits == (None, 4, 60.05)
    dueledger_on("flow", "set", *FLOW, "--lag-target", "none")
    shown = dueledger_on("flow", "show", *FLOW, "--json").document
    assert shown["lag_target_seconds"] is None


@pytest.mark.parametrize(
    ("option", "number"),
    [
        ("--rate", "fast"),
        ("--rate", "5e-324"),
        ("--rate", "1_000"),
        ("--rate", "inf"),
        ("--weight", "1_000"),
        ("--weight", "none"),
        ("--concurrency", "1.5"),
        ("--retry-share", "nan"),
        ("--circuit", "2"),
        ("--circuit-calls", "99999999999"),
        ("--circuit-window", "1e15"),
        ("--circuit-rest", "1e300"),
        ("--lag-target", "0.05"),
        ("--lag-target", "PT"),
        ("--lag-target", "PT0S"),
        ("--lag-target", "PT169H"),
    ],
)
def test_a_limit_out_of_its_bounds_is_refused_before_anything_is_asked(
    dueledger: Command, option: str, number: str
) -> None:
    ran = dueledger("flow", "set", *FLOW, option, number)
    assert ran.code == 2
    assert option in ran.err
    assert f"'{number}' is refused" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", *FLOW),
        ("set", *FLOW, "--rate", "5", "--lane", "eu", "--every-lane"),
        ("set", *FLOW, "--rate", "5", "--lane", "x" * 101),
    ],
)
def test_what_cannot_be_meant_is_refused(dueledger: Command, arguments: tuple[str, ...]) -> None:
    assert dueledger("flow", *arguments, "--json").document["error"]["code"] == "USAGE"


def test_a_flow_with_a_circuit_shows_what_it_is_judged_by(dueledger_on: Command) -> None:
    dueledger_on("flow", "set", *FLOW, "--rate", "5")
    assert "rests" not in dueledger_on("flow", "list").out
    dueledger_on("flow", "set", *FLOW, "--circuit", "0.5", "--circuit-window", "90")
    assert "0.5 of 20 in 90 s, open for 30 s" in dueledger_on("flow", "list").out


def test_a_flow_that_is_not_there_is_named(dueledger_on: Command) -> None:
    ran = dueledger_on("flow", "show", "acme", "Nothing", "--json")
    assert ran.code == 2
    assert ran.document["error"]["code"] == "NOT_FOUND"


def test_an_item_is_started_before_its_time_in_a_persons_name(dueledger_on: Command) -> None:
    item = dueledger_on(
        "emit", *OWED, "--key", "INV-1", "--due-at", "2199-01-01", "--json"
    ).document["id"]
    answer = dueledger_on("trigger", item, "--reason", "the customer waits", "--json").document
    assert answer == {"id": item, "result": "done", "reason": None}
    timeline = dueledger_on("show", item, "--json").document["timeline"]
    assert [step["event"] for step in timeline] == ["emitted", "expedited"]
    assert timeline[1]["actor"].startswith("person:")


def test_an_item_is_snoozed_until_an_instant_or_for_a_time_in_a_persons_name(
    dueledger_on: Command,
) -> None:
    emit = ("emit", *OWED, "--due-at", "2020-01-01", "--json")
    first, second = (dueledger_on(*emit, "--key", key).document["id"] for key in ("INV-1", "INV-2"))
    because = ("--reason", "the register is down", "--json")
    until = ("--until", "2199-01-01T09:00+01:00")
    answer = dueledger_on("snooze", first, *until, *because).document
    assert answer == {"id": first, "result": "done", "reason": None}
    timeline = dueledger_on("show", first, "--json").document["timeline"]
    assert timeline[-1]["event"] == "snoozed"
    assert timeline[-1]["actor"].startswith("person:")
    assert timeline[-1]["detail"]["until"] == "2199-01-01T08:00:00+00:00"
    why = dueledger_on("why", first, "--json").document
    assert why["code"] == "PUT_OFF"
    assert "snoozed it until 2199-01-01 08:00:00 UTC" in why["sentence"]
    assert why["remedy"].startswith(f"`dueledger trigger {first}")
    again = dueledger_on("snooze", first, *until, *because)
    assert (again.code, again.document["result"]) == (1, "illegal")
    answer = dueledger_on("snooze", second, "--until", "PT48H", *because).document
    assert answer["result"] == "done"
    assert " 47 hours from now" in dueledger_on("why", second, "--json").document["sentence"]


@pytest.mark.parametrize(
    "until",
    [
        *("", "now", "infinity", "PT", "PT0S", "-PT1H", "P1D", "PT1e9H", "nan", "1e9"),
        *("2020-01-01", "9999-12-31T23:59:59Z", "2200-01-01", "2026-02-30", "0001-01-01"),
    ],
)
def test_a_time_until_which_nothing_can_be_snoozed_is_refused(
    dueledger_on: Command, until: str
) -> None:
    named = ("--business-key", "INV-1", "--tenant", "acme")
    for selected in (named, ("--tenant", "acme"), ("--tenant", "acme", "--execute")):
        ran = dueledger_on("snooze", *selected, f"--until={until}", "--reason", "x", "--json")
        assert ran.code == 2, selected
        assert ran.document["error"]["code"] in {"USAGE", "INVALID_INPUT"}


def test_a_schedule_is_triggered_once_a_cycle_beside_its_occurrences(
    dueledger_on: Command, tmp_path: Path
) -> None:
    document = tmp_path / "nightly.yaml"
    document.write_text(NIGHTLY)
    dueledger_on("define", str(document))
    trigger = ("trigger", "nightly-close", "--tenant", "acme", "--reason", "rerun", "--json")
    first, again = (dueledger_on(*trigger, "--cycle", "rerun-1").document for _ in range(2))
    assert first == {
        "id": again["id"],
        "created": True,
        "cycle": "manual-rerun-1",
        "state": "Scheduled",
        "remedy": None,
    }
    assert (again["created"], again["state"]) == (False, "Scheduled")
    ran = dueledger_on(*trigger[:-1], "--cycle", "rerun-1")
    assert (ran.code, f"dueledger trigger {first['id']} --reason" in ran.out) == (0, True)
    own = dueledger_on(*trigger).document
    assert own["id"] != first["id"]
    refused = dueledger_on(*trigger, "--cycle", "2027-03-01T02:00")
    assert (refused.code, refused.document["error"]["code"]) == (2, "INVALID_INPUT")
    item = dueledger_on("trigger", first["id"], "--reason", "now", "--cycle", "rerun-1")
    assert (item.code, "has its cycle already" in item.err) == (2, True)


def test_what_is_no_schedule_cannot_be_triggered(dueledger_on: Command) -> None:
    assert dueledger_on("trigger", "nothing", "--reason", "x").code == 2  # whose?
    ran = dueledger_on("trigger", "nothing", "--tenant", "acme", "--reason", "x", "--json")
    assert ran.document["error"]["code"] == "NOT_FOUND"


def test_nothing_fails_in_a_row_at_first(dueledger_on: Command) -> None:
    assert dueledger_on("failing", "--json").lines == []
