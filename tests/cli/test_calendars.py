"""`dueledger calendar`, and definitions that name one."""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendars import put_calendar
from tests.logins import with_login

Command = Callable[..., Any]
DESIGN = Path(__file__).parents[2] / "docs/design.md"

NIGHTLY = """
definition: nightly
tenant: acme
kind: NightlyDue
business_key: nightly
when: {cron: "0 9 * * *", timezone: UTC}
calendar: {name: us, roll: skip}
"""
FILES = ("--weekend", "sat,sun", "--valid-to", "2099-12-31", "--valid-from", "2026-01-01")
KEY = ("--tenant", "acme")


@pytest.fixture
def database(database: str) -> str:
    """Run the commands under an operator's login."""
    return with_login(database, "operator")


@pytest.fixture
def csv(tmp_path: Path) -> str:
    (tmp_path / "us.csv").write_text("date,name\n2027-12-24,Christmas Eve\n", encoding="utf-8")
    (tmp_path / "nightly.yaml").write_text(NIGHTLY, encoding="utf-8")
    return "us.csv"


def test_a_calendar_is_shown_before_it_applies_and_is_imported_once(
    dueledger_on: Command, csv: str, tmp_path: Path
) -> None:
    tried = dueledger_on("calendar", "import", "us", csv, *KEY, *FILES, "--dry-run", "--json")
    assert (tried.code, tried.document["changed"], tried.document["applied"]) == (0, True, False)
    assert dueledger_on("calendar", "list", "--json").lines == []
    first, again = (
        dueledger_on("calendar", "import", "us", csv, *KEY, *FILES, "--json").document
        for _ in range(2)
    )
    assert [(one["version"], one["applied"]) for one in (first, again)] == [(1, True), (1, False)]
    assert dueledger_on("define", "nightly.yaml").code == 0

    (tmp_path / csv).write_text("date\n2027-12-24\n2027-12-27\n", encoding="utf-8")
    changed = dueledger_on("calendar", "import", "us", csv, *KEY, *FILES, "--json").document
    assert changed["difference"]["added"] == [{"day": "2027-12-27", "name": ""}]
    assert changed["difference"]["changed_days"] == ["2027-12-27"]
    assert [one["definition"] for one in changed["definitions"]] == ["nightly"]
    (listed,) = dueledger_on("calendar", "list", "--json").lines
    assert (listed["name"], listed["version"], listed["definitions"]) == ("us", 2, 1)
    shown = dueledger_on("calendar", "show", "us", *KEY, "--version", "1", "--json").document
    assert shown["document"]["names"] == {"2027-12-24": "Christmas Eve"}
    (tmp_path / "us.json").write_text(
        dueledger_on("calendar", "show", "us", *KEY, "--json").out, encoding="utf-8"
    )
    span = ("--from", "2027-12-24", "--to", "2027-12-29", "--json")
    for options in ((), ("--calendar", "us=us.json")):
        previewed = dueledger_on("preview", "nightly.yaml", *span, *options).document
        assert [one["due_at"] for one in previewed["occurrences"]] == ["2027-12-28T09:00:00Z"]


def test_people_read_what_changes_and_what_it_would_be(
    dueledger_on: Command, csv: str, tmp_path: Path
) -> None:
    dueledger_on("calendar", "import", "us", csv, *KEY, *FILES)
    (tmp_path / csv).write_text("date\n2027-12-27\n", encoding="utf-8")
    ran = dueledger_on("calendar", "import", "us", csv, *KEY, *FILES, "--dry-run")
    assert ran.out.split()[4:] == [
        *("-", "2027-12-24", "Friday", "Christmas", "Eve"),
        *("+", "2027-12-27", "Monday"),
    ]
    assert "acme/us would be version 2: 2026-01-01 to 2099-12-31, 1 holidays" in ran.err


def test_a_preview_and_a_plan_with_a_calendar_in_a_file_need_no_database(
    dueledger: Command,
    csv: str,  # noqa: ARG001 - it writes the files
) -> None:
    span = ("nightly.yaml", "--from", "2027-12-24", "--to", "2027-12-29", "--json")
    given = ("--calendar", "us=us.csv", *FILES)
    previewed = dueledger("preview", *span, *given)
    assert [one["due_at"][:10] for one in previewed.document["occurrences"]] == [
        "2027-12-27",
        "2027-12-28",
    ]
    assert dueledger("plan", *span, *given).document["due"] == 2
    refused = dueledger("preview", *span)
    assert refused.code == 2
    assert "--calendar NAME=FILE" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("us", "us.csv", "--valid-to", "2027-12-31"), "--weekend"),
        (("us", "us.csv", "--weekend", "sat,sun"), "--valid-to"),
        (("us", "us.csv", "--weekend", "saturday", "--valid-to", "2027-12-31"), "--weekend"),
        (("us", "nightly.yaml", *FILES), "is not a file of a known type"),
        (("u/s", "us.csv", *FILES), "NAME"),
        (("us",), "FILE"),
        (("us", "us.csv", "--exchange", "XNYS"), "FILE"),
        (("us", "--exchange", "XNYS"), "--from"),
        (("us", "--exchange", "XNYS", "--from", "2028", "--to", "2027"), "--to"),
        (("us", "--holidays", "ZZ", "--from", "2027", "--to", "2027"), "not a known country"),
    ],
)
def test_an_import_that_lacks_something_says_what(
    dueledger: Command,
    csv: str,  # noqa: ARG001 - it writes the files
    arguments: tuple[str, ...],
    said: str,
) -> None:
    ran = dueledger("calendar", "import", *arguments, *KEY)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_definition_says_until_when_its_calendar_reaches(
    dueledger_on: Command,
    csv: str,
) -> None:
    refused = dueledger_on("define", "nightly.yaml")
    assert refused.code == 2
    assert "tenant acme does not have this calendar" in refused.err
    dueledger_on("calendar", "import", "us", csv, *KEY, *FILES)
    defined = dueledger_on("define", "nightly.yaml", "--json")
    assert defined.document["version"] == 1
    assert "calendar us ends on 2099-12-31" in defined.err
    assert dueledger_on("calendar", "show", "uk", *KEY).code == 2


def test_the_example_of_the_design_is_defined_as_it_stands(
    dueledger_on: Command, csv: str, tmp_path: Path
) -> None:
    documents = re.findall(
        r"^```yaml\n(.*?)^```", DESIGN.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    (example,) = (text for text in documents if text.startswith("definition: policy-renewal "))
    assert "\ncatch_up: {policy: all, window: P7D, max_items: 1000}\n" in example
    (tmp_path / "design.yaml").write_text(example, encoding="utf-8")
    calendar = ("calendar", "import", "us-settlement", csv, *KEY, *FILES)
    assert dueledger_on(*calendar).code == 0
    defined = dueledger_on("define", "design.yaml", "--json")
    assert (defined.code, defined.document["version"]) == (0, 1)


def test_g13_define_compares_by_the_calendars_of_the_ledger_as_far_as_they_reach(
    dueledger_on: Command, csv: str, tmp_path: Path
) -> None:
    """The Wednesday is a holiday; nothing after Friday the 19th is known."""
    file = tmp_path / "nightly.yaml"
    refused = dueledger_on("define", "nightly.yaml", "--dry-run")
    assert refused.code == 2
    assert "(nightly).calendar.name" in refused.err
    (tmp_path / csv).write_text("date\n2027-03-10\n", encoding="utf-8")
    files = ("--weekend", "sat,sun", "--valid-to", "2027-03-19", "--valid-from", "2026-01-01")
    assert dueledger_on("calendar", "import", "us", csv, *KEY, *files).code == 0
    define = ("define", "nightly.yaml", "--effective-from", "2027-03-08T00:00:00Z")
    assert dueledger_on(*define).code == 0
    file.write_text(NIGHTLY.replace('"0 9 ', '"0 10 '), encoding="utf-8")
    shown = dueledger_on(*define, "--dry-run")
    assert "0 kept, 0 moved, 9 added, 9 removed" in shown.err
    assert "In the 12 days from then on" in shown.err
    assert "calendar us ends on 2027-03-19" in shown.err
    diff = dueledger_on(*define, "--json").document["diff"]
    assert [one["cycle"] for one in diff["next"] if one["change"] == "added"][:4] == [
        *("2027-03-08T10:00", "2027-03-09T10:00", "2027-03-11T10:00", "2027-03-12T10:00"),
    ]
    file.write_text(NIGHTLY.replace("{name: us, roll: skip}", "{name: eu, roll: skip}"))
    unknown = dueledger_on(*define, "--dry-run", "--json")
    assert unknown.code == 2
    (problem,) = unknown.document["error"]["details"]["problems"]
    assert (problem["field"], problem["accepted"]) == ("(nightly).calendar.name", "us")


async def test_what_is_wrong_with_a_stored_calendar_is_shown_with_its_version(
    dueledger_on: Command, connection: Connection, actor_no: int
) -> None:
    await put_calendar(
        connection,
        {"weekend": ["sat"], "first_day": "2026-01-01"},
        tenant="acme",
        name="us",
        valid_to=date(2099, 12, 31),
        source=None,
        actor_no=actor_no,
    )
    shown = dueledger_on("calendar", "show", "us", *KEY)
    assert shown.code == 2
    assert "calendar acme/us, version 1, is not a valid calendar" in shown.err
    assert "last_day: Field required" in shown.err
