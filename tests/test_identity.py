import json
from datetime import date
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.identity import item_id

VECTORS = json.loads(
    (Path(__file__).parents[1] / "docs" / "identity-vectors.json").read_text(encoding="utf-8")
)
FIELDS = ("tenant", "kind", "business_key", "cycle")
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x1f"))
DATES = st.dates(date(1970, 1, 1), date(2199, 12, 31))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_identity_agrees_with_the_published_vectors(vector: dict[str, str]) -> None:
    effective_date = date.fromisoformat(vector["effective_date"])
    tenant, kind, business_key, cycle = (vector[field] for field in FIELDS)
    found = item_id(tenant, kind, business_key, cycle, effective_date)
    assert found == UUID(vector["id"])


def test_there_are_vectors_for_what_is_easy_to_get_wrong() -> None:
    assert len(VECTORS) >= 12
    assert len({vector["id"] for vector in VECTORS}) == len(VECTORS)
    assert any(not vector["cycle"] for vector in VECTORS)
    assert any(not vector["business_key"].isascii() for vector in VECTORS)


@given(KEYS, KEYS, KEYS, KEYS, DATES)
def test_identity_is_a_uuid_of_version_8(
    tenant: str, kind: str, business_key: str, cycle: str, effective_date: date
) -> None:
    found = item_id(tenant, kind, business_key, cycle, effective_date)
    assert found.version == 8
    assert found.variant == RFC_4122


@given(st.lists(st.tuples(KEYS, KEYS, KEYS, KEYS, DATES), max_size=20))
def test_identity_differs_exactly_where_a_field_does(
    identities: list[tuple[str, str, str, str, date]],
) -> None:
    ids = [item_id(*identity) for identity in identities]
    assert len(set(ids)) == len(set(identities))


@pytest.mark.parametrize("day", [date.min, date(1969, 12, 31), date(2200, 1, 1), date.max])
def test_a_date_outside_the_ledgers_centuries_is_refused_by_name(day: date) -> None:
    with pytest.raises(InvalidItem, match="effective_date: is outside 1970 to 2199"):
        item_id("acme", "Test", "key", "", day)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("character", ["\x00", "\x1f", "\ud800"])
def test_an_ambiguous_key_is_refused_by_name(field: str, character: str) -> None:
    fields = dict.fromkeys(FIELDS, "x") | {field: f"a{character}b"}
    with pytest.raises(InvalidItem) as refused:
        item_id(**fields, effective_date=date(2027, 1, 1))
    assert [problem.field for problem in refused.value.problems] == [field]
