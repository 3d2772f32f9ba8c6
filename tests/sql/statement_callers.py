"""Which statements each role's code may run: read from the source, from its entry points on.

A definition of a module reaches what it names. So a class is reached as a whole, and an import
alone reaches nothing.
"""

import ast
import gc
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from dueledger.console.app import PAGES
from dueledger.ledger.store.statements import statement_paths
from dueledger.service.app import ROUTES
from dueledger.service.calls import ApiCall
from dueledger.service.scoped_routes import CallRoute

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("allocator", "ledger", "reconciler", "workers")
STATEMENTS: Final = frozenset(path.stem for path in statement_paths())
RUNNERS: Final = frozenset({"statement", "fetch_counted"})
CLI: Final = "dueledger.cli."


class Definition(NamedTuple):
    """A function, class or constant of a module."""

    module: str
    name: str


PROCESSES: Final = {
    "alerter": ("dueledger.alerts.process",),
    "allocator": ("dueledger.allocator.process",),
    "emitter": ("dueledger.emission",),
    "intake": ("dueledger.ledger.intake.process",),
    "materialiser": ("dueledger.ledger.materialise.process",),
    "outcome_intake": ("dueledger.workers.outcomes.process",),
    "pull_worker": ("dueledger.workers.pull.claims",),
    "reconciler": ("dueledger.reconciler.process",),
    "relay": ("dueledger.ledger.outbox.process",),
    "service": (
        *("dueledger.service.process", "dueledger.console.activity", "dueledger.console.forms"),
        *("dueledger.console.overview", "dueledger.console.pages.sign_in"),
        "dueledger.console.sessions",
    ),
    "upkeep": ("dueledger.ledger.upkeep", "dueledger.ledger.item_check", "dueledger.ledger.gauges"),
    "worker": ("dueledger.workers.process", "dueledger.workers.http.process"),
}
"""The modules in which each role's work begins. Allocators and direct workers do upkeep, too."""

PROBES: Final = "dueledger.cli.health"
"""What asks, under the login of a process, whether it lives: a command of no person."""
OTHERS: Final = frozenset(PROCESSES["upkeep"] + PROCESSES["pull_worker"])
"""Modules that a process enters under another role than its own, or for a login that has both."""

READERS: Final = ("dueledger.reconciler.read_only",)
"""What an auditor runs that is no command of an operator."""

DIRECT: Final = "dueledger.workers.direct"
"""Direct workers claim as allocators do: their login has the roles of both, and of upkeep."""

PROCESS_COMMANDS: Final = frozenset(
    {"api_keys", "health", "processes", "reconciliation", "repairs.run_repairs", "roles", "setup"}
)
"""Commands that run a process, make a ledger or grant roles; all others are people's."""

APPROVER_COMMANDS: Final = frozenset(
    {
        *("findings.accept", "findings.comment", "findings.explain", "findings.return_"),
        *("findings.take", "operations.approve", "repairs.approve"),
    }
)
"""Commands of approvers; all other commands of people are an operator's."""

OWNER_COMMANDS: Final = ("dueledger.cli.api_keys", "dueledger.cli.roles")
"""Commands that need the rights to grant roles or to make keys. No role has them."""

NOT_COMMANDS: Final = (Definition("dueledger.doctor", "run_checks"),)
"""Reached by `setup`, and run by operators and auditors."""

NOT_BUILT: Final = {
    "auditor": {"read_progress"},
}
"""Statements of roles whose commands are not built yet."""


@cache
def statements_by_role() -> dict[str, frozenset[str]]:
    """Return the statements that each role's code reaches."""
    found = {
        role: set(_reached(_all(starts), OTHERS - frozenset(starts)))
        for role, starts in PROCESSES.items()
    }
    probed = _reached(_all([PROBES]))
    found["service"] -= {"record_audit"}  # `CallRoute` runs it under the role of the route
    for role in PROCESSES.keys() - {"emitter", "pull_worker", "upkeep"}:  # the others have a row
        found[role] |= probed
    direct = _reached(_all(_modules_below(DIRECT)), frozenset(PROCESSES["upkeep"]), direct=True)
    found["allocator"] |= direct - found["worker"]
    found["owner"] = set(_reached(_all(OWNER_COMMANDS))) - {"register_actor"}  # has no role
    commands = [_reached([start]) for start in _commands(PROCESS_COMMANDS | APPROVER_COMMANDS)]
    found["operator"] = set[str]().union(*commands)
    found["auditor"] = set[str]().union(
        *(reached for reached in commands if "register_actor" not in reached)
    )
    found["auditor"] |= NOT_BUILT["auditor"] | _reached(_all(READERS))
    found["approver"] = set[str]().union(
        *(
            _reached([start])
            for start in _commands(PROCESS_COMMANDS)
            if _short(start) in APPROVER_COMMANDS
        )
    )
    for route, statements in statements_of_routes():
        found.setdefault(route.role, set()).update(statements)
    return {role: frozenset(statements) for role, statements in found.items()}


def statements_of_commands() -> dict[str, frozenset[str]]:
    """Return the statements that each command reaches, by its module and name."""
    return {_short(command): _reached([command]) for command in _commands(frozenset())}


def statements_of_routes() -> Iterator[tuple[CallRoute, frozenset[str]]]:
    """Yield each route that needs a key, and the statements that its function reaches.

    What is run before, to check the key, is the service's own. `CallRoute` audits under the role of
    the route.
    """
    calls = frozenset({CallRoute.__module__, ApiCall.__module__})
    for route in (*ROUTES, *PAGES):
        if isinstance(route, CallRoute):
            function = route.endpoint
            start = Definition(function.__module__, function.__name__)
            audited = {"record_audit"} if route.is_audited else set[str]()
            yield route, _reached([start], calls) | audited


class _Module:
    """The definitions of a module, and where the names that it imports come from."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.imported: dict[str, tuple[str, str]] = {}
        self.defined: dict[str, ast.stmt] = {}
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module)):
                    for alias in node.names:
                        self.imported[alias.asname or alias.name] = (module, alias.name)
                case _:
                    pass
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.defined[name] = statement
                case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                    self.defined[name] = statement
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.defined[name] = statement
                case _:
                    pass

    def meanings(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the module and the name that an imported name means."""
        if name in self.imported:
            yield self.imported[name]


@cache
def _modules() -> dict[str, _Module]:
    """Parse all modules; the garbage collector would take twice as long as the parser."""
    paths = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    gc.disable()
    try:
        modules = {f"dueledger.{_dotted(path)}": _Module(path) for path in paths}
        return modules | {
            _dotted(path): _Module(path) for path in (ROOT / "dueledger").rglob("*.py")
        }
    finally:
        gc.freeze()
        gc.enable()


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _modules_below(package: str) -> list[str]:
    return [name for name in _modules() if name.startswith(package)]


def _all(names: Iterable[str]) -> list[Definition]:
    return [Definition(name, each) for name in names for each in _modules()[name].defined]


def _commands(left_out: frozenset[str]) -> Iterator[Definition]:
    yield from NOT_COMMANDS
    for module in _modules_below(CLI):
        short = module.removeprefix(CLI)
        for name, node in _modules()[module].defined.items():
            is_public = isinstance(node, ast.FunctionDef) and not name.startswith("_")
            if is_public and not {short, f"{short}.{name}"} & left_out:
                yield Definition(module, name)


def _short(command: Definition) -> str:
    return f"{command.module.removeprefix(CLI)}.{command.name}"


def _reached(
    starts: Iterable[Definition], excluded: frozenset[str] = frozenset(), *, direct: bool = False
) -> frozenset[str]:
    """Return the statements reached without entering excluded modules, or direct mode."""
    seen: set[Definition] = set()
    waiting = list(starts)
    statements: set[str] = set()
    while waiting:
        definition = waiting.pop()
        is_direct = definition.module.startswith(DIRECT)
        if definition in seen or definition.module in excluded or (is_direct and not direct):
            continue
        seen.add(definition)
        run, named = _read_definition(definition)
        statements |= run
        waiting.extend(named)
    return frozenset(statements)


@cache
def _read_definition(definition: Definition) -> tuple[frozenset[str], frozenset[Definition]]:
    """Return the statements that a definition runs and the definitions that it names."""
    module = _modules()[definition.module]
    statements: set[str] = set()
    named: set[Definition] = set()
    for node in ast.walk(module.defined[definition.name]):
        match node:
            case ast.Call(func=ast.Name(id=runner), args=arguments) if runner in RUNNERS:
                given = {each.value for each in arguments if isinstance(each, ast.Constant)}
                statements |= {str(each) for each in given & STATEMENTS}
            case ast.Name(id=name):
                named.update(_definitions(definition.module, name))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                for source, original in module.meanings(name):
                    named.update(_definitions(f"{source}.{original}", attribute))
            case _:
                pass
    return frozenset(statements), frozenset(named)


def _definitions(module: str, name: str) -> Iterator[Definition]:
    """Yield what a name may mean in a module: its definition, and an import of the same name."""
    if module not in _modules():
        return
    if name in _modules()[module].defined:
        yield Definition(module, name)
    for source, original in _modules()[module].meanings(name):
        if source != module:
            yield from _definitions(source, original)
