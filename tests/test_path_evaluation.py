"""What JMESPaths may build: a bound on each value and on all work, before anything reads it."""

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from jmespath.exceptions import JMESPathError

from dueledger.ledger.definitions.fields import PATH_DEPTH_MAX
from dueledger.ledger.definitions.parsing import Definition, load_definitions
from dueledger.ledger.errors import VALUE_CHARS_MAX, InvalidDefinition, InvalidEvent, shown_value
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.rules.path_evaluation import (
    VALUES_MAX,
    PathDocument,
    TooLarge,
    failure_reason,
    weigh,
)
from tests.cheap import check_cheap
from tests.definition_documents import RENEWAL

DOUBLED = "|".join(["[@,@]"] * 29)
"""As many steps as a definition may have."""
WIDE = [[number] for number in range(10_000)]

EXPLOSIONS = [
    f"data|{DOUBLED}",
    "data|" + "|".join(["[@,@][]"] * 20),
    "data|" + "|".join(["{a:@,b:@}"] * 20),
    "data|" + "|".join(["[@,@,@,@,@,@,@,@]"] * 20),
    f"to_string(data|{DOUBLED})",
    "length(to_string(data|" + "|".join(["[@,@]"] * 20) + "))",
    f"abs(data|{DOUBLED})",
    "[" + "|".join(["[@,@]"] * 20) + "," + "|".join(["[@,@]"] * 20) + "] | [0] == [1]",
    "data.text|" + "|".join(["join('', [@,@])"] * 20),
    "data.text|" + "|".join(["join(@, [@,@,@])"] * 20),
    "join(data.text, data.wide[*].to_string(@))",
    "data.wide|" + "|".join(["map(&[@,@], @)"] * 20),
    "data.wide[*].[@,@,@,@,@,@,@,@][]",
    "[" + ",".join(["max(data.wide[])"] * 50) + "]",
    "[" + ",".join(["to_string(data)"] * 50) + "]",
    "data.wide[?" + " && ".join(["length(@) > `0`"] * 25) + "]",
    "merge(" + ",".join(["data"] * 150) + ")",
]


def event(data: object) -> DomainEvent:
    return DomainEvent(
        tenant="acme",
        source="/policies",
        id="1",
        type="PolicyActivated",
        time=datetime(2027, 1, 1, tzinfo=UTC),
        data=data,
    )


DATA = {
    "policy_number": "P-1",
    "term": "2027",
    "expires_on": "2027-03-01",
    "region": "north",
    "text": "x" * 100_000,
    "wide": WIDE,
}


def define(**fields: object) -> Definition:
    document = load_definitions(RENEWAL, source="test")[0].normalised() | fields
    [definition] = load_definitions(orjson.dumps(document).decode(), source="test")
    return definition


@pytest.mark.parametrize("path", EXPLOSIONS)
def test_an_expression_that_explodes_is_stopped_before_it_is_built(path: str) -> None:
    def evaluate() -> None:
        with pytest.raises((TooLarge, JMESPathError)) as failed:
            PathDocument({"data": DATA}).search(path)
        assert len(failure_reason(failed.value)) < 400

    check_cheap(evaluate, seconds=1)


def test_a_text_is_not_joined_before_it_is_known_to_be_small_enough() -> None:
    document = PathDocument({"data": {"text": "x" * 100_000, "many": ["a"] * 400}})
    tracemalloc.start()
    with pytest.raises(TooLarge):
        document.search("join(data.text, data.many)")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000  # the text would have 40 million characters


def test_all_paths_on_a_document_share_one_bound() -> None:
    document = PathDocument({"data": DATA})

    def search_often() -> None:
        for _ in range(20):
            document.search("data.wide[*]")

    with pytest.raises(TooLarge):
        search_often()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data.lines[?price > `1`].sku", ["b", "c"]),
        ("sort_by(data.lines, &sku)[0].price", 1),
        ("join('-', data.lines[*].sku)", "a-b-c"),
        ("{first: data.lines[0], count: length(data.lines)}", None),
        ("data.lines[::-1][].sku", ["c", "b", "a"]),
        ("to_string(data.lines[0])", '{"sku":"a","price":1}'),
        ("max_by(data.lines, &price).sku || 'none'", "c"),
        ("map(&price, data.lines)", [1, 2, 3]),
        ("data.*[] | [0].sku", "a"),
        ("!(data.missing)", True),
        ("not_null(data.missing, data.lines[1:2].price | [0])", 2),
    ],
)
def test_other_expressions_give_what_jmespath_gives(path: str, value: object) -> None:
    lines = [{"sku": sku, "price": price} for price, sku in enumerate("abc", 1)]
    found = PathDocument({"data": {"lines": lines}}).search(path)
    expected = {"first": lines[0], "count": 3} if value is None else value
    assert found == expected


@pytest.mark.parametrize(
    "path",
    [
        f"data|{DOUBLED}|[@,@]|[@,@]",
        "(" * 40 + "data" + ")" * 40,
        "[" * 40 + "data" + "]" * 40,
        "{a:" * 40 + "data" + "}" * 40,
        "!" * 40 + "data",
        " || ".join(["data"] * 40),
        "to_string(" * 40 + "data" + ")" * 40,
        "data" + "[?a" * 40 + "]" * 40,
    ],
)
@pytest.mark.parametrize("field", ["payload", "cycle", "business_key"])
def test_define_refuses_expressions_that_nest_deep(path: str, field: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"deeper than {PATH_DEPTH_MAX} levels"):
        define(**{field: path})


def test_names_joined_by_dots_do_not_nest() -> None:
    assert define(cycle="data." + ".".join(["a"] * 200)).cycle


@pytest.mark.parametrize("nested", ["[" * 40 + "]" * 40, '{"a":' * 40 + "1" + "}" * 40])
def test_define_refuses_json_that_nests_deeper_than_yaml_may(nested: str) -> None:
    with pytest.raises(InvalidDefinition, match="nested deeper than 32"):
        load_definitions(f'{{"definition": "x", "payload": {nested}}}', source="test")


@pytest.mark.parametrize("field", ["payload", "cycle", "business_key", "effective_date"])
@pytest.mark.parametrize("path", [EXPLOSIONS[0], EXPLOSIONS[4], "data.deep", "data.large"])
def test_an_event_that_explodes_is_refused_with_its_path(field: str, path: str) -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    data = DATA | {"deep": deep, "large": 10**5_000}
    rule = define(**{field: path})

    def apply() -> None:
        with pytest.raises(InvalidEvent, match=r"policy-renewal") as refused:
            apply_rule(rule, event(data))
        assert len(refused.value.message) < 3_000

    check_cheap(apply, seconds=1)


def test_a_payload_of_many_paths_is_weighed_before_it_is_written() -> None:
    rule = define(payload={f"copy-{number}": "data" for number in range(2_000)})
    with pytest.raises(InvalidEvent, match="over 256 KiB"):
        apply_rule(rule, event(DATA))


def deep_list(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def doubled_list(steps: int) -> list[Any]:
    found: list[Any] = ["x"]
    for _ in range(steps):
        found = [found, found]
    return found


@pytest.mark.parametrize("make", [deep_list, doubled_list])
def test_a_value_is_quoted_as_far_as_it_is_shown(make: Callable[[int], list[Any]]) -> None:
    assert len(shown_value(make(100_000 if make is deep_list else 200))) == VALUE_CHARS_MAX + 1
    with pytest.raises(TooLarge):
        weigh(make(VALUES_MAX + 1 if make is deep_list else 200), VALUES_MAX)


@pytest.mark.parametrize(
    "value", [1, -2.5, None, True, "a'b", ["x", {"y": [1, "z"]}], {}, [], b"x"]
)
def test_a_small_value_is_quoted_as_python_writes_it(value: object) -> None:
    assert shown_value(value) == repr(value)
