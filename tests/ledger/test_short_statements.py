"""The short statements of start and settlement write what the long ones would, or nothing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from dueledger.ledger.errors import InvalidItem
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import runs
from dueledger.ledger.store.clock import set_clock, set_machine_clock
from dueledger.ledger.store.runs import Outcome, RunIsolation, Settlement, settle_runs, start_runs
from dueledger.ledger.store.statements import name_of, statement
from tests.claim_ids import claim_ids, run_ids

from .conftest import Ledger
from .row_copies import read_rows

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
TABLES: Final = (
    "claim", "run", "transition", "pending", "review", "withdrawal", "held_key", "following",
    "partition_backoff", "flow_outcome", "failure_streak", "rejected_write",
)  # fmt: skip
HELD: Final = (
    "insert into ledger.held_key select 42, item_no[1], effective_date[1], 1, ledger.now()"
    " from ledger.claim order by fence limit 1"
)
WAITING: Final = (
    "update ledger.pending set serial = 42, serial_due_at = ledger.now(), overlap = 1,"
    " available_at = 'infinity'"
)
CIRCUIT: Final = "update ledger.flow set circuit_failure_ratio = 0.5"
LIMITED: Final = "update ledger.run set flow_no = (select min(flow_no) from ledger.flow)"
LIMITED_CLAIM: Final = (
    "update ledger.claim set flow_no = (select min(flow_no) from ledger.flow), run_seconds = 20"
)
LAST_WITHDRAWN: Final = (
    "insert into ledger.withdrawal"
    " select item_no[2], effective_date[2], 11, 'test', null, 1, ledger.now()"
    " from ledger.claim order by fence desc limit 1"
)
THIRDS_WITHDRAWN: Final = (
    "insert into ledger.withdrawal"
    " select item_no[3], effective_date[3], 11, 'test', null, 1, ledger.now() from ledger.claim"
)
FIRSTS_WITHDRAWN: Final = THIRDS_WITHDRAWN.replace("[3]", "[1]")
OF_TWO: Final = (
    "update ledger.claim set size = 2, item_no = item_no[:2], starts = starts[:2],"
    " effective_date = effective_date[:2], attempt = attempt[:2]"
)
BACKOFF: Final = "insert into ledger.partition_backoff values ('due.Test', 0, 1, now())"
BACKOFFS_OF_OTHERS: Final = (
    "insert into ledger.partition_backoff"
    " values ('due.Test', 1, 1, now()), ('due.Other', 0, 1, now())"
)
FIRST_CLOSED: Final = (
    "update ledger.claim set closed_at = now() where fence = (select min(fence) from ledger.claim)"
)
FIRST_RUN_CLOSED: Final = (
    "update ledger.run set closed_at = now() where run_no = (select min(run_no) from ledger.run)"
)
FIRST_RUN_SETTLED: Final = (
    "update ledger.run set ended = b'11' where run_no = (select min(run_no) from ledger.run)"
)
STARTED: Final = (
    "update ledger.claim set started = 1 where fence = (select min(fence) from ledger.claim)"
)
ATTEMPTS: Final = "update ledger.claim set attempt = '{1, 2, 3}'"
ONLY_BIT_SET: Final = "update ledger.run set ended = b'1'"
FIRST_BIT_SET: Final = (
    "update ledger.run set ended = b'10' where run_no = (select min(run_no) from ledger.run)"
)
COMPLETED: Final = Outcome(TransitionEvent.COMPLETED)
EVIDENCE: Final = Outcome(TransitionEvent.COMPLETED, '{"reference": "A-1"}')
BOTH: Final = (COMPLETED, COMPLETED)
ONE: Final = ((EVIDENCE,),)


@dataclass(frozen=True, slots=True)
class Start:
    """A start of two of three items in each of two claims, after `before`.

    It begins at the item `first`; those before it were started.
    """

    before: tuple[str, ...] = ()
    is_short: bool = True
    first: int = 1
    ends: tuple[int, int] = (2, 2)
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Settle:
    """A settlement of a run for each of `outcomes`, from the item `first` on, after `before`."""

    before: tuple[str, ...] = ()
    is_short: bool = True
    first: int = 1
    actor_no: int | None = None
    outcomes: tuple[Sequence[Outcome | None], ...] = (BOTH, BOTH)


STARTS: Final[dict[str, Start]] = {
    "plain": Start(),
    "a-run-an-item": Start(options={"run_items_max": [1, 2]}),
    "isolated": Start(options={"isolations": [RunIsolation.SLOT, RunIsolation.PROCESS]}),
    "all-of-the-claims": Start((OF_TWO,)),
    "from-the-second": Start(first=2, ends=(2, 3)),
    "from-the-second-a-run-an-item": Start(first=2, ends=(3, 3), options={"run_items_max": [1, 1]}),
    "from-what-was-started": Start((STARTED,), is_short=False),
    "beyond-the-end": Start(ends=(4, 2), is_short=False),
    "backwards": Start(first=3, ends=(1, 3), is_short=False),
    "limited": Start((LIMITED_CLAIM,)),
    "withdrawn": Start((LAST_WITHDRAWN,), is_short=False),
    "withdrawn-later": Start((THIRDS_WITHDRAWN,)),
    "withdrawn-before": Start((FIRSTS_WITHDRAWN,), first=2, ends=(3, 2)),
    "backoff": Start((BACKOFF,), is_short=False),
    "backoff-of-others": Start((BACKOFFS_OF_OTHERS,)),
    "one-is-closed": Start((FIRST_CLOSED,), is_short=False),
    "unknown": Start(("delete from ledger.claim",), is_short=False),
}
SETTLEMENTS: Final[dict[str, Settle]] = {
    "plain": Settle(),
    "evidence": Settle(outcomes=((EVIDENCE, COMPLETED), BOTH)),
    "later-items-and-attempts": Settle(
        (ATTEMPTS,), first=2, outcomes=((EVIDENCE, COMPLETED), BOTH)
    ),
    "by-another-actor": Settle(actor_no=1),
    "some-go-on": Settle(outcomes=((None, EVIDENCE), (COMPLETED, None))),
    "the-last-of-a-run": Settle((FIRST_BIT_SET,), outcomes=((None, EVIDENCE), BOTH)),
    "limited": Settle((LIMITED,)),
    "circuit": Settle((LIMITED, CIRCUIT)),
    "circuit-in-part": Settle((LIMITED, CIRCUIT), outcomes=((COMPLETED, None), BOTH)),
    "circuit-of-unlimited-runs": Settle((CIRCUIT,)),
    "key": Settle((HELD, WAITING)),
    "one-failed": Settle(
        (LIMITED, CIRCUIT),
        outcomes=((COMPLETED, Outcome(TransitionEvent.FAILED, None, 5.0)), BOTH),
        is_short=False,
    ),
    "one-is-closed": Settle((FIRST_RUN_CLOSED,), is_short=False),
    "one-is-settled": Settle((LIMITED, CIRCUIT, FIRST_RUN_SETTLED), is_short=False),
    "another-workers": Settle(("update ledger.run set worker_no = 4711",), is_short=False),
    "one-item": Settle(outcomes=ONE),
    "one-later-item-of-another-attempt": Settle((ATTEMPTS,), first=3, outcomes=ONE),
    "one-item-by-another-actor": Settle(actor_no=1, outcomes=ONE),
    "one-item-without-evidence": Settle(outcomes=((COMPLETED,),)),
    "one-item-limited": Settle((LIMITED,), outcomes=ONE),
    "one-item-circuit": Settle((LIMITED, CIRCUIT), outcomes=ONE),
    "one-item-key": Settle((HELD, WAITING), outcomes=ONE),
    "one-item-closed": Settle((FIRST_RUN_CLOSED,), outcomes=ONE, is_short=False),
    "one-item-settled": Settle((ONLY_BIT_SET,), outcomes=ONE, is_short=False),
    "one-item-failed": Settle(
        outcomes=((Outcome(TransitionEvent.FAILED, None, 5.0),),), is_short=False
    ),
}


async def _number_from(ledger: Ledger, number: int) -> None:
    """Let what is written next have the numbers after this one."""
    await ledger.connection.execute(
        "select setval(format('%I.%I', schemaname, sequencename), $1) from pg_sequences"
        " where schemaname = 'ledger' and sequencename ~ '^(run_run|rejected_write|transition)'",
        number,
    )


async def _two_claims(ledger: Ledger) -> list[int]:
    """Claim three items twice, a second apart."""
    await _number_from(ledger, 1)
    fences: list[int] = []
    for seconds in range(2):
        at = NOON + timedelta(seconds=seconds)
        await set_clock(ledger.connection, at, 0)
        await set_machine_clock(ledger.connection, at, 0)
        await ledger.emit(3)
        fences.append((await ledger.claim()).fence)
    await ledger.emit()  # one waits
    return fences


async def _written(
    ledger: Ledger, act: Callable[[], Awaitable[Any]]
) -> tuple[Any, dict[str, list[tuple[Any, ...]]], set[str]]:
    """Act and undo it: return the answer, the rows, and which long statements were sent."""
    names: set[str] = set()
    transaction = ledger.connection.transaction()
    await transaction.start()
    await _number_from(ledger, 1000)
    with ledger.connection.query_logger(lambda query: names.add(name_of(query.query))):
        answer = await act()
    rows = {table: await read_rows(ledger, table) for table in TABLES}
    await transaction.rollback()
    return answer, rows, names & {"start_runs", "settle_runs"}


async def _check_both(
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[], Awaitable[Any]],
    *,
    is_short: bool,
) -> None:
    *written, long = await _written(ledger, act)
    assert bool(long) == (not is_short)

    def accepting_nothing(name: str) -> str:
        text = statement(name)
        if name not in {"start_plain_runs", "settle_completed_runs", "settle_completed_run"}:
            return text
        return text.replace("\n  where ", "\n  where false and ", 1)

    for module in ("dueledger.ledger.store.runs", "dueledger.ledger.store.counted"):
        monkeypatch.setattr(f"{module}.statement", accepting_nothing)
    *alone, long = await _written(ledger, act)
    assert long
    assert written == alone


async def _start_before(ledger: Ledger, fences: Sequence[int], first: int) -> None:
    for fence in fences if first > 1 else ():
        await ledger.start(fence, 1, first - 1)


@pytest.mark.parametrize("case", STARTS.values(), ids=STARTS.keys())
async def test_a_short_start_writes_what_the_long_one_does(
    undone_ledger: Ledger, monkeypatch: pytest.MonkeyPatch, case: Start
) -> None:
    ledger = undone_ledger
    fences = await _two_claims(ledger)
    await _start_before(ledger, fences, case.first)
    claims = await claim_ids(ledger.connection, fences)
    for query in case.before:
        await ledger.connection.execute(query)

    async def act() -> list[runs.StartResult]:
        return await start_runs(
            ledger.connection,
            claims,
            [case.first] * 2,
            case.ends,
            worker_no=ledger.worker_no,
            lease_seconds=60,
            **case.options,
        )

    await _check_both(ledger, monkeypatch, act, is_short=case.is_short)


@pytest.mark.parametrize("case", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())
async def test_a_short_settlement_writes_what_the_long_one_does(
    undone_ledger: Ledger, monkeypatch: pytest.MonkeyPatch, case: Settle
) -> None:
    ledger = undone_ledger
    fences = await _two_claims(ledger)
    await _start_before(ledger, fences, case.first)
    run_nos = [
        (await ledger.start(fence, case.first, case.first + len(outcomes) - 1)).run_no or 0
        for fence, outcomes in zip(fences, case.outcomes, strict=False)
    ]
    for query in case.before:
        await ledger.connection.execute(query)
    settlements = [
        Settlement(run, outcomes)
        for run, outcomes in zip(
            await run_ids(ledger.connection, run_nos), case.outcomes, strict=True
        )
    ]

    async def act() -> list[runs.RefusedSettlement]:
        return await settle_runs(
            ledger.connection, settlements, ledger.worker_no, actor_no=case.actor_no
        )

    await _check_both(ledger, monkeypatch, act, is_short=case.is_short)


async def test_each_item_has_its_own_evidence_and_text_that_is_no_json_is_refused(
    undone_ledger: Ledger,
) -> None:
    ledger = undone_ledger
    run_nos = [(await ledger.start(fence, 1, 2)).run_no or 0 for fence in await _two_claims(ledger)]
    first, last = (Outcome(TransitionEvent.COMPLETED, f'{{"n": {n}}}') for n in (1, 4))
    outcomes = ((first, COMPLETED), (COMPLETED, last))

    async def settle(*outcomes: Sequence[Outcome]) -> list[runs.RefusedSettlement]:
        ids = await run_ids(ledger.connection, run_nos)
        settlements = list(map(Settlement, ids, outcomes))
        return await settle_runs(ledger.connection, settlements, ledger.worker_no)

    torn = Outcome(TransitionEvent.COMPLETED, '{"n": "\x1f"}')
    with pytest.raises(InvalidItem, match="evidence"):
        await settle((first, torn), (COMPLETED, last))
    assert await settle(*outcomes) == []
    rows = await ledger.connection.fetch(
        "select detail ->> 'n' as n from ledger.transition order by run_no, item_no"
    )
    assert [row["n"] for row in rows] == ["1", None, None, "4"]
