"""Hold the code to the rules of the house that no linter knows.

A module is named for the thing it holds, and imported under one name; states are declared once;
zones come from the pinned tz database; what a module keeps to itself it uses; no test sleeps.
What is logged is in the catalogue of log events, and all of the catalogue is logged.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dueledger.ledger.runtime.log import LogEvent  # noqa: E402 - found from the checkout
from dueledger.ledger.states import State  # noqa: E402 - found from the checkout, installed or not

LOGGING: Final = ("allocator", "dueledger", "ledger", "reconciler", "workers")
PACKAGES: Final = ("allocator", "bench", "dueledger", "ledger", "reconciler", "workers")
FOLDERS: Final = (*PACKAGES, "examples", "tests", "tools")
_LINKED: Final = frozenset(
    link.name for link in (ROOT / "dueledger").iterdir() if link.is_symlink()
)
"""The folders that are packages of `dueledger`. By their bare names they would be other modules."""
STATES_MODULE: Final = ROOT / "ledger" / "states.py"
ZONES_MODULE: Final = ROOT / "ledger" / "schedule" / "zones.py"
_LABELS: Final = frozenset(state.label for state in State)

_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception"})

# Names that say how code came to stand somewhere, not what it is.
_NAMELESS: Final = frozenset(
    {"base", "common", "data", "helper", "helpers", "info", "manager", "misc", "util", "utils"}
)
_NAMELESS_BEGINNINGS: Final = ("handle_", "process_")


def _nameless(path: Path) -> Iterator[str]:
    name = path.parent.name if path.stem == "__init__" else path.stem
    if name in _NAMELESS or name.startswith(_NAMELESS_BEGINNINGS):
        yield f"{path.relative_to(ROOT)}: name the module for the thing it holds"


def _exported(tree: ast.Module) -> set[ast.AST]:
    names: set[ast.AST] = set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
                names.update(elements)
            case _:
                pass
    return names


def _literal_states(path: Path, tree: ast.Module) -> Iterator[str]:
    exported = _exported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in _LABELS and node not in exported:
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield f"{where}: a literal state; take it from ledger.states"


def _zones(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the calls that ask the machine for a zone before the pinned tz database."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Call(func=ast.Name(id="ZoneInfo" | "gettz"))
                | ast.Call(func=ast.Attribute(attr="ZoneInfo" | "gettz"))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="ZoneInfo")))
            ):
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{where}: a zone of the machine's; load_zone takes the pinned one"
            case _:
                pass


def _unused(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the constants that a module keeps to itself and does not use."""
    declared = {
        statement.target.id: statement.lineno
        for statement in tree.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id.startswith("_")
        and not statement.target.id.startswith("__")
    }
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for name, line in declared.items():
        if name not in used:
            yield f"{path.relative_to(ROOT)}:{line}: {name} is not used"


def _sleeps(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(args=[ast.Constant(value=0)]):
                pass  # sleep(0) gives the loop a turn and waits for no time to pass
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio" | "time"), attr="sleep"))
                | ast.Call(func=ast.Name(id="sleep"))
            ):
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{where}: a sleep in a test; wait for a signal or call tick()"
            case _:
                pass


def _literal_events(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield log calls with a text instead of an event of the catalogue."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="log") | ast.Attribute(attr="log" | "_log"), attr=level
                ),
                args=[ast.Constant(value=str()) | ast.JoinedStr(), *_],
            ) if level in _LEVELS:
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{where}: a log text; log an event of ledger.runtime.log.LogEvent"
            case _:
                pass


def _logged_events(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="LogEvent"), attr=name):
                yield name
            case _:
                pass


def _events() -> Iterator[str]:
    """Yield breaches of the catalogue of log events: not in it, or never logged."""
    logged: set[str] = set()
    for package in LOGGING:
        for path in _files(package):
            tree = ast.parse(path.read_bytes(), str(path))
            yield from _literal_events(path, tree)
            logged.update(_logged_events(tree))
    for name in sorted(logged ^ set(LogEvent.__members__)):
        yield f"LogEvent.{name}: in the catalogue and never logged, or logged and not in it"


def _bare_imports(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield imports of a package of `dueledger` by the name of its folder: a second copy of it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        for module in modules:
            if module.partition(".")[0] in _LINKED:
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{where}: import dueledger.{module}; {module} would be a second copy of it"


def _hidden(path: Path) -> Iterator[str]:
    """Yield a module beside a package of its name, which hides it."""
    if (path.with_suffix("") / "__init__.py").exists():
        yield f"{path.relative_to(ROOT)}: the package of the same name hides it"


def _files(folder: str) -> list[Path]:
    """Return the modules of a folder; those behind a link are in the folder that it leads to."""
    return sorted((ROOT / folder).rglob("*.py"))


def findings() -> Iterator[str]:
    """Yield one line for each breach."""
    for folder in FOLDERS:
        for path in _files(folder):
            yield from _bare_imports(path, ast.parse(path.read_bytes(), str(path)))
            yield from _hidden(path)
    for package in PACKAGES:
        for path in _files(package):
            tree = ast.parse(path.read_bytes(), str(path))
            yield from _nameless(path)
            yield from _unused(path, tree)
            if path != STATES_MODULE:
                yield from _literal_states(path, tree)
            if path != ZONES_MODULE:
                yield from _zones(path, tree)
    yield from _events()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield from _sleeps(path, ast.parse(path.read_bytes(), str(path)))


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = list(findings())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
