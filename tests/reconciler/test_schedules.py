"""Schedules in the reconciler: missed ranges are not missing, smears match, failures are found."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import SecretStr

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.materialise import (
    Materialiser,
    MaterialiserSettings,
    apply_tz_change,
    preview_tz_change,
)
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, clock, findings, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import read_accounting, skip_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.reconciler import PassScope, Reconciler
from dueledger.reconciler.report.model import StatementVerdict
from tests.logins import with_login
from tests.reconciler.conftest import mend
from tests.seals import seal_again

pytestmark = pytest.mark.long

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Make = Callable[..., Reconciler]
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}


@pytest.fixture
async def materialiser(frozen: Connection, database: str) -> AsyncGenerator[Materialiser]:
    actor_no = await register_actor(frozen, "materialiser:test", ActorKind.MATERIALISER)
    dsn = with_login(database, "materialiser")
    settings = MaterialiserSettings(
        dsn=SecretStr(dsn), materialise_horizon_seconds=3600, materialise_retry_seconds=0
    )
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Materialiser(pool, settings, actor_no=actor_no)


async def accept(
    connection: Connection, kind: str, at: datetime, *, name: str = "d", **terms: object
) -> int:
    document = {"definition": name, "tenant": "acme", "kind": kind, "business_key": "k"}
    definition = parse_definition(document | {"when": HOURLY} | terms)
    defined = await define(
        connection,
        definition.normalised(),
        tenant="acme",
        name=name,
        kind=kind,
        event_type=None,
        effective_from=at,
        actor_no=await register_actor(connection, "author", ActorKind.PERSON),
    )
    return defined.definition_no


async def materialise(materialiser: Materialiser) -> None:
    while (await materialiser.tick()).get("definitions"):
        pass


async def found_types(reconciler: Reconciler) -> set[FindingType]:
    result = await reconciler.run_pass()
    return {type_ for type_, count in result.found.items() if count} - {FindingType.OVERDUE}


async def lose(connection: Connection, cycle: str) -> None:
    """Delete an occurrence's item from the ledger, as no command can."""
    await connection.execute(
        "delete from ledger.pending where item_no in"
        " (select item_no from ledger.due_item where cycle = $1)",
        cycle,
    )
    await connection.execute("alter table ledger.due_item disable trigger user")
    await connection.execute("delete from ledger.due_item where cycle = $1", cycle)


@pytest.mark.parametrize("catch_up", [{"policy": "latest"}, {"policy": "all", "max_items": 7}])
async def test_g11_what_is_recorded_as_lapsed_is_not_missing_and_one_beside_it_is(
    frozen: Connection,
    materialiser: Materialiser,
    make_reconciler: Make,
    kind: str,
    catch_up: dict[str, object],
) -> None:
    definition_no = await accept(frozen, kind, NOON - 60 * DAY, catch_up=catch_up)
    await materialise(materialiser)
    assert await frozen.fetchval("select sum(occurrences) from ledger.missed_range") > 1000
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set()

    await frozen.execute(
        "update ledger.missed_range set until_at = until_at - interval '1 hour'"
        " where definition_no = $1",
        definition_no,
    )
    assert (await reconciler.run_pass()).found[FindingType.MISSING] == 1


@pytest.mark.parametrize(
    "catch_up", [{"policy": "latest"}, {"policy": "all", "window": "P2D"}, {"policy": "skip"}]
)
async def test_g11_where_a_dead_materialiser_left_off_nothing_is_complete(
    frozen: Connection,
    materialiser: Materialiser,
    make_reconciler: Make,
    kind: str,
    catch_up: dict[str, object],
) -> None:
    await accept(frozen, kind, NOON - 20 * DAY, catch_up=catch_up)
    reconciler = make_reconciler()

    result = await reconciler.run_pass()
    (mark,) = result.watermarks
    assert not result.open_found
    assert mark.complete_before == NOON - 20 * DAY
    assert mark.blocked_by == "the schedule d, which is materialised up to there"
    statement = (await reconciler.report()).statement
    assert statement.verdict is StatementVerdict.NOT_COMPLETE
    assert statement.sentence == (
        "Not complete: of 1 kind it is not known what is owed, as the schedule d is materialised"
        " only up to 2027-02-09 12:00 UTC."
    )
    for to_date, verdict in (
        (date(2027, 2, 10), StatementVerdict.NOT_COMPLETE),
        (date(2027, 2, 8), StatementVerdict.COMPLETE),
    ):
        await reconciler.run_pass(PassScope(to_date=to_date))
        assert (await reconciler.report()).statement.verdict is verdict
    await put_kind_policy(frozen, KindPolicy("acme", kind, grace_seconds=20 * 86_400))
    await reconciler.run_pass()
    assert (await reconciler.report()).statement.verdict is StatementVerdict.COMPLETE

    await materialise(materialiser)
    (mark,) = (await reconciler.run_pass()).watermarks
    assert mark.blocked_by is None or "materialised" not in mark.blocked_by


async def test_g11_no_watermark_waits_for_a_version_that_is_over_or_not_yet_in_force(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    await accept(frozen, kind, NOON - 2 * DAY)
    await accept(frozen, kind, NOON - DAY, when={"cron": "15 * * * *", "timezone": "UTC"})
    await materialise(materialiser)
    await accept(frozen, kind, NOON + DAY, when={"cron": "30 * * * *", "timezone": "UTC"})

    (mark,) = (await make_reconciler().run_pass()).watermarks
    assert mark.blocked_by is None or "materialised" not in mark.blocked_by


async def test_what_the_materialiser_has_yet_to_judge_is_not_missing_meanwhile(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    await accept(frozen, kind, NOON - 5 * timedelta(hours=1), catch_up={"policy": "skip"})
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set()
    await materialise(materialiser)
    assert await found_types(reconciler) == set()


async def test_g11_a_smeared_item_that_is_lost_is_found_and_comes_back_as_it_was(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    await accept(frozen, kind, NOON - 5 * timedelta(hours=1), smear="PT40M")
    await materialise(materialiser)
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set()
    query = "select id, cycle, due_at, smear_seconds from ledger.due_item order by nominal"
    before = await frozen.fetch(query)
    await lose(frozen, before[1]["cycle"])
    assert await found_types(reconciler) == {FindingType.MISSING}
    await reconciler.repair(await reconciler.plan())
    assert await frozen.fetch(query) == before
    assert await found_types(reconciler) == set()


@pytest.mark.parametrize(
    ("cron", "gap", "detail"),
    [
        ("30 2,3 * * *", "shift_forward", {"reason": "merged", "into": "2027-03-14T03:30"}),
        ("30 2 * * *", "skip", {"reason": "gap"}),
    ],
)
async def test_g11_a_skipped_occurrence_that_is_lost_is_found_and_recorded_as_skipped_again(
    frozen: Connection,
    materialiser: Materialiser,
    make_reconciler: Make,
    kind: str,
    cron: str,
    gap: str,
    detail: dict[str, str],
) -> None:
    at = datetime(2027, 3, 14, 8, tzinfo=UTC)
    await clock.set_clock(frozen, at, 0, database=True)
    reconciler = make_reconciler()
    for pool in (reconciler.pool, materialiser._pool):  # pyright: ignore[reportPrivateUsage]
        await pool.connections.expire_connections()
    when = {"cron": cron, "timezone": "America/New_York", "gap": gap}
    await accept(frozen, kind, at - timedelta(hours=3), when=when)
    await materialise(materialiser)
    assert await found_types(reconciler) == set()
    lost = "2027-03-14T02:30"
    await frozen.execute("alter table ledger.transition disable trigger user")
    await frozen.execute(
        "delete from ledger.transition where item_no = (select item_no from ledger.due_item"
        " where cycle = $1)",
        lost,
    )
    await lose(frozen, lost)
    assert await found_types(reconciler) == {FindingType.MISSING}
    await reconciler.repair(await reconciler.plan())
    found = await frozen.fetchval(
        "select t.detail from ledger.due_item i join ledger.transition t using (item_no)"
        " where i.cycle = $1",
        lost,
    )
    assert found == detail
    assert await found_types(reconciler) == set()


async def test_g11_a_definition_that_fails_in_the_materialiser_is_a_finding_until_it_does_not(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    """The rows are refused by the database: the reconciler itself can expand it well."""
    await accept(frozen, kind, NOON - timedelta(hours=3))
    await frozen.execute(
        "alter table ledger.due_item add constraint due_item_cycle_length_tested"
        " check (business_key <> 'k')"
    )
    assert (await materialiser.tick())["failed"] == 1
    reconciler = make_reconciler()
    assert await found_types(reconciler) == {FindingType.DEFINITION_FAILED, FindingType.MISSING}
    (row,) = await findings.list_findings(frozen, type_=FindingType.DEFINITION_FAILED)
    assert "due_item_cycle_length_tested" in row["sentence"]
    assert (row["kind"], row["resolution"]) == (kind, Resolution.OPEN)

    await frozen.execute("alter table ledger.due_item drop constraint due_item_cycle_length_tested")
    await materialise(materialiser)
    assert await found_types(reconciler) == set()
    rows = await findings.list_findings(
        frozen, open_only=False, type_=FindingType.DEFINITION_FAILED
    )
    assert [row["resolution"] for row in rows] == [Resolution.EXPLAINED]


async def test_g11_a_definition_that_cannot_be_read_is_one_finding_and_stops_no_other(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    definition_no = await accept(frozen, kind, NOON - timedelta(hours=3))
    sound = await frozen.fetchrow("select * from ledger.definition")
    assert sound is not None
    await frozen.execute(
        """update ledger.definition set document = document || '{"when":{"cron":"a b"}}'"""
    )
    await seal_again(frozen, "definition")
    assert (await materialiser.tick())["failed"] == 1
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.DEFINITION_FAILED: 1}
    await frozen.execute(
        "update ledger.definition set document = $2 where definition_no = $1",
        definition_no,
        sound["document"],
    )
    await seal_again(frozen, "definition")
    await materialise(materialiser)
    assert await found_types(reconciler) == set()


async def test_g11_an_occurrence_that_a_version_withdrew_and_a_later_one_owes_is_expected_again(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    hour = timedelta(hours=1)
    await accept(frozen, kind, NOON - 5 * hour)
    await materialise(materialiser)
    await accept(frozen, kind, NOON - 4 * hour, when={"cron": "30 * * * *", "timezone": "UTC"})
    await materialise(materialiser)
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set()
    await accept(frozen, kind, NOON - 2 * hour)
    assert FindingType.MISSING in await found_types(reconciler), "until it is issued once more"
    await materialise(materialiser)
    assert await found_types(reconciler) == set()
    query = (
        "select id, cycle, due_at, nominal from ledger.due_item where cycle like '%~2' order by 2"
    )
    before = await frozen.fetch(query)
    assert [row["due_at"] for row in before][:2] == [NOON - 2 * hour, NOON - hour]
    await lose(frozen, before[1]["cycle"])
    assert await found_types(reconciler) == {FindingType.MISSING}
    await reconciler.repair(await reconciler.plan())
    assert await frozen.fetch(query) == before
    assert await found_types(reconciler) == set()


SUPERSEDE_COMPLETED = """
update ledger.transition t set event = $1, detail = '{"reason": "version"}',
  actor_no = (select actor_no from ledger.actor where name = 'materialiser:test'),
  run_no = case when i.due_at >= $2::timestamptz then t.run_no end
from ledger.due_item i
where i.item_no = t.item_no and t.event = $3
"""


@pytest.mark.damages
async def test_g11_a_newer_version_excuses_only_what_it_decides_and_no_run_had(
    frozen: Connection,
    materialiser: Materialiser,
    make_reconciler: Make,
    complete_all: Callable[..., Awaitable[None]],
    kind: str,
) -> None:
    """Completed, rewritten as superseded: no next issue is emitted, which would be worked again."""
    hour = timedelta(hours=1)
    await accept(frozen, kind, NOON - 5 * hour)
    await materialise(materialiser)
    await complete_all()
    await accept(frozen, kind, NOON - 2 * hour, labels={"newer": "version"})
    await materialise(materialiser)
    reconciler = make_reconciler()
    assert await found_types(reconciler) <= {FindingType.LATE}
    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    rewritten = await frozen.execute(
        SUPERSEDE_COMPLETED, TransitionEvent.SUPERSEDED, NOON - 2 * hour, TransitionEvent.COMPLETED
    )
    assert rewritten == "UPDATE 6"

    found = (await reconciler.run_pass()).found

    assert (found[FindingType.UNEXCUSED], found[FindingType.MISSING]) == (6, 0)


async def test_g11_schedules_that_share_their_occurrences_are_a_finding_until_each_has_its_own(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    since = NOON - timedelta(hours=3)
    await accept(frozen, kind, since)
    await accept(frozen, kind, NOON, name="next", when=HOURLY, business_key="k2")
    await materialise(materialiser)
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set()

    other = {"cron": "0 */2 * * *", "timezone": "UTC"}
    await accept(frozen, kind, since, name="e", when=other)
    result = await reconciler.run_pass()
    assert result.found[FindingType.MISSING] == 0, "each occurrence has its row"
    assert result.found[FindingType.DEFINITION_FAILED] == 1
    (row,) = await findings.list_findings(frozen, type_=FindingType.DEFINITION_FAILED)
    assert "definition e" in row["sentence"]
    assert "its occurrence 2027-03-01T10:00 is the same item as d's" in row["sentence"]
    assert (await materialiser.tick())["failed"] == 1
    assert (await reconciler.run_pass()).found[FindingType.DEFINITION_FAILED] == 1, "the same one"

    await accept(frozen, kind, since, name="e", when=other, business_key="its own")
    await materialise(materialiser)
    assert await found_types(reconciler) == set()


async def test_a_business_key_that_goes_from_one_schedule_to_another_is_no_finding(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    await accept(frozen, kind, NOON - timedelta(hours=3))
    await materialise(materialiser)
    await accept(frozen, kind, NOON, business_key="another")
    await accept(frozen, kind, NOON, name="e")
    await materialise(materialiser)
    assert await found_types(make_reconciler()) == set()


ISSUES = """
select i.cycle, d.version, p.item_no is not null as waits
from ledger.due_item i join ledger.definition d using (definition_no)
left join ledger.pending p using (item_no)
where i.nominal = '2027-03-01T12:30' order by i.item_no
"""


async def test_g11_an_occurrence_that_a_tz_database_skipped_and_a_newer_one_owes_is_accounted_for(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    """The last issue counts, whatever later versions do with it."""
    when = {"cron": "30 * * * *", "timezone": "UTC"}
    hour, cycle = timedelta(hours=1), "2027-03-01T12:30"
    number = await accept(frozen, kind, NOON, when=when)
    document = {"definition": "d", "tenant": "acme", "kind": kind, "business_key": "k"}
    definition = parse_definition(document | {"when": when})
    (draft,) = draft_occurrences(definition, NOON, NOON + hour).drafts
    actor_no = await register_actor(frozen, "person:ada", ActorKind.PERSON)
    older = replace(draft, tzdata="2000a")
    await skip_items(frozen, [older], ["gap"], actor_no=actor_no, definition_nos=[number])
    await materialise(materialiser)
    reconciler = make_reconciler()
    assert await found_types(reconciler) == set(), "skipped with a reason is accounted for"
    (row,) = (await reconciler.report()).accounting
    assert (row.checks.date, row.undated) == (False, 1), "and that it is skipped was not checked"

    async with preview_tz_change(frozen, actor_no=actor_no) as found:
        digest = found.change.digest
    await apply_tz_change(frozen, digest, actor_no=actor_no)
    assert await issues(frozen) == [(cycle, 1, False), (f"{cycle}~2", 1, True)]
    assert await found_types(reconciler) == set()

    await accept(frozen, kind, NOON, when=when, labels={"a": "b"})
    await materialise(materialiser)
    assert await issues(frozen) == [(cycle, 1, False), (f"{cycle}~2", 2, True)]
    assert await found_types(reconciler) == set()

    await accept(frozen, kind, NOON, when={"cron": "40 * * * *", "timezone": "UTC"})
    await materialise(materialiser)
    assert await issues(frozen) == [(cycle, 1, False), (f"{cycle}~2", 2, False)]
    assert await found_types(reconciler) == set()

    await accept(frozen, kind, NOON, when=when)
    await materialise(materialiser)
    stand = [(cycle, 1, False), (f"{cycle}~2", 2, False), (f"{cycle}~3", 4, True)]
    assert await issues(frozen) == stand
    assert await found_types(reconciler) == set()
    await lose(frozen, f"{cycle}~3")
    assert await found_types(reconciler) == {FindingType.MISSING}
    await reconciler.repair(await reconciler.plan())
    assert await issues(frozen) == stand
    assert await found_types(reconciler) == set()
    assert not [each.difference for each in await read_accounting(frozen) if each.difference]


async def issues(connection: Connection) -> list[tuple[str, int, bool]]:
    rows = await connection.fetch(ISSUES)
    return [(row["cycle"], row["version"], row["waits"]) for row in rows]


@pytest.mark.damages
async def test_g11_a_missing_occurrence_is_emitted_again_with_its_overlap(
    frozen: Connection, materialiser: Materialiser, make_reconciler: Make, kind: str
) -> None:
    await accept(frozen, kind, NOON, overlap="skip")
    await materialise(materialiser)
    was = await frozen.fetch("select id, overlap, serial from ledger.due_item")
    await frozen.execute("delete from ledger.pending")
    await frozen.execute("delete from ledger.due_item")
    reconciler = make_reconciler()

    assert (await reconciler.run_pass()).found == {FindingType.MISSING: len(was)}
    await mend(reconciler)
    assert await frozen.fetch("select id, overlap, serial from ledger.due_item") == was
    assert (await reconciler.run_pass()).found == {}
