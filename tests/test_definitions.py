import json
from pathlib import Path
from typing import Any

import pytest

from ledger.definitions import Definition, definition_schema, load_definitions, parse_definition
from ledger.errors import InvalidDefinition, Problem
from ledger.schedule import Cron, Fold, Gap, Relative

SCHEMA = Path(__file__).parents[1] / "docs" / "definition.schema.json"

RENEWAL = """
definition: policy-renewal
tenant: acme
kind: PolicyRenewalDue
event: PolicyActivated
business_key: data.policy_number
cycle: data.term
effective_date: data.expires_on
when: {relative: P-30D, to: effective_date, at: 17:00, timezone: America/New_York}
cancel_on: [{event: PolicyCancelled, business_key: data.policy_number}]
supersede_on: [{event: PolicyAmended, business_key: data.policy_number}]
labels: {region: data.region}
lane: region
sla: {start_within: PT5M, complete_within: 1h}
retry: {attempt_max: 5, base: PT10S, cap: PT10M}
dispatch: {kafka: {topic: due.PolicyRenewalDue, partition_key: business_key}}
"""
NIGHTLY = """
definition: nightly-close
tenant: acme
kind: CloseDue
business_key: book-1
when: {cron: "*/5 * * * *", timezone: Europe/Berlin}
labels: {team: finance}
"""


def document(text: str, **changes: object) -> dict[str, Any]:
    """Return a good document with some fields changed; None takes a field out."""
    raw = load_definitions(text, source="test")[0].normalised() | changes
    return {field: value for field, value in raw.items() if value is not None}


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
        "labels": {"team": "finance"},
        "catch_up": {"policy": "all"},
        "overlap": "allow",
        "sla": {},
        "retry": {"attempt_max": 5, "base": "PT10S", "cap": "PT10M"},
        "dispatch": {"kafka": {"topic": "due.CloseDue", "partition_key": "business_key"}},
        "payload": {},
    }
    again = parse_definition(definition.normalised())
    assert again == definition
    assert again.digest == definition.digest


def test_defaults_stay_what_they_were_when_the_document_was_accepted() -> None:
    (renewal,) = load_definitions(RENEWAL, source="test")
    assert isinstance(renewal.when, Relative)
    assert (renewal.when.gap, renewal.when.fold) == (Gap.SHIFT_FORWARD, Fold.FIRST)
    assert renewal.payload == "data"
    assert renewal.event_types == {"PolicyActivated", "PolicyCancelled", "PolicyAmended"}
    assert not renewal.is_schedule


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


REFUSED: list[tuple[str, dict[str, object], str, str, str]] = [
    (NIGHTLY, {"tenant": "ac me"}, "tenant", "characters", "A-Z"),
    (NIGHTLY, {"kind": "x" * 101}, "kind", "100", ""),
    (NIGHTLY, {"kind": None, "dispatch": None}, "kind", "is missing", "kind: …"),
    (NIGHTLY, {"definition": "x" * 201}, "definition", "200", ""),
    (NIGHTLY, {"definition": "a\x00b"}, "definition", "NUL", ""),
    (NIGHTLY, {"business_key": "a\x1fb"}, "business_key", "U+001F", ""),
    (NIGHTLY, {"business_key": "k" * 513}, "business_key", "512", "shorter"),
    (NIGHTLY, {"business_key": 7}, "business_key", "must be a text", "quotes"),
    (NIGHTLY, {"cycle": "data.term"}, "cycle", "event rule", "nominal"),
    (NIGHTLY, {"cancel_on": [{"event": "X", "business_key": "data.k"}]}, "cancel_on", "event", ""),
    (NIGHTLY, {"payload": {"x": "y" * 262_144}}, "payload", "256 KiB", ""),
    (NIGHTLY, {"labels": {"team": 7}}, "labels.team", "must be a text", "quotes"),
    (NIGHTLY, {"lane": "region"}, "lane", "no label", "team"),
    (NIGHTLY, {"catchup": {}}, "catchup", "no such field", "catch_up"),
    (NIGHTLY, {"on": "X"}, "on", "no such field", "event"),
    (NIGHTLY, {"calendar": {"name": "us"}}, "calendar", "not yet supported: calendar", ""),
    (NIGHTLY, {"smear": "PT10M"}, "smear", "not yet supported: smear", ""),
    (NIGHTLY, {"overlap": "skip"}, "overlap", "not yet supported: overlap: skip", "allow"),
    (NIGHTLY, {"overlap": "maybe"}, "overlap", "not one of the words", "allow"),
    (NIGHTLY, {"catch_up": {"policy": "latest"}}, "catch_up.policy", "not yet supported", "all"),
    (NIGHTLY, {"catch_up": {"window": "P7D"}}, "catch_up.window", "not yet supported", ""),
    (NIGHTLY, {"retry": {"deadline": "P1D"}}, "retry.deadline", "not yet supported", ""),
    (NIGHTLY, {"retry": {"attempt_max": 0}}, "retry.attempt_max", "greater than or equal to 1", ""),
    (NIGHTLY, {"retry": {"base": "PT1H"}}, "retry.cap", "shorter than the base", "at least"),
    (NIGHTLY, {"sla": {"complete_within": "soon"}}, "sla.complete_within", "period", "PT24H"),
    (
        NIGHTLY,
        {"sla": {"start_within": "PT2H", "complete_within": "PT1H"}},
        "sla.start_within",
        "later than the completion",
        "no longer",
    ),
    (NIGHTLY, {"dispatch": {"http": {"url": "x"}}}, "dispatch.http", "not yet supported", ""),
    (NIGHTLY, {"dispatch": {"kafka": {"topic": "a b"}}}, "dispatch.kafka.topic", "characters", ""),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": "t", "partition_key": "data.x"}}},
        "dispatch.kafka.partition_key",
        "no event",
        "business_key",
    ),
    (NIGHTLY, {"when": {"rrule": "FREQ=DAILY"}}, "when", "not yet supported: when.rrule", "`cron"),
    (NIGHTLY, {"when": {}}, "when", "which kind", "`cron"),
    (NIGHTLY, {"when": "daily"}, "when", "mapping", "`cron"),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "every": "PT1H", "timezone": "UTC"}},
        "when",
        "at once",
        "one of them",
    ),
    (NIGHTLY, {"when": {"cron": "@daily"}}, "when.timezone", "is missing", "timezone"),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "europe/berlin"}},
        "when.timezone",
        "unknown time zone",
        "Europe/Berlin",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "H * * * *", "timezone": "UTC"}},
        "when.cron",
        "hash",
        "fixed minute",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "0 0 13 * 5", "timezone": "UTC"}},
        "when.day_rule",
        "both restricted",
        "any",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "preset": "debian"}},
        "when.preset",
        "not yet supported",
        "",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "gaps": "skip"}},
        "when.gaps",
        "no such field",
        "gap",
    ),
    (
        NIGHTLY,
        {"when": {"relative": "P-30D", "at": "09:00", "timezone": "UTC"}},
        "when",
        "hangs on an event",
        "cron or every",
    ),
    (RENEWAL, {"when": {"cron": "@daily", "timezone": "UTC"}}, "when", "recurs", "relative"),
    (RENEWAL, {"cycle": None}, "cycle", "must name it", "data.cycle"),
    (RENEWAL, {"effective_date": None}, "effective_date", "must name it", "data.effective_date"),
    (RENEWAL, {"business_key": "data.["}, "business_key", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"cycle": "(" * 900}, "cycle", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"cycle": "data.["}, "cycle", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"labels": {"region": "["}}, "labels.region", "not a JMESPath", ""),
    (RENEWAL, {"payload": {"a": 1}}, "payload.a", "not a JMESPath", "backticks"),
    (RENEWAL, {"payload": [1]}, "payload", "neither", "data"),
    (
        RENEWAL,
        {"cancel_on": [{"event": "X"}]},
        "cancel_on.0.business_key",
        "is missing",
        "business_key",
    ),
]


@pytest.mark.parametrize(("text", "changes", "field", "reason", "accepted"), REFUSED)
def test_a_bad_field_is_refused_by_name_with_the_reason_and_the_accepted_spelling(
    text: str, changes: dict[str, object], field: str, reason: str, accepted: str
) -> None:
    (problem,) = problems(document(text, **changes))
    assert problem.field == field
    assert reason in problem.reason
    assert accepted in (problem.accepted or "")


def test_every_problem_of_every_document_is_named_at_once() -> None:
    found = problems(
        [
            document(NIGHTLY, tenant="ac me", overlap="skip"),
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
        ("a: &x 1\nb: *x\n", "alias"),
        ("a: !!python/object:os.system {}\n", "tag of its own"),
        ("a: !secret x\n", "tag of its own"),
        ("<<: {a: 1}\n", "merge"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper"),
        ("[" * 100_000, "nested deeper|not YAML"),
        ("a: \x00\n", "not YAML"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidDefinition, match=reason):
        load_definitions(text, source="test.yaml")


def test_a_definition_is_frozen() -> None:
    (definition,) = load_definitions(NIGHTLY, source="test")
    with pytest.raises(ValueError, match="frozen"):
        setattr(definition, "kind", "Other")  # noqa: B010 - the type checker refuses it, too


def test_the_published_schema_is_the_models() -> None:
    remedy = "write it again: python -m ledger.definitions > docs/definition.schema.json"
    assert SCHEMA.read_text(encoding="utf-8") == definition_schema(), remedy


def test_the_published_schema_names_every_field() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(Definition.model_fields)
    assert schema["additionalProperties"] is False
