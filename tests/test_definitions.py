import json
import os
import re
from pathlib import Path

import pytest

from dueledger.definitions.defaults import defaults_of, without_defaults
from dueledger.ledger.definitions.parsing import (
    Definition,
    definition_schema,
    load_definitions,
    parse_definition,
)
from dueledger.ledger.errors import InvalidDefinition, Problem, UnknownCalendar
from dueledger.ledger.schedule import Calendar, Cron, Fold, Gap, Observance, Relative, Roll, Weekday
from dueledger.ledger.schedule.when import KINDS
from tests.cheap import check_cheap
from tests.definition_documents import LETTERS, NIGHTLY, REFUSED, RENEWAL, document
from tests.document_blocks import blocks_of

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = DOCS / "definition.schema.json"
SCHEDULES = DOCS / "schedules.md"


def problems(raw: object) -> list[Problem]:
    with pytest.raises(InvalidDefinition) as refused:
        load_definitions(json.dumps(raw), source="test.json")
    assert refused.value.code == "INVALID_DEFINITION"
    assert refused.value.exit_code == 2
    return list(refused.value.problems)


def test_yaml_and_json_mean_the_same() -> None:
    from_yaml = load_definitions(RENEWAL + "---" + NIGHTLY, source="both.yaml")
    as_json = json.dumps([definition.normalised() for definition in from_yaml])
    assert load_definitions(as_json, source="both.json") == from_yaml
    listed = "".join(
        "- " + part.strip().replace("\n", "\n  ") + "\n" for part in (RENEWAL, NIGHTLY)
    )
    assert load_definitions(listed, source="list.yaml") == from_yaml


def test_a_normalised_document_says_every_default_and_reads_back_as_equal() -> None:
    (definition,) = load_definitions(NIGHTLY, source="test")
    assert definition.normalised() == {
        "definition": "nightly-close",
        "ended": False,
        "tenant": "acme",
        "kind": "CloseDue",
        "business_key": "book-1",
        "when": {
            "cron": "*/5 * * * *",
            "timezone": "Europe/Berlin",
            "sparse": False,
            "gap": "skip",
            "fold": "both",
        },
        "cancel_on": [],
        "supersede_on": [],
        "reinstate": "always",
        "labels": {"team": "finance"},
        "catch_up": {"policy": "all"},
        "overlap": "allow",
        "order": {"by": "none", "failure": "hold"},
        "operations": {},
        "deadlines": {
            "dispatch": "PT30S",
            "queue": "PT2M",
            "queue_late": "retry",
            "run_late": "retry",
        },
        "sla": {},
        "retry": {"attempt_max": 5, "base": "PT10S", "cap": "PT10M", "no_replay": False},
        "dispatch": {
            "kafka": {
                "topic": "due.CloseDue",
                "partition_key": "business_key",
                "settled_by": "worker",
            }
        },
        "payload": {},
    }
    again = parse_definition(definition.normalised())
    assert again == definition
    assert again.digest == definition.digest


@pytest.mark.parametrize("text", [RENEWAL, NIGHTLY, LETTERS])
def test_without_its_defaults_a_document_means_the_same_and_nothing_more_can_go(text: str) -> None:
    (definition,) = load_definitions(text, source="test")
    short = without_defaults(parse_definition(definition.normalised()))
    again = parse_definition(short)
    assert again.digest == definition.digest
    given = defaults_of(definition)
    assert given.keys() >= {"overlap", "ended"}
    assert defaults_of(again).keys() >= given.keys()
    assert defaults_of(parse_definition(definition.normalised())) == {}
    for name in short:
        rest = {each: value for each, value in short.items() if each != name}
        try:
            shorter = parse_definition(rest).digest
        except InvalidDefinition:
            continue
        assert shorter != definition.digest, name


def test_defaults_stay_what_they_were_when_the_document_was_accepted() -> None:
    (renewal,) = load_definitions(RENEWAL, source="test")
    assert isinstance(renewal.when, Relative)
    assert (renewal.when.gap, renewal.when.fold) == (Gap.SHIFT_FORWARD, Fold.FIRST)
    assert renewal.payload == "data"
    assert renewal.event_types == {"PolicyActivated", "PolicyCancelled", "PolicyAmended"}
    assert not renewal.is_schedule


def test_a_declaration_of_a_kind_has_its_name_and_owes_nothing() -> None:
    (letters,) = load_definitions(LETTERS, source="test")
    assert (letters.definition, letters.is_declaration, letters.is_schedule) == (
        "LetterDue",
        True,
        False,
    )
    (named,) = load_definitions(LETTERS + "definition: letters\n", source="test")
    assert (named.definition, named.is_declaration) == ("letters", True)
    stored = letters.normalised()
    assert not {"when", "business_key", "event"} & stored.keys()
    assert parse_definition(stored) == letters
    assert parse_definition(stored | {"ended": True}).is_declaration


def test_the_digest_changes_exactly_with_the_meaning() -> None:
    (one,) = load_definitions(NIGHTLY, source="test")
    (same,) = load_definitions(NIGHTLY + "overlap: allow\n", source="test")
    (other,) = load_definitions(NIGHTLY.replace("*/5", "*/6"), source="test")
    assert one.digest == same.digest
    assert one.digest != other.digest


def test_plain_yaml_texts_stay_texts() -> None:
    text = NIGHTLY.replace("book-1", "on").replace('"*/5 * * * *"', "0 17 * * *")
    (definition,) = load_definitions(
        text + "payload: {on: yes, at: 17:00, day: 2027-01-01, n: 7, x: 1.5, no: null, q: '7'}\n",
        source="test",
    )
    assert definition.business_key == "on"
    assert isinstance(definition.when, Cron)
    assert definition.payload == {
        "on": "yes",
        "at": "17:00",
        "day": "2027-01-01",
        "n": 7,
        "x": 1.5,
        "no": None,
        "q": "7",
    }


@pytest.mark.parametrize(("text", "changes", "field", "reason", "accepted"), REFUSED)
def test_a_bad_field_is_refused_by_name_with_the_reason_and_the_accepted_spelling(
    text: str, changes: dict[str, object], field: str, reason: str, accepted: str
) -> None:
    raw = document(text, **changes)
    check_cheap(lambda: problems(raw), seconds=0.1)  # as documented
    (problem,) = problems(raw)
    assert problem.field == field
    assert reason in problem.reason
    assert accepted in (problem.accepted or "")


def test_every_problem_of_every_document_is_named_at_once() -> None:
    found = problems(
        [
            document(NIGHTLY, tenant="ac me", overlap="maybe"),
            document(NIGHTLY),
            document(NIGHTLY),
            "no definition",
        ]
    )
    assert [problem.field for problem in found] == [
        "[0].(nightly-close).tenant",
        "[0].(nightly-close).overlap",
        "[2].definition",
        "[3].document",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no definition"),
        ("--- \n---\n", "no definition"),
        ("a: b: c", "line 1"),
        ("{", "not YAML"),
        (NIGHTLY + "kind: Other\n", "given twice"),
        ('{"kind": "a", "kind": "b"}', "given twice"),
        ('{"kind": NaN}', "not a JSON number"),
        ('{"kind": ' + "9" * 5_000 + "}", "thousands of digits"),
        ("a: &x 1\nb: *x\n", "alias"),
        ("a: !!python/object:os.system {}\n", "custom tag"),
        ("a: !secret x\n", "custom tag"),
        ("<<: {a: 1}\n", "merge"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper"),
        ("[" * 100_000, "nested deeper|not YAML"),
        ("- " * 100_000, "nested deeper"),
        ("a: \x00\n", "not YAML"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidDefinition, match=reason):
        load_definitions(text, source="test.yaml")


EXPANDED = [
    ({"cron": "30 2 * * *", "preset": "debian"}, "gap_end", "first"),
    ({"cron": "*/20 2 * * *", "preset": "debian"}, "skip", "both"),
    ({"cron": "@hourly", "preset": "debian"}, "skip", "both"),
    ({"cron": "17 0-23 * * *", "preset": "debian"}, "gap_end", "first"),  # no `*`, says cron(8)
    ({"cron": "*/5 * * * *", "preset": "rfc5545"}, "shift_forward", "first"),
    ({"rrule": "FREQ=DAILY", "start": "2027-01-01T02:30"}, "shift_forward", "first"),
    ({"business": "last", "at": "02:30", "preset": "rfc5545"}, "shift_forward", "first"),
    ({"at": "2027-03-14T02:30"}, "shift_forward", "first"),
]


@pytest.mark.parametrize(("when", "gap", "fold"), EXPANDED)
def test_what_a_preset_or_a_default_means_is_written_out(
    when: dict[str, object], gap: str, fold: str
) -> None:
    raw = document(NIGHTLY, when=when | {"timezone": "America/New_York"})
    (definition,) = load_definitions(json.dumps(raw), source="test.json")
    stored = definition.normalised()
    written = stored["when"]
    assert isinstance(written, dict)
    assert (written["gap"], written["fold"]) == (gap, fold)
    assert "preset" not in written
    assert parse_definition(stored) == definition


def test_business_days_are_stored_with_the_weekend_that_they_mean() -> None:
    raw = document(NIGHTLY, when={"business": "last", "at": "17:00", "timezone": "UTC"})
    stored = parse_definition(raw).normalised()
    assert stored["calendar"] == {"weekend": ["sat", "sun"], "holidays": [], "workdays": []}
    assert parse_definition(stored).digest == parse_definition(raw).digest


def test_a_named_calendar_is_observed_where_its_days_are_given() -> None:
    raw = document(NIGHTLY, calendar={"name": "us", "roll": "following"})
    us = Calendar(name="us", weekend=(Weekday.SUN,))
    (definition,) = load_definitions(json.dumps(raw), source="test", calendars={"us": us})
    assert definition.observance() == Observance(us, Roll.FOLLOWING)
    assert parse_definition(definition.normalised(), calendars={"us": us}) == definition
    unbound = parse_definition(definition.normalised(), calendars=None)
    assert unbound != definition, "with other days it means another thing"
    assert unbound.with_calendar({"us": us}) == definition
    with pytest.raises(UnknownCalendar, match=r"calendar\.name"):
        unbound.observance()


def test_an_unknown_calendar_is_reported_with_the_known_names_the_nearest_first() -> None:
    raw = document(NIGHTLY, calendar={"name": "us-setlement", "roll": "following"})
    known = {name: Calendar(name=name, weekend=(Weekday.SUN,)) for name in ("a", "us-settlement")}
    with pytest.raises(InvalidDefinition, match=r"Write: us-settlement or a, or inline"):
        parse_definition(raw, calendars=known)


def test_every_when_that_the_docs_show_is_accepted() -> None:
    rows = re.findall(r"^\| `(\{.*\})` \|", SCHEDULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(KINDS)
    for row in rows:
        text = RENEWAL if "relative" in row else NIGHTLY
        shown = re.sub(r"^when: .*$", lambda _, row=row: f"when: {row}", text, flags=re.MULTILINE)
        assert load_definitions(shown, source="docs/schedules.md")


def test_the_definition_and_the_calendar_that_the_docs_show_are_accepted() -> None:
    definition, declaration, calendar = (each.text for each in blocks_of("docs/schedules.md"))
    assert load_definitions(definition + "---\n" + declaration, source="docs/schedules.md")
    nightly = re.sub(r"when: .*\n", "", NIGHTLY)
    assert load_definitions(nightly + calendar, source="docs/schedules.md")


def test_a_definition_is_frozen() -> None:
    (definition,) = load_definitions(NIGHTLY, source="test")
    with pytest.raises(ValueError, match="frozen"):
        setattr(definition, "kind", "Other")  # noqa: B010 - the type checker refuses it, too


def test_the_published_schema_is_the_models() -> None:
    remedy = "write it again: make schema"
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        SCHEMA.write_text(definition_schema(), encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == definition_schema(), remedy


def test_the_published_schema_names_every_field() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(Definition.model_fields)
    assert schema["additionalProperties"] is False
