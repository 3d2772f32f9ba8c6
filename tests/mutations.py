"""Run the tests against mutants of the SQL that moves items: `make test-mutations`.

A pytest plugin. `--reach` runs the tests and records which statements each sends; it is kept until
the test's file changes. Without it, pytest collects mutants in place of tests: a mutant passes if a
test fails. All mutants of a process run in one session, on servers that stay up. A statement's
mutant replaces its text as it is sent; a function's is created in the templates that databases are
copied from. A mutant runs the tests that reach it until one fails: first those that killed others
of its file, then those that cite it, the narrow and fast ones first. Child processes send
statements unchanged.
"""

import asyncio
import functools
import hashlib
import inspect
import json
import random
import re
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

import asyncpg
import pytest
from _pytest.runner import runtestprotocol  # as plugins do that repeat tests

from dueledger.ledger.store.statements import statement_paths
from tests.databases import DatabasePool
from tools.sql_mutants import NAMED, SQL, Mutant, mutants, reached_by, targets

ROOT: Final = Path(__file__).resolve().parents[1]
REACH_FILE: Final = ROOT / ".tools" / "mutations_reach.jsonl"
SURVIVORS_FILE: Final = ROOT / ".tools" / "mutants_survived.txt"
"""Of the run that goes on or was the last, one a line, as each is found."""
EQUIVALENT_FILE: Final = ROOT / "tests" / "equivalent_mutants.txt"
HANG_SECONDS: Final = 20
"""What a test may take longer than it took before. No test waits for as long as that."""
KILLERS_MAX: Final = 5
"""How many tests run first because they killed others of the file."""

_INVALID: Final = (asyncpg.PostgresSyntaxError, asyncpg.SyntaxOrAccessError)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a test took, and which statements it sent."""

    seconds: float
    statements: frozenset[str]


@dataclass
class Sent:
    """What the sessions send in place of the statements, and what they sent."""

    mutant: Mutant | None = None
    names: dict[str, str] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    altered: dict[DatabasePool, Mutant] = field(default_factory=dict)
    """The functions' mutants that are in the templates."""

    def text(self, query: str) -> str:
        """Return what to send for `query`."""
        if name := self.names.get(query):
            self.seen.add(name)
        else:  # SQL of the test's own, or of a client
            self.seen.update(self.functions.intersection(NAMED.findall(query)))
        if self.mutant is not None and query == self.mutant.source:
            return self.mutant.text
        return query

    async def alter(self, pool: DatabasePool) -> None:
        """Create the mutant in the pool's template, if it is a function's, in place of another."""
        before = self.altered.get(pool)
        after = self.mutant if self.mutant is not None and self.mutant.is_function else None
        if before is after:
            return
        texts = [after.text] if after else []
        if before is not None and (after is None or after.source != before.source):
            texts.insert(0, before.source)
        await pool.alter(";\n".join(texts))
        if after is None:
            del self.altered[pool]
        else:
            self.altered[pool] = after


SENT: Final = Sent()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutations")
    group.addoption("--reach", action="store_true", help="record what tests reach, where not kept")
    group.addoption("--mutate", default="", help="files of SQL, as `runs/*,functions/emit_items`")
    group.addoption("--mutants", type=int, help="run that many, drawn by --mutants-seed")
    group.addoption("--mutants-seed", type=int, default=0)
    group.addoption("--mutant-seconds", type=float, default=60, help="time for one mutant's tests")


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.reach and not hasattr(config, "workerinput"):
        SURVIVORS_FILE.unlink(missing_ok=True)
    SENT.names.update({path.read_text(encoding="utf-8"): path.stem for path in statement_paths()})
    SENT.functions.update(path.stem for path in (SQL / "schema" / "functions").rglob("*.sql"))
    driver: Any = asyncpg.Connection
    send, simple = driver._get_statement, driver.execute

    async def get_statement(self: Any, query: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - asyncpg's own
        return await send(self, SENT.text(query), *args, **options)

    async def execute(self: Any, query: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return await simple(self, query if args else SENT.text(query), *args, **options)

    driver._get_statement, driver.execute = get_statement, execute
    pools: Any = DatabasePool
    lease = pools.lease

    @asynccontextmanager
    async def lease_altered(self: DatabasePool, *, damaged: bool = False) -> AsyncGenerator[str]:
        await SENT.alter(self)
        async with lease(self, damaged=damaged) as dsn:
            yield dsn

    pools.lease = lease_altered


@pytest.hookimpl(trylast=True)  # after those that are not asked for were left out
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    reach = read_reach(items)
    if config.option.reach:
        items[:] = [item for item in items if item.nodeid not in reach]
        return
    judge = Judge(session, items, reach)
    item: Any = MutantItem  # pytest's own parameters have no types
    items[:] = [
        item.from_parent(
            session,
            name=mutant.label,
            nodeid=f"{mutant.target}::{mutant.label}",
            mutant=mutant,
            judge=judge,
        )
        for mutant in choose(config)
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if isinstance(item, MutantItem):
        for report in item.reports(nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
    else:
        _record(item)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def choose(config: pytest.Config) -> list[Mutant]:
    """Return the mutants that the options ask for."""
    patterns = config.option.mutate.split(",") if config.option.mutate else ["*"]
    chosen = [
        mutant
        for target, path in targets().items()
        if any(matches(pattern.strip(), target) for pattern in patterns)
        for mutant in mutants(target, path)
    ]
    if (count := config.option.mutants) is not None:
        drawn = random.Random(config.option.mutants_seed).sample(chosen, min(count, len(chosen)))  # noqa: S311 - no secret
        chosen = [mutant for mutant in chosen if mutant in drawn]
    return chosen


class MutantItem(pytest.Item):
    """A mutant as a test."""

    def __init__(self, *, mutant: Mutant, judge: "Judge", **options: Any) -> None:  # noqa: ANN401 - pytest's own
        node: Any = super()
        node.__init__(**options)
        self.mutant = mutant
        self._judge = judge

    def runtest(self) -> None:
        raise NotImplementedError

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return SQL, None, self.nodeid

    def reports(self, following: pytest.Item | None) -> Generator[pytest.TestReport]:
        """Run the mutant; after the last one of its file, also the tests that killed others."""
        began = monotonic()
        result, text = self._judge.run(self.mutant)
        if result == "failed":
            with SURVIVORS_FILE.open("a", encoding="utf-8") as file:
                file.write(f"{self.mutant.target}::{self.mutant.label}: {text}\n")
        yield self._report("call", result, text, monotonic() - began)
        if isinstance(following, MutantItem) and following.mutant.target == self.mutant.target:
            return
        began = monotonic()
        for nodeid in self._judge.failing_killers():
            text = f"fails without a mutant: {nodeid}"
            yield self._report("teardown", "failed", text, monotonic() - began)

    def _report(
        self,
        when: Literal["call", "teardown"],
        result: Literal["passed", "failed", "skipped"],
        text: str,
        seconds: float,
    ) -> pytest.TestReport:
        says: Any = {"passed": None, "failed": text, "skipped": (EQUIVALENT_FILE.name, 0, text)}
        noted = [("mutant", text)]  # for --junitxml
        return pytest.TestReport(
            self.nodeid,
            self.location,
            {},
            result,
            says[result],
            when,
            duration=seconds,
            user_properties=noted,
        )


class Judge:
    """Runs the tests against mutants."""

    def __init__(
        self, session: pytest.Session, items: Sequence[pytest.Item], reach: dict[str, Reach]
    ) -> None:
        self._seconds: float = session.config.option.mutant_seconds
        self._items = {item.nodeid: item for item in items}
        self._reach = {nodeid: seen for nodeid, seen in reach.items() if seen.statements}
        self._next = _nothing(session)
        state: Any = session
        self._fixtures = state._setupstate
        self._equivalents = read_equivalents()
        self._target = ""
        self._killers: list[str] = []
        for nodeid, seen in self._reach.items():
            _bound(self._items[nodeid], seen.seconds + HANG_SECONDS)

    def run(self, mutant: Mutant) -> tuple[Literal["passed", "failed", "skipped"], str]:
        """Return how it ended as a test: passed if killed, skipped if equivalent or invalid."""
        for pattern, reason in self._equivalents.items():
            if matches(pattern, mutant.name):
                return "skipped", f"equivalent: {reason}"
        if self._target != mutant.target:
            self._target = mutant.target
            self._killers.clear()
        tests = self._order(mutant)
        SENT.mutant = mutant
        try:
            count, killer, text = self._first_failure(tests)
            try:
                self._fixtures.teardown_exact(self._next)
            except Exception as error:  # noqa: BLE001 - a fixture's end checks its database
                killer, text = killer or tests[count - 1].nodeid, text or repr(error)
        finally:
            SENT.mutant = None
        if killer is None:
            return "failed", f"survived {count} of {len(tests)} tests that reach it"
        self._killers = [killer, *(other for other in self._killers if other != killer)]
        del self._killers[KILLERS_MAX:]
        if any(error.__name__ in text for error in _every(_INVALID)):
            return "skipped", "invalid"
        return "passed", f"killed by test {count}: {killer}: {text.splitlines()[-1:]}"

    def failing_killers(self) -> Generator[str]:
        """Yield the tests that fail, but not because of a mutant."""
        for nodeid in self._killers:
            if any(report.failed for report in self._run(self._items[nodeid], self._next)):
                yield nodeid

    def _order(self, mutant: Mutant) -> list[pytest.Item]:
        target, names = mutant.target.rpartition("/")[2], reached_by(mutant.target)
        costs = {
            nodeid: self._cost(nodeid, target, names)
            for nodeid, reach in self._reach.items()
            if reach.statements & names
        }
        first = [nodeid for nodeid in self._killers if nodeid in costs]
        rest = sorted(costs.keys() - set(first), key=costs.__getitem__)
        files = {self._items[nodeid].path: place for place, nodeid in reversed([*enumerate(rest)])}
        # Files with the path of the statement come first: half of all have the word emit. Of the
        # others, those of a file that cost about as much run together, because of its fixtures.
        far = {path: f"{mutant.target}.sql" not in _text(path) for path in files}
        rest.sort(
            key=lambda n: (
                far[self._items[n].path],
                round(log(costs[n], 8)),
                files[self._items[n].path],
            )
        )
        return [self._items[nodeid] for nodeid in (*first, *rest)]

    def _first_failure(self, items: Sequence[pytest.Item]) -> tuple[int, str | None, str]:
        """Run tests for a limited time until one fails: how many ran, that one, what it says."""
        end, count = monotonic() + self._seconds, 0
        for item, following in zip(items, [*items[1:], self._next], strict=True):
            failed = [report for report in self._run(item, following) if report.failed]
            count += 1
            if failed:
                return count, item.nodeid, " ".join(report.longreprtext for report in failed)
            if monotonic() > end:
                break
        return count, None, ""

    def _cost(self, nodeid: str, target: str, names: set[str]) -> float:
        """Return a test's time by its share of what is rarely sent; much less if it is cited.

        Less still if the target itself is: nearly every test reaches the function of a trigger.
        """
        rarity = {name: self._rarity(name) for name in self._reach[nodeid].statements}
        own = sum(value for name, value in rarity.items() if name in names)
        text = _text(self._items[nodeid].path)
        cited = 400 if target in text else 20 if any(name in text for name in names) else 1
        seconds = max(self._reach[nodeid].seconds, 0.001)
        return seconds * sum(rarity.values()) / own / cited

    @functools.cache  # noqa: B019 - there is one judge
    def _rarity(self, name: str) -> float:
        reaching = sum(name in reach.statements for reach in self._reach.values())
        return log(1 + len(self._reach) / reaching)

    def _run(self, item: pytest.Item, following: pytest.Item) -> Sequence[pytest.TestReport]:
        """Run a test, and end the fixtures that the following one does not need."""
        with _interrupted(4 * HANG_SECONDS):
            return runtestprotocol(item, log=False, nextitem=following)


def _record(item: pytest.Item) -> None:
    """Run a test; if it passes, keep what it reaches."""
    SENT.seen.clear()
    reports = runtestprotocol(item, nextitem=_nothing(item.session))  # with its file's fixtures
    if all(report.passed for report in reports):
        record = {
            "test": item.nodeid,
            "digest": _digest(item.path),
            # Without its fixtures: what the first test of a process makes, the others share.
            "seconds": round(sum(each.duration for each in reports if each.when == "call"), 3),
            "statements": sorted(SENT.seen),
        }
        with REACH_FILE.open("a", encoding="utf-8") as file:  # several processes add lines
            file.write(json.dumps(record) + "\n")


def read_reach(items: Sequence[pytest.Item]) -> dict[str, Reach]:
    """Return what is kept of the tests whose files have not changed."""
    if not REACH_FILE.exists():
        return {}
    records = map(json.loads, REACH_FILE.read_text(encoding="utf-8").splitlines())
    kept = {(record["test"], record["digest"]): record for record in records}
    return {
        item.nodeid: Reach(record["seconds"], frozenset(record["statements"]))
        for item in items
        if (record := kept.get((item.nodeid, _digest(item.path))))
    }


@functools.cache
def _digest(path: Path) -> str:
    """Return the digest of a test's file, and of this one: what it records may change."""
    return hashlib.sha256(path.read_bytes() + Path(__file__).read_bytes()).hexdigest()


class _Nothing(pytest.Item):
    """What runs after each test, as far as fixtures know: all but the session's end."""

    def runtest(self) -> None:
        raise NotImplementedError


def _nothing(session: pytest.Session) -> pytest.Item:
    nothing: Any = _Nothing
    return nothing.from_parent(session, name="nothing")


def read_equivalents() -> dict[str, str]:
    """Return the patterns of mutants that change nothing, each with the reason below it."""
    equivalents: dict[str, str] = {}
    pattern = ""
    for line in EQUIVALENT_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            equivalents[pattern] = f"{equivalents[pattern]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            pattern = line
            equivalents[pattern] = ""
    assert all(equivalents.values()), "a pattern without a reason"
    return equivalents


@functools.cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern with `*` is the whole name."""
    return _expression(pattern).fullmatch(name) is not None


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _every(errors: Sequence[type[Exception]]) -> set[type[Exception]]:
    return set(errors) | {below for error in errors for below in _every(error.__subclasses__())}


def _bound(item: pytest.Item, seconds: float) -> None:
    """Let a test that a mutant makes wait for ever fail."""
    if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return
    test: Callable[..., Coroutine[Any, Any, None]] = item.obj

    @functools.wraps(test)
    async def bounded(**arguments: object) -> None:
        async with asyncio.timeout(seconds):
            await test(**arguments)

    item.obj = bounded


@contextmanager
def _interrupted(seconds: int) -> Generator[None]:
    """Raise TimeoutError in what blocks the event loop."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
