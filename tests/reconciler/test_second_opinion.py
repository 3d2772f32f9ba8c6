"""A broken expansion is noticed when a schedule is defined, and by the reconciler."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.definitions.second_opinion import ask_witness, check_agreement, record_opinions
from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import WitnessDisagrees
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.witnessed import list_witnessed
from dueledger.ledger.witness import Agreement
from dueledger.reconciler import PassLimits, PassScope, Reconciler
from dueledger.reconciler.memory_record import MemoryRecord
from dueledger.reconciler.reconciliation_pass import ReconciliationPass
from dueledger.reconciler.second_opinion import CPU_SHARE, SecondOpinion
from tests.witness.broken import (
    forget_windows,
    have_patience,
    hourly,
    lose_one_of_a_thousand,
    losing,
)

from .conftest import NOON

Make = Callable[..., Reconciler]
PLENTY = 1_000.0
"""Seconds of CPU: more than asking about every definition takes."""
LONG_AGO = "update ledger.witnessed set asked_at = asked_at - interval '4 days'"
NEVER_ANSWERS = """
class CroniterBadDateError(ValueError):
    pass

class croniter:
    def __init__(self, text, start, **options):
        while True:
            pass
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.fixture
def definitions(kind: str) -> list[Definition]:
    return hourly(kind)


@pytest.fixture
def breaking() -> Iterator[pytest.MonkeyPatch]:
    """Breaks the expansion until it is undone, or the test ends."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    forget_windows()


@pytest.fixture
async def ada(frozen: Connection) -> int:
    return await register_actor(frozen, "person:ada", ActorKind.PERSON)


@pytest.fixture
def reconciler(make_reconciler: Make) -> Reconciler:
    made = make_reconciler()
    made.second_opinion = SecondOpinion(PLENTY / CPU_SHARE, credit_max=PLENTY)
    return made


async def disagreeing(connection: Connection, *, open_only: bool = True) -> list[dict[str, Any]]:
    return await findings.list_findings(
        connection, type_=FindingType.DISAGREES, open_only=open_only
    )


async def subjects(connection: Connection) -> set[str]:
    """Return what the open findings are about."""
    return {row["subject"] for row in await disagreeing(connection)}


async def test_g11_one_lost_occurrence_of_a_thousand_is_noticed_when_a_schedule_is_defined(
    frozen: Connection,
    reconciler: Reconciler,
    definitions: list[Definition],
    ada: int,
    breaking: pytest.MonkeyPatch,
) -> None:
    wrong = losing(definitions, NOON)
    assert wrong
    new = [(one, 1, NOON) for one in definitions]
    check_agreement(await ask_witness(new))

    lose_one_of_a_thousand(breaking)
    opinions = await ask_witness(new)
    assert {each.definition.definition for each in opinions if each.is_refused} == wrong
    with pytest.raises(WitnessDisagrees) as refused:
        await record_opinions(frozen, opinions, accepted=None, actor_no=ada)
    first = cast("list[dict[str, Any]]", refused.value.fields["disagreements"])[0]
    assert first["ours"][: first["parts_after"]] == first["theirs"][: first["parts_after"]]
    assert first["theirs"][first["parts_after"]] not in first["ours"]
    assert await disagreeing(frozen, open_only=False) == []

    await put_in_force(frozen, definitions, actor_no=ada)
    await record_opinions(frozen, opinions, accepted="counted by hand", actor_no=ada)
    rows = await disagreeing(frozen, open_only=False)
    assert {row["subject"] for row in rows} == {f"{name}, version 1" for name in wrong}
    assert {(row["resolution"], row["reason"]) for row in rows} == {
        (Resolution.ACCEPTED, "counted by hand")
    }
    by = await frozen.fetch("select distinct resolved_by from ledger.finding")
    assert [row["resolved_by"] for row in by] == [ada]
    await reconciler.run_pass()
    again = await disagreeing(frozen, open_only=False)
    assert [row["resolution"] for row in again] == [Resolution.ACCEPTED] * len(wrong)


async def test_g11_one_lost_occurrence_of_a_thousand_is_found_by_the_reconciler_until_it_is_not(
    frozen: Connection,
    reconciler: Reconciler,
    definitions: list[Definition],
    ada: int,
    breaking: pytest.MonkeyPatch,
) -> None:
    await put_in_force(frozen, definitions, actor_no=ada)
    wrong = losing(definitions, NOON)
    assert wrong
    lose_one_of_a_thousand(breaking)
    read_only = ReconciliationPass(
        reconciler.pool,
        reconciler.sources,
        record=MemoryRecord(),
        scope=PassScope(),
        limits=PassLimits(),
        second_opinion=SecondOpinion(PLENTY / CPU_SHARE, credit_max=PLENTY),
    )
    assert (await read_only.run()).found[FindingType.DISAGREES] == len(wrong)
    assert await disagreeing(frozen, open_only=False) == await list_witnessed(frozen) == []
    result = await reconciler.run_pass()
    assert result.found[FindingType.DISAGREES] == len(wrong)
    assert await subjects(frozen) == {f"{name}, version 1" for name in wrong}
    assert all("croniter" in row["sentence"] for row in await disagreeing(frozen))
    assert (await reconciler.run_pass()).found[FindingType.DISAGREES] == len(wrong), "as recorded"

    breaking.undo()
    forget_windows()
    await frozen.execute(LONG_AGO)
    assert (await reconciler.run_pass()).found[FindingType.DISAGREES] == 0
    closed = await disagreeing(frozen, open_only=False)
    assert [row["resolution"] for row in closed] == [Resolution.EXPLAINED] * len(wrong)


async def test_g11_a_disagreement_is_found_until_the_witness_agrees_even_if_it_is_too_slow_to(
    frozen: Connection,
    reconciler: Reconciler,
    definitions: list[Definition],
    ada: int,
    breaking: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    wrong = losing(definitions, NOON)
    chosen = [each for each in definitions if each.definition in wrong]
    await put_in_force(frozen, chosen, actor_no=ada)
    lose_one_of_a_thousand(breaking)
    await reconciler.run_pass()
    found = await subjects(frozen)
    assert len(found) == len(chosen)
    breaking.undo()
    forget_windows()

    (tmp_path / "croniter.py").write_text(NEVER_ANSWERS, encoding="utf-8")
    await frozen.execute(LONG_AGO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        have_patience(patch, seconds=0.1)
        for _ in range(2):  # as asked, and as recorded
            await reconciler.run_pass()
            assert await subjects(frozen) == found
    [row] = await frozen.fetch("select distinct reason from ledger.witnessed")
    assert row["reason"].endswith("gave no answer within 0.1 s")
    ages = [each.age_seconds for each in await list_witnessed(frozen)]
    assert max(ages) < 86_400, "others are asked about before it is again"

    await frozen.execute(LONG_AGO)
    await reconciler.run_pass()
    assert await subjects(frozen) == set()


async def test_g11_a_disagreement_about_a_version_that_cannot_be_read_stays_found(
    frozen: Connection,
    reconciler: Reconciler,
    definitions: list[Definition],
    ada: int,
    breaking: pytest.MonkeyPatch,
) -> None:
    await put_in_force(frozen, definitions, actor_no=ada)
    lose_one_of_a_thousand(breaking)
    await reconciler.run_pass()
    found = await subjects(frozen)
    assert found
    await frozen.execute(
        'update ledger.definition set document = document || \'{"smear": "PT1M"}\''
    )

    assert (await reconciler.run_pass()).found[FindingType.TAMPERED] == len(definitions)

    assert await subjects(frozen) == found


async def test_the_witness_is_asked_as_far_as_its_share_goes_and_the_oldest_first(
    frozen: Connection, make_reconciler: Make, definitions: list[Definition], ada: int
) -> None:
    asked = "select definition_no from ledger.witnessed order by asked_at, definition_no"
    await put_in_force(frozen, definitions, actor_no=ada)
    reconciler = make_reconciler()
    reconciler.second_opinion = SecondOpinion(credit_max=0.0)
    await reconciler.run_pass()
    assert await frozen.fetch(asked) == [], "a share of nothing"

    reconciler.second_opinion = SecondOpinion(PLENTY / CPU_SHARE, credit_max=PLENTY)
    await reconciler.run_pass()
    everyone = await frozen.fetch(asked)
    assert len(everyone) == len(definitions)

    oldest = everyone[7]["definition_no"]
    await frozen.execute(
        "update ledger.witnessed set asked_at = asked_at - make_interval("
        " days => case definition_no when $1 then 5 else 4 end)",
        oldest,
    )
    # Its start takes more than the rest: then one is asked about.
    reconciler.second_opinion = SecondOpinion(credit_max=1e-6, start_cpu_seconds=1e-6)
    await reconciler.run_pass()
    fresh = await frozen.fetch(
        "select definition_no from ledger.witnessed"
        " where asked_at > ledger.machine_now() - interval '1 day'"
    )
    assert [row["definition_no"] for row in fresh] == [oldest]


async def test_passes_of_processes_of_their_own_gather_the_share_of_the_witness(
    frozen: Connection, make_reconciler: Make, definitions: list[Definition], ada: int
) -> None:
    await put_in_force(frozen, definitions, actor_no=ada)
    count = "select count(*) from ledger.witnessed"
    share = 0.4 / 0.05  # of the CPU time of a pass
    for passes, asks in ((1, False), (2, False), (3, True)):
        reconciler = make_reconciler()
        reconciler.second_opinion = SecondOpinion(share, start_cpu_seconds=1.0, credit_max=2.0)
        await reconciler.run_pass()
        assert (await frozen.fetchval(count) > 0) is asks, passes
    left = await frozen.fetchval(
        "select witness_credit_seconds from ledger.reconciliation"
        " order by reconciliation_no desc limit 1"
    )
    assert left < 1.2, "what it took is deducted"


@pytest.mark.parametrize("days", [1, 7])
async def test_g11_a_schedule_is_witnessed_within_a_week_however_rarely_a_ledger_is_reconciled(
    frozen: Connection, make_reconciler: Make, definitions: list[Definition], ada: int, days: int
) -> None:
    """The share of so few short passes alone takes weeks to gather."""
    await put_in_force(frozen, definitions[:1], actor_no=ada)
    for _ in range(0, 7, days):
        await make_reconciler().run_pass()
        assert await list_witnessed(frozen) == [] or days == 1
        await frozen.execute(
            "update ledger.reconciliation set started_at = started_at - make_interval(days => $1)",
            days,
        )
    await make_reconciler().run_pass()
    (found,) = await list_witnessed(frozen)
    assert found.witnessed.agreement is Agreement.AGREES


async def test_versions_that_are_over_are_not_asked_about(
    frozen: Connection, reconciler: Reconciler, definitions: list[Definition], ada: int
) -> None:
    one = definitions[0]
    await put_in_force(frozen, [one], actor_no=ada, effective_from=NOON - timedelta(days=2))
    later = one.model_copy(update={"labels": {"a": "b"}})
    await put_in_force(frozen, [later], actor_no=ada, effective_from=NOON - timedelta(days=1))
    await reconciler.run_pass()
    rows = await frozen.fetch(
        "select d.version from ledger.witnessed join ledger.definition d using (definition_no)"
    )
    assert [row["version"] for row in rows] == [2]
