"""Run the tests against mutants of the SQL that moves items: `make test-mutations`.

A pytest plugin. All mutants run in one session, on servers that stay up. A statement's mutant
replaces its text as it is sent; a function's is created in the templates that databases are copied
from. A mutant runs the tests that reach it until one fails: first those that killed others of its
file, then those that cite it, the narrow and fast ones first. Which test reaches which statement is
recorded once, and kept until the test's file changes. Child processes send statements unchanged.
"""

import asyncio
import functools
import hashlib
import inspect
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from time import monotonic
from typing import Any, Final

import asyncpg
import pytest
from _pytest.runner import runtestprotocol  # as plugins do that repeat tests

from dueledger.ledger.store.statements import statement_paths
from tests.databases import DatabasePool, Template
from tools.sql_mutants import Mutant, mutants, reached_by, targets

ROOT: Final = Path(__file__).resolve().parents[1]
REACH_FILE: Final = ROOT / ".tools" / "mutations_reach.json"
EQUIVALENT_FILE: Final = ROOT / "tests" / "equivalent_mutants.txt"
HANG_SECONDS: Final = 20
"""What a test may take longer than it took before. No test waits for as long as that."""
KILLERS_MAX: Final = 5
"""How many tests run first because they killed others of the file."""

_INVALID: Final = (asyncpg.PostgresSyntaxError, asyncpg.SyntaxOrAccessError)


@dataclass
class Reach:
    """What a test took, and which statements it sent."""

    seconds: float
    statements: set[str]


@dataclass
class Sent:
    """What the sessions send in place of the statements, and what they sent."""

    mutant: Mutant | None = None
    names: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def text(self, query: str) -> str:
        """Return what to send for `query`."""
        if name := self.names.get(query):
            self.seen.add(name)
        if self.mutant is not None and query == self.mutant.source:
            return self.mutant.text
        return query


SENT: Final = Sent()
POOLS: Final[list[DatabasePool]] = []
"""The databases of the session, by template."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutations")
    group.addoption("--mutate", default="", help="files of SQL, as `runs/*,functions/emit_items`")
    group.addoption("--mutants", type=int, help="run that many, drawn by --mutants-seed")
    group.addoption("--mutants-seed", type=int, default=0)
    group.addoption("--mutant-seconds", type=float, default=60, help="time for one mutant's tests")


def pytest_configure() -> None:
    SENT.names.update({path.read_text(encoding="utf-8"): path.stem for path in statement_paths()})
    driver: Any = asyncpg.Connection
    send, simple = driver._get_statement, driver.execute

    async def get_statement(self: Any, query: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - asyncpg's own
        return await send(self, SENT.text(query), *args, **options)

    async def execute(self: Any, query: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return await simple(self, query if args else SENT.text(query), *args, **options)

    driver._get_statement, driver.execute = get_statement, execute
    pools: Any = DatabasePool
    template: Any = Template
    began, read = pools.__init__, template.read.__func__

    def begin(self: DatabasePool, *args: Any) -> None:  # noqa: ANN401
        POOLS.append(self)
        began(self, *args)

    async def read_mutated(cls: type[Template], connection: Any, name: str) -> Template:  # noqa: ANN401
        if SENT.mutant is not None and SENT.mutant.is_function:
            await connection.execute(SENT.mutant.text)
        return await read(cls, connection, name)

    pools.__init__, template.read = begin, classmethod(read_mutated)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    if session.config.option.collectonly:
        return False
    return Run(session).run()


class Run:
    """One session: records what tests reach, then runs mutants."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._options = session.config.option
        self._items = {item.nodeid: item for item in session.items}
        # After it all fixtures but the session's end.
        nothing: Any = _Nothing
        self._next: pytest.Item = nothing.from_parent(session, name="nothing")
        state: Any = session
        self._fixtures = state._setupstate
        self._write = session.config.get_terminal_writer().line
        self._reach: dict[str, Reach] = {}
        self._killers: list[str] = []

    def run(self) -> bool:
        """Run all; fail the session where a mutant survives."""
        for item in self._items.values():
            _bound(item)
        self._record()
        equivalent = read_equivalents()
        used: set[str] = set()
        survivors: list[str] = []
        for target, chosen in self._choose().items():
            counts: Counter[str] = Counter()
            began = monotonic()
            self._killers.clear()
            for mutant in chosen:
                pattern = next((p for p in equivalent if matches(p, mutant.name)), None)
                if pattern is not None:
                    used.add(pattern)
                    counts["equivalent"] += 1
                    continue
                result = self._judge(mutant)
                counts[result] += 1
                if result == "survived":
                    survivors.append(mutant.name)
                    self._write(f"SURVIVED {mutant.name}")
            for nodeid in self._killers:  # what fails now has not failed because of a mutant
                if any(report.failed for report in self._run(self._items[nodeid], self._next)):
                    survivors.append(f"{target}: {nodeid} fails without a mutant")
                    self._write(survivors[-1])
            seconds = monotonic() - began
            results = ", ".join(f"{counts[key]} {key}" for key in sorted(counts))
            self._write(f"{target}: {len(chosen)} mutants: {results} ({seconds:.0f} s)")
        if not self._options.mutate and self._options.mutants is None:
            survivors += [f"no mutant is {pattern}" for pattern in set(equivalent) - used]
        self._session.testsfailed = len(survivors)
        self._write(f"{len(survivors)} survivors")
        return True

    def _choose(self) -> dict[str, list[Mutant]]:
        patterns = self._options.mutate.split(",") if self._options.mutate else ["*"]
        chosen = {
            target: mutants(target, path)
            for target, path in targets().items()
            if any(matches(pattern.strip(), target) for pattern in patterns)
        }
        if (count := self._options.mutants) is not None:
            every = [mutant for some in chosen.values() for mutant in some]
            drawn = random.Random(self._options.mutants_seed).sample(every, min(count, len(every)))  # noqa: S311 - no secret
            chosen = {t: [m for m in some if m in drawn] for t, some in chosen.items()}
        return {target: some for target, some in chosen.items() if some}

    def _judge(self, mutant: Mutant) -> str:
        """Return how it ended: killed, invalid, survived, or unreached by any test."""
        names = reached_by(mutant.target)
        reaching = {n: r for n, r in self._reach.items() if r.statements & names}
        first = [nodeid for nodeid in self._killers if nodeid in reaching]
        rest = sorted(reaching.keys() - set(first), key=lambda nodeid: self._cost(nodeid, names))
        files = {self._items[nodeid].path: place for place, nodeid in reversed([*enumerate(rest)])}
        rest.sort(key=lambda nodeid: files[self._items[nodeid].path])  # files have fixtures
        ordered = [self._items[nodeid] for nodeid in (*first, *rest)]
        with applied(mutant):
            failed = self._first_failure(ordered)
            self._fixtures.teardown_exact(self._next)
        if failed is None:
            return "survived" if reaching else "unreached"
        nodeid, texts = failed
        killers = [nodeid, *(killer for killer in self._killers if killer != nodeid)]
        self._killers = killers[:KILLERS_MAX]
        return "invalid" if any(error.__name__ in texts for error in _every(_INVALID)) else "killed"

    def _first_failure(self, items: Sequence[pytest.Item]) -> tuple[str, str] | None:
        """Run tests for a limited time until one fails; return it and what it says."""
        end = monotonic() + self._options.mutant_seconds
        for item, following in zip(items, [*items[1:], self._next], strict=True):
            failed = [report for report in self._run(item, following) if report.failed]
            if failed:
                return item.nodeid, " ".join(report.longreprtext for report in failed)
            if monotonic() > end:
                break
        return None

    def _cost(self, nodeid: str, names: set[str]) -> float:
        """Return a test's time by its share of what is rarely sent; much less if it is cited."""
        rarity = {name: self._rarity(name) for name in self._reach[nodeid].statements}
        own = sum(value for name, value in rarity.items() if name in names)
        cites = any(name in _text(self._items[nodeid].path) for name in names)
        return self._reach[nodeid].seconds * sum(rarity.values()) / own / (20 if cites else 1)

    @functools.cache  # noqa: B019 - there is one run
    def _rarity(self, name: str) -> float:
        reaching = sum(name in reach.statements for reach in self._reach.values())
        return log(1 + len(self._reach) / reaching)

    def _run(self, item: pytest.Item, following: pytest.Item) -> Sequence[pytest.TestReport]:
        """Run a test, and end the fixtures that the following one does not need."""
        with _interrupted(4 * HANG_SECONDS):
            return runtestprotocol(item, log=False, nextitem=following)

    def _record(self) -> None:
        """Run each test whose file changed, to see which statements it sends."""
        kept: dict[str, Any] = {}
        if REACH_FILE.exists():
            kept = json.loads(REACH_FILE.read_text(encoding="utf-8"))
        for nodeid, item in self._items.items():
            digest = hashlib.sha256(item.path.read_bytes()).hexdigest()
            if kept.get(nodeid, {}).get("digest") != digest:
                SENT.seen.clear()
                reports = self._run(item, self._next)
                if any(report.failed for report in reports):
                    self._write(f"fails without a mutant: {nodeid}")
                    continue
                took = sum(report.duration for report in reports if report.when == "call")
                seen = sorted(SENT.seen)
                kept[nodeid] = {"digest": digest, "seconds": round(took, 3), "statements": seen}
                REACH_FILE.write_text(json.dumps(kept), encoding="utf-8")
            if kept[nodeid]["statements"]:
                self._reach[nodeid] = Reach(
                    kept[nodeid]["seconds"], set(kept[nodeid]["statements"])
                )


class _Nothing(pytest.Item):
    """What runs after each test, as far as fixtures know."""

    def runtest(self) -> None:
        raise NotImplementedError


@contextmanager
def applied(mutant: Mutant) -> Generator[None]:
    """Let every session of the block use the mutant."""
    SENT.mutant = mutant
    if mutant.is_function:
        _alter_templates(mutant.text)
    try:
        yield
    finally:
        SENT.mutant = None
        if mutant.is_function:
            _alter_templates(mutant.source)


def _alter_templates(text: str) -> None:
    """Create a function anew in each template."""

    async def alter() -> None:
        for pool in POOLS:
            await pool.alter(text)

    with ThreadPoolExecutor(1) as thread:  # the tests' event loop is this thread's
        thread.submit(asyncio.run, alter()).result()


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


def _bound(item: pytest.Item) -> None:
    """Let a test that a mutant makes wait for ever fail."""
    if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return
    test: Callable[..., Coroutine[Any, Any, None]] = item.obj

    @functools.wraps(test)
    async def bounded(**arguments: object) -> None:
        async with asyncio.timeout(HANG_SECONDS):
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
