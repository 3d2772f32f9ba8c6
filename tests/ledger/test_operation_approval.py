"""Operations that wait for a second person: when they do, who approves, and what moves."""

import pytest
from asyncpg import CheckViolationError

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.operations import (
    ItemFilter,
    abort_operation,
    advance_operation,
    approve_operation,
    find_open_operation,
    list_open_operations,
    list_operations,
    pause_operation,
    preview_operation,
    record_operation,
    resume_operation,
    show_operation,
)
from dueledger.ledger.upkeep import Upkeep
from tests.ledger.conftest import Ledger
from tests.ledger.test_operations import ask, fail, finish, states
from tests.logins import with_login

REDRIVE = OperationVerb.REDRIVE
CANCEL = OperationVerb.CANCEL


@pytest.fixture
async def maker_no(ledger: Ledger) -> int:
    return await register_actor(ledger.connection, "person:jane", ActorKind.PERSON)


@pytest.fixture
async def checker_no(ledger: Ledger) -> int:
    return await register_actor(ledger.connection, "person:bob", ActorKind.PERSON)


async def ask_above(ledger: Ledger, above: int | None, kind: str | None = None) -> None:
    """Let operations on more items of a kind wait for a second person."""
    name = kind or ledger.kind
    policy = KindPolicy("acme", name, dispatch="kafka", operation_approval_above=above)
    await put_kind_policy(ledger.connection, policy)


async def needs_approval(ledger: Ledger, number: int) -> bool:
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    return shown["needs_approval"]


async def test_nothing_moves_before_somebody_else_than_who_asked_has_approved(
    ledger: Ledger, database: str, maker_no: int, checker_no: int
) -> None:
    parked = await fail(ledger, count=2)
    await ask_above(ledger, 1)
    number = await ask(ledger, REDRIVE, maker_no, tenant="acme")
    async with open_pool(with_login(database, "allocator"), application_name="upkeep") as pool:
        async with pool.acquire() as connection:
            upkeep_no = await register_actor(connection, "upkeep", ActorKind.ALLOCATOR)
        upkeep = Upkeep(pool, actor_no=upkeep_no, seconds=1.0, role="test")
        await upkeep.tick()
        assert await advance_operation(ledger.connection, number) is None
        assert await find_open_operation(ledger.connection, 0) is None
        assert await states(ledger, parked) == [State.MANUAL_REVIEW] * 2
        shown = await show_operation(ledger.connection, number)
        assert shown is not None
        waits = [shown[name] for name in ("status", "needs_approval", "awaits_approval", "done")]
        assert waits == ["waiting", True, True, 0]
        [opened] = await list_open_operations(ledger.connection, 10)
        assert (opened.operation_no, opened.awaits_approval) == (number, True)

        late = await fail(ledger)
        own = await approve_operation(ledger.connection, number, reason="mine", actor_no=maker_no)
        assert own == "own"
        assert await advance_operation(ledger.connection, number) is None
        approver = await connect(with_login(database, "approver"), application_name="approver")
        approved = [
            await approve_operation(approver, number, reason="INC-1", actor_no=checker_no)
            for _ in range(2)
        ]
        await approver.close()
        assert approved == ["done", "approved"]
        await upkeep.tick()
    assert await states(ledger, [*parked, *late]) == [
        *(State.SCHEDULED, State.SCHEDULED, State.MANUAL_REVIEW)
    ]
    shown = await show_operation(ledger.connection, number)
    assert shown is not None
    ended = [shown[name] for name in ("status", "done", "approved_by", "approval_reason")]
    assert ended == ["done", 2, "person:bob", "INC-1"]
    assert (shown["awaits_approval"], shown["requested_by"]) == (False, "person:jane")
    assert (
        await approve_operation(ledger.connection, number, reason="late", actor_no=checker_no)
        == "ended"
    )


async def test_the_database_refuses_who_asked_and_an_approval_that_nobody_asked_for(
    ledger: Ledger, database: str, maker_no: int, checker_no: int
) -> None:
    await fail(ledger)
    await ask_above(ledger, 0)
    number = await ask(ledger, REDRIVE, maker_no)
    await ask_above(ledger, None)
    other = await ask(ledger, REDRIVE, maker_no)
    approver = await connect(with_login(database, "approver"), application_name="approver")
    write = (
        "update ledger.operation set approved_at = now(), approved_by = $2, approval_reason = 'x'"
        " where operation_no = $1"
    )
    for wrong in ((number, maker_no), (other, checker_no)):
        with pytest.raises(CheckViolationError):
            await approver.execute(write, *wrong)
    unasked = await approve_operation(approver, other, reason="INC-1", actor_no=checker_no)
    unknown = await approve_operation(approver, other + 1, reason="INC-1", actor_no=checker_no)
    assert (unasked, unknown) == ("unasked", "unknown")
    await approver.close()


async def test_an_operation_of_another_tenant_or_of_all_is_unknown_to_who_may_not_see_it(
    ledger: Ledger, maker_no: int, checker_no: int
) -> None:
    await fail(ledger, count=2)
    await ask_above(ledger, 0)
    of_acme = await ask(ledger, REDRIVE, maker_no, tenant="acme")
    of_all = await ask(ledger, REDRIVE, maker_no)
    for tenants, number, result in (
        (["umbra"], of_acme, "unknown"),
        (["acme"], of_all, "unknown"),
        (["acme", "umbra"], of_acme, "done"),
        (None, of_all, "done"),
    ):
        assert result == await approve_operation(
            ledger.connection, number, reason="INC-1", actor_no=checker_no, tenants=tenants
        )


async def test_an_operation_that_waits_for_a_second_person_is_paused_and_aborted(
    ledger: Ledger, maker_no: int, checker_no: int
) -> None:
    connection = ledger.connection
    parked = await fail(ledger)
    await ask_above(ledger, 0)
    number = await ask(ledger, REDRIVE, maker_no)
    assert await pause_operation(connection, number, reason="INC-1", actor_no=maker_no)
    assert (
        await approve_operation(connection, number, reason="INC-2", actor_no=checker_no) == "done"
    )
    assert await advance_operation(connection, number) is None
    assert await resume_operation(connection, number)
    assert (await finish(connection, number))[-1].done == 1
    assert await states(ledger, parked) == [State.SCHEDULED]

    await fail(ledger)
    number = await ask(ledger, REDRIVE, maker_no)
    assert await abort_operation(connection, number, reason="no", actor_no=maker_no)
    assert (
        await approve_operation(connection, number, reason="INC-2", actor_no=checker_no) == "ended"
    )
    assert await advance_operation(connection, number) is None
    shown = await show_operation(connection, number)
    assert shown is not None
    assert (shown["status"], shown["awaits_approval"]) == ("aborted", False)


@pytest.mark.parametrize(("above", "asking"), [(None, 0), (2, 0), (1, 2), (0, 2)])
async def test_the_policy_of_the_kind_says_from_how_many_items_on_a_second_person_is_asked(
    ledger: Ledger, maker_no: int, above: int | None, asking: int
) -> None:
    await fail(ledger, count=2)
    await ask_above(ledger, 0, "another")
    await ask_above(ledger, above)
    wanted = ItemFilter(kind=ledger.kind)
    seen = await preview_operation(ledger.connection, REDRIVE, wanted)
    assert (seen.approval_above, seen.needs_approval) == (above, asking > 0)
    numbers = [await ask(ledger, REDRIVE, maker_no, tenant=each) for each in (None, "acme")]
    assert sum([await needs_approval(ledger, each) for each in numbers]) == asking


async def test_of_several_kinds_the_strictest_policy_of_those_that_match_asks(
    ledger: Ledger, maker_no: int
) -> None:
    await ledger.emit(2)
    await ledger.emit(1, kind="stricter")
    await ledger.emit(1, kind="other-lane", lane="eu")
    await ask_above(ledger, 10)
    await ask_above(ledger, 0, "never-emitted")
    await ask_above(ledger, 0, "other-lane")
    found: list[bool] = []
    for strict in (3, 2):
        await ask_above(ledger, strict, "stricter")
        number = await record_operation(
            ledger.connection,
            CANCEL,
            ItemFilter("acme", lane=""),
            reason="test",
            actor_no=maker_no,
        )
        assert number is not None
        found.append(await needs_approval(ledger, number))
    assert found == [False, True]


@pytest.mark.parametrize("limit", ["COUNTED_MAX", "COUNT_EXAMINED_MAX"])
async def test_where_more_may_match_than_were_counted_each_policy_asks(
    ledger: Ledger, maker_no: int, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    await fail(ledger, count=3)
    monkeypatch.setattr(f"dueledger.ledger.store.operations.{limit}", 2)
    assert not await needs_approval(ledger, await ask(ledger, REDRIVE, maker_no))
    await ask_above(ledger, 10_000, "another")
    assert not await needs_approval(ledger, await ask(ledger, REDRIVE, maker_no))
    of_all = await record_operation(
        ledger.connection, REDRIVE, ItemFilter("acme"), reason="test", actor_no=maker_no
    )
    assert of_all is not None
    assert await needs_approval(ledger, of_all)
    await ledger.emit(3, tenant="umbra")
    of_other = await record_operation(
        ledger.connection, CANCEL, ItemFilter("umbra"), reason="test", actor_no=maker_no
    )
    assert of_other is not None
    assert not await needs_approval(ledger, of_other)
    await ask_above(ledger, 10_000)
    assert await needs_approval(ledger, await ask(ledger, REDRIVE, maker_no))


async def test_those_that_await_approval_are_listed_alone_newest_first_by_tenant_and_kind(
    ledger: Ledger, maker_no: int
) -> None:
    await fail(ledger)
    plain = await ask(ledger, REDRIVE, maker_no, tenant="acme")
    await ask_above(ledger, 0)
    numbers = [
        await ask(ledger, REDRIVE, maker_no, tenant="acme"),
        await ask(ledger, REDRIVE, maker_no, tenant="acme"),
        await ask(ledger, REDRIVE, maker_no),
    ]

    async def listed(connection: Connection = ledger.connection, **terms: object) -> list[int]:
        rows = await list_operations(
            connection,
            10,
            awaits_approval=True,
            **terms,  # pyright: ignore[reportArgumentType]
        )
        return [row["operation_no"] for row in rows]

    newest = numbers[::-1]
    assert await listed() == newest
    assert await listed(after_no=numbers[2]) == newest[1:]
    assert await listed(tenants=["acme"]) == newest[1:]
    assert await listed(tenants=["acme"], after_no=numbers[1]) == newest[2:]
    assert await listed(tenants=["umbra"]) == await listed(tenant="umbra") == []
    assert await listed(tenant="acme", kind=ledger.kind) == newest[1:]
    assert await listed(kind="another") == await listed(tenant="acme", kind="another") == []
    everything = await list_operations(ledger.connection, 10)
    assert [row["operation_no"] for row in everything] == [*newest, plain]


async def test_a_preview_that_counts_some_items_names_the_policies_of_all_that_its_filter_reaches(
    ledger: Ledger,
) -> None:
    await fail(ledger, count=2)
    await ask_above(ledger, 5)
    await ask_above(ledger, 3, "another")
    for wanted, above in (
        (ItemFilter(kind=ledger.kind), 5),
        (ItemFilter(tenant="acme"), 3),
        (ItemFilter(tenant="acme", kind="unknown"), None),
    ):
        seen = await preview_operation(ledger.connection, REDRIVE, wanted, examined_max=1)
        assert seen.capped == (above is not None)
        assert (seen.approval_above, seen.needs_approval) == (above, seen.capped)
