"""Payloads as people see them: without the fields that their kind redacts, whatever they have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.rules.redaction import REDACTED, WHOLE, dropped_fields, redact, redact_row

SECRET = "123-45-6789"  # noqa: S105 - what no answer has
DEEP = 100_000


@pytest.mark.parametrize(
    ("payload", "field", "shown"),
    [
        ('{"a": {"b": "S"}}', "/a/b", '{"a":{"b":"[redacted]"}}'),
        ('{"a": {"b": "S"}}', "/a", '{"a":"[redacted]"}'),
        ('{"a": [1, {"b": "S"}]}', "/a/1/b", '{"a":[1,{"b":"[redacted]"}]}'),
        ('[{"b": "S"}, {"c": 1}, 2]', "/*/b", '[{"b":"[redacted]"},{"c":1},2]'),
        ('{"x": {"b": null}, "y": 1}', "/*/b", '{"x":{"b":"[redacted]"},"y":1}'),
        ('{"a/b": {"c~d": "S"}}', "/a~1b/c~0d", '{"a/b":{"c~d":"[redacted]"}}'),
        ('{"~1": "S"}', "/~01", '{"~1":"[redacted]"}'),
        ('{"": "S"}', "/", '{"":"[redacted]"}'),
        ('{"*": "S"}', "/*", '{"*":"[redacted]"}'),
        ('"S"', "", '"[redacted]"'),
    ],
)  # fmt: skip
def test_what_a_json_pointer_names_is_replaced_and_named(
    payload: str, field: str, shown: str
) -> None:
    assert redact(payload, [field]) == (shown, [field])


@pytest.mark.parametrize(
    "field", ["/b", "/a/0", "/a/b/c", "/l/2", "/l/01", "/l/-", "/l/+1", "/l/\u0660"]
)
def test_what_a_payload_has_not_is_not_redacted(field: str) -> None:
    payload = '{"a":{"b":1},"l":[1,2]}'
    assert redact(payload, [field]) == (payload, [])


@pytest.mark.parametrize("payload", ["null", "1e999", '"text"', "[]", "-0"])
def test_a_payload_that_is_no_object_stays(payload: str) -> None:
    assert redact(payload, ["/a", "/*/b"]) == (payload, [])


def test_numbers_stay_to_the_letter() -> None:
    payload = '{"a":1.2300,"b":12345678901234567890123456789,"c":1E+400,"d":-0}'
    assert redact(payload, ["/secret"]) == (payload, [])


def test_a_payload_stays_to_the_letter_where_its_kind_redacts_nothing() -> None:
    assert redact('{ "a" : NaN', []) == ('{ "a" : NaN', [])


@pytest.mark.parametrize(
    "payload",
    [
        f'{{"a": NaN, "ssn": "{SECRET}"}}',
        f'{{"ssn": "{SECRET}"',
        f'{{"odd": "\\ud800", "ssn": "{SECRET}"}}',
        '{"a":' * DEEP + f'"{SECRET}"' + "}" * DEEP,
        "[" * 500 + f'"{SECRET}"' + "]" * 500,
    ],
    ids=["NaN", "cut", "surrogate", "deep", "deep to write"],
)
def test_a_payload_that_cannot_be_read_or_written_is_redacted_whole(payload: str) -> None:
    assert redact(payload, ["/ssn"]) == (f'"{REDACTED}"', [WHOLE])


def test_of_a_name_given_twice_neither_value_is_shown() -> None:
    payload = f'{{"p": {{"ssn": "{SECRET}"}}, "p": {{}}, "ssn": "{SECRET}", "ssn": 1}}'
    assert redact(payload, ["/p/ssn", "/ssn"]) == ('{"p":{},"ssn":"[redacted]"}', ["/ssn"])


NAMES = st.sampled_from(["a", "b", "a/b", "~", "*", "0", ""])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(VALUES, st.lists(NAMES, max_size=4))
def test_a_value_at_any_path_is_never_shown_and_its_neighbours_stay(
    neighbour: object, path: list[str]
) -> None:
    document: object = SECRET
    for name in reversed(path):
        document = {"neighbour": neighbour, name: document}
    field = "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)
    shown, found = redact(json.dumps(document), [field, "/no/such"])
    assert found == [field]
    assert SECRET not in shown
    if "*" not in path:
        assert shown.count("neighbour") == json.dumps(document).count("neighbour")


def test_a_row_hides_the_payload_before_a_revision_and_of_both_sides_of_a_finding() -> None:
    terms = {"payload": f'{{"ssn": "{SECRET}", "n": 1}}', "lane": "north"}
    hidden = {"payload": '{"ssn":"[redacted]","n":1}', "lane": "north"}
    row = {
        "payload": terms["payload"],
        **dict.fromkeys(("expected", "actual", "terms"), terms),
        "detail": {"reason": "version", "before": terms},
        "evidence": {"letter": "L-1"},
        "redacted_fields": ["/ssn", "/no"],
    }
    assert redact_row(row) == {
        "payload": hidden["payload"],
        **dict.fromkeys(("expected", "actual", "terms"), hidden),
        "detail": {"reason": "version", "before": hidden},
        "evidence": {"letter": "L-1"},
        "redacted_fields": ["/ssn"],
        "differing": [],
    }
    cut = {
        "expected": {"payload": f'{{"ssn": "{SECRET}'},
        "actual": None,
        "redacted_fields": ["/ssn"],
    }
    assert redact_row(cut) == {
        "expected": {"payload": f'"{REDACTED}"'},
        "actual": None,
        "differing": ["payload"],
    }


def test_a_row_says_in_what_both_sides_of_a_finding_differ_though_it_is_redacted() -> None:
    row = {
        "expected": {"payload": '{"ssn": "1"}', "lane": "north"},
        "actual": {"payload": '{"ssn": "2"}', "lane": "north", "cycle": ""},
        "redacted_fields": ["/ssn"],
    }
    shown = redact_row(row)
    assert shown["differing"] == ["payload", "cycle"]
    assert shown["expected"]["payload"] == shown["actual"]["payload"] == '{"ssn":"[redacted]"}'
    other = redact_row({"expected": "a", "actual": "b", "redacted_fields": None})
    assert other["differing"] == [""]
    assert redact_row({"expected": 1, "redacted_fields": None}) == {"expected": 1}


@pytest.mark.parametrize(
    ("before", "after", "dropped"),
    [
        ([], [], []),
        (["/a", "/b"], ["/b", "/a"], []),
        (["/a/b"], ["/a"], []),
        (["/a/b", "/a/*"], ["/*"], []),
        (["/a/b"], ["/*/b"], []),
        (["", "/a"], [""], []),
        (["/a"], ["/a/b"], ["/a"]),
        (["/a/*"], ["/a/b"], ["/a/*"]),
        (["/a", ""], ["/a"], [""]),
        (["/a~1b"], ["/a", "/a/b"], ["/a~1b"]),
        (["/a~1b", "/c"], ["/a/b"], ["/a~1b", "/c"]),
        (["/a", "/b"], [], ["/a", "/b"]),
    ],
)  # fmt: skip
def test_fields_that_no_other_covers_are_dropped(
    before: list[str], after: list[str], dropped: list[str]
) -> None:
    assert dropped_fields(before, after) == dropped
