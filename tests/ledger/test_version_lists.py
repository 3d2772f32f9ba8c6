"""Lists of definitions read those that they may show, however many others there are."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.definitions import VersionPlace, list_versions
from dueledger.ledger.store.statements import statement

from .conftest import Ledger

OTHERS = 3_000
DEFINE = """
insert into ledger.definition (
  tenant, name, version, kind, document, effective_from, created_at, actor_no)
select $1, $2 || lpad(n::text, 5, '0'), v, $3, '{}',
  timestamptz '2026-01-01' + make_interval(days => v), ledger.now(), $4
from generate_series(1, $5) n, generate_series(1, $6) v
"""
TYPES = ("text[]", "text", "text", "boolean", "text", "text", "integer", "integer")


@pytest.fixture
async def many(ledger: Ledger) -> Connection:
    """A ledger with many definitions of two tenants, few of which are of a kind."""
    for tenant in ("acme", "umbra"):
        for name, kind, number, versions in (
            ("other-", "OtherDue", OTHERS, 1),
            ("rare-", "RareDue", 5, 3),
        ):
            await ledger.connection.execute(
                DEFINE, tenant, name, kind, ledger.worker_no, number, versions
            )
    await ledger.connection.execute("analyze ledger.definition")
    return ledger.connection


def _scanned(node: dict[str, Any]) -> Iterator[float]:
    if node.get("Relation Name") == "definition":
        removed = node.get("Rows Removed by Filter", 0)
        yield node["Actual Loops"] * (node["Actual Rows"] + removed)
    for child in node.get("Plans", ()):
        yield from _scanned(child)


async def _read(connection: Connection, name: str, values: Sequence[str]) -> float:
    """Return how many rows of definitions a statement reads, by the plan for any values."""
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute(f"prepare listed ({', '.join(TYPES)}) as {statement(name)}")
    explained = await connection.fetchval(
        f"explain (analyze, format json) execute listed ({', '.join(values)})"
    )
    (plan,) = json.loads(explained) if isinstance(explained, str) else explained
    return sum(_scanned(plan["Plan"]))


async def test_a_list_of_a_kind_reads_no_definition_of_another(many: Connection) -> None:
    values = ("null", "null", "'RareDue'", "true", "null", "null", "null", "51")
    assert await _read(many, "list_kind_versions", values) < 100
    versions = await list_versions(many, None, None, newest_only=True, limit=51, kind="RareDue")
    assert [(each.tenant, each.name, each.version) for each in versions] == [
        (tenant, f"rare-0000{number}", 3) for tenant in ("acme", "umbra") for number in range(1, 6)
    ]


async def test_a_list_of_a_tenants_own_reads_no_definition_of_another(many: Connection) -> None:
    values = ("array['umbra']", "null", "null", "true", "null", "null", "null", "51")
    assert await _read(many, "list_versions", values) < 1_000


async def test_a_list_of_a_kind_goes_on_within_the_versions_of_a_definition(
    many: Connection,
) -> None:
    found: list[tuple[str, str, int]] = []
    after: VersionPlace | None = None
    while True:
        page = await list_versions(
            many,
            "umbra",
            None,
            newest_only=False,
            limit=4,
            kind="RareDue",
            tenants=["umbra", "acme"],
            after=after,
        )
        found += [(each.tenant, each.name, each.version) for each in page]
        if not page:
            break
        after = VersionPlace(*found[-1])
    assert found == [
        ("umbra", f"rare-0000{number}", version) for number in range(1, 6) for version in (3, 2, 1)
    ]
