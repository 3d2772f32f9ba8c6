"""Mutants of SQL: each is a statement or a function without one of its parts.

A part is a condition (of WHERE, ON, FILTER, CASE), a value of an IN list, a lock, SKIP LOCKED, an
ON CONFLICT, an assignment, a written table, or a side of a UNION. `tests/mutations.py` runs them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pglast import parse_plpgsql
from pglast.enums import A_Expr_Kind, BoolExprType, LockWaitPolicy, SetOperation
from pglast.stream import RawStream

# Nodes have no types: their attributes are made when the module is imported.
ast: Final[Any] = import_module("pglast.ast")
parse_sql: Final[Any] = import_module("pglast").parse_sql
SQL: Final = Path(__file__).resolve().parents[1] / "sql"
_MOVES: Final = re.compile(
    r"\b(?:insert into|update|delete from) ledger\."
    r"(?:due_item|pending|claim|run|review|withdrawal|transition|held_key|following|flow)\b"
)
_LOCKS: Final = {"lock_late_claims", "lock_serial_stripes", "lock_lapsed_runs", "lock_topic_runs"}
NAMED: Final = re.compile(r"ledger\.(\w+)")
_LABEL_MAX: Final = 160
_VERBS: Final = {"InsertStmt": "insert", "UpdateStmt": "update", "DeleteStmt": "delete"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """What to send instead of `source`, the text of a statement or of `create function`."""

    target: str
    label: str
    source: str
    text: str
    is_function: bool

    @property
    def name(self) -> str:
        """Say which part is gone."""
        return f"{self.target}: {self.label}"


@dataclass(frozen=True, slots=True)
class _Edit:
    """An attribute of a node, and the value that takes a part away."""

    label: str
    node: Any
    attribute: str
    value: Any


def targets() -> dict[str, Path]:
    """Return the files that move items, by folder and name, functions as `functions/…`."""
    paths = [*(SQL / "statements").rglob("*.sql"), *(SQL / "schema" / "functions").glob("*.sql")]
    return {
        f"{path.parent.name}/{path.stem}": path
        for path in sorted(paths)
        if _MOVES.search(path.read_text(encoding="utf-8")) or path.stem in _LOCKS
    }


@cache
def reached_by(target: str) -> set[str]:
    """Return the statements that run the target: itself, or those that call the function."""
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for folder in ("statements", "schema/functions")
        for path in (SQL / folder).rglob("*.sql")
    }
    reached, name = {target.rpartition("/")[2]}, target.rpartition("/")[2]
    if not target.startswith("functions/"):
        return reached
    inserted = re.findall(r"after \w+ on (ledger\.\w+)", texts[name])
    added = set(reached)
    while added:
        called = {
            function
            for stem in added
            for function in re.findall(r"create function ledger\.(\w+)", texts[stem])
        }
        added = {
            stem
            for stem, text in texts.items()
            if called & set(NAMED.findall(text))
            or any(f"insert into {table} " in text for table in inserted)
        } - reached
        inserted = []
        reached |= added
    return reached


def mutants(target: str, path: Path) -> list[Mutant]:
    """Return the mutants of a file, each with a label of its own."""
    text = path.read_text(encoding="utf-8")
    is_function = target.startswith("functions/")
    if is_function:
        made = _of_functions(text)
    else:
        made = ((label, text, mutated) for label, mutated in _mutations(text))
    seen: Counter[str] = Counter()
    labelled: list[Mutant] = []
    for label, source, mutated in made:
        seen[label] += 1
        numbered = label if seen[label] == 1 else f"{label} ({seen[label]})"
        labelled.append(Mutant(target, numbered, source, mutated, is_function))
    return labelled


def _of_functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the mutants of each query in the bodies of a file's functions."""
    text = text.encode("ascii", "replace").decode()  # the parser counts bytes
    for raw in parse_sql(text):
        if not isinstance(raw.stmt, ast.CreateFunctionStmt):
            continue
        end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(text)
        source = text[raw.stmt_location : end].strip()
        source = source[source.index("create function") :]
        replacing = source.replace("create function", "create or replace function", 1)
        name = raw.stmt.funcname[-1].sval
        if raw.stmt.sql_body is not None:
            for label, mutated in _mutations_of(raw.stmt):
                changed = mutated.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
                yield f"{name}, {label}", replacing, changed
        elif "language plpgsql" in source:
            header, begin, body = re.split(r"\n(begin)\n", source, maxsplit=1)
            # The parser knows no types of this schema.
            known = re.sub(
                r"(\b(?!function|from|join)\w+) ledger\.\w+(?!\w*\()", r"\1 text", header
            )
            for query in _queries(parse_plpgsql(f"{known}\n{begin}\n{body}")):
                for label, mutated in _mutations_of_query(query):
                    yield f"{name}, {label}", replacing, _replaced(replacing, query, mutated)


def _replaced(source: str, query: str, mutated: str) -> str:
    """Replace a query; the parser has blanked its INTO, which may also stand at its end."""
    words = query.split()
    found = re.search(r"\s+(?:into [\w, ]+?\s+)?".join(map(re.escape, words)), source)
    if found is None:
        message = f"the query is not in its function: {query}"
        raise ValueError(message)
    into = re.search(r"\sinto (?!ledger\.)[\w, ]+", found[0])
    if into and into[0] not in query:
        mutated += into[0].removesuffix(" from")
    return source[: found.start()] + mutated + source[found.end() :]


def _queries(node: Any) -> Iterator[str]:  # noqa: ANN401 - of JSON
    match _kind(node):
        case "dict":
            if "PLpgSQL_expr" in node:
                yield node["PLpgSQL_expr"]["query"]
            for child in node.values():
                yield from _queries(child)
        case "list":
            for child in node:
                yield from _queries(child)
        case _:
            pass


def _mutations_of_query(query: str) -> Iterator[tuple[str, str]]:
    """Yield the mutants of a query or an expression in a function's body."""
    if re.match(r"(with|select|insert|update|delete)\b", query.lstrip()):
        yield from _mutations(query)
        return
    if query.startswith(("lock table", "SELECT")):  # the parser's own text of a PERFORM
        return
    assigned, _, expression = query.rpartition(" := ")
    for label, mutated in _mutations(f"select {expression}"):
        before = f"{assigned} := " if assigned else ""
        yield label, before + mutated.removeprefix("SELECT ")


def _mutations(text: str) -> Iterator[tuple[str, str]]:
    (raw,) = parse_sql(text)
    yield from _mutations_of(raw.stmt)


def _mutations_of(statement: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - nodes have no types
    root = ast.RawStmt(stmt=statement)
    whole = RawStream()(statement)
    for edit in list(_edits(root, root, "stmt", "")):
        kept = getattr(edit.node, edit.attribute)
        setattr(edit.node, edit.attribute, edit.value)
        mutated = RawStream()(root.stmt)
        setattr(edit.node, edit.attribute, kept)
        if mutated != whole:
            yield edit.label[:_LABEL_MAX], mutated


def _edits(node: Any, parent: Any, attribute: str, place: str) -> Iterator[_Edit]:  # noqa: ANN401
    """Yield what may be taken from a node and those in it; `place` names the CTE."""
    if _kind(node) == "CommonTableExpr":
        place = f"{node.ctename}: "
    yield from _conditions(node, place)
    yield from _choices(node, parent, attribute, place)
    yield from _writes(node, parent, attribute, place)
    for slot in node:
        for child in _nodes(getattr(node, slot)):
            yield from _edits(child, node, slot, place)


def _nodes(value: Any) -> Iterator[Any]:  # noqa: ANN401
    if _kind(value) == "tuple":
        for part in value:
            yield from _nodes(part)
    elif type(value).__module__ == ast.__name__:
        yield value


def _kind(node: Any) -> str:  # noqa: ANN401
    return type(node).__name__


def _conditions(node: Any, place: str) -> Iterator[_Edit]:  # noqa: ANN401
    for slot in ("whereClause", "agg_filter", "quals"):
        condition = getattr(node, slot, None)
        if condition is not None and not _is_joined(condition):
            value = _boolean("true") if slot == "quals" else None
            yield _Edit(f"{place}without {_sql(condition)}", node, slot, value)
    if _is_joined(node):
        yield from _parts(node, "args", "", place)
    if _kind(node) == "A_Expr" and node.kind == A_Expr_Kind.AEXPR_IN:
        yield from _parts(node, "rexpr", f" of {_sql(node)}", place)


def _parts(node: Any, slot: str, whole: str, place: str) -> Iterator[_Edit]:  # noqa: ANN401
    """Yield each of several parts of a list."""
    parts = getattr(node, slot)
    if _kind(parts) != "tuple" or len(parts) == 1:
        return
    for number, part in enumerate(parts):
        match _kind(part):
            case "CaseWhen":
                label = f"without when {_sql(part.expr)}"
            case "ResTarget":
                label = f"without set {part.name} = {_sql(part.val)}"
            case _:
                label = f"without {_sql(part)}{whole}"
        rest = (*parts[:number], *parts[number + 1 :])
        yield _Edit(f"{place}{label}", node, slot, rest)


def _choices(node: Any, parent: Any, attribute: str, place: str) -> Iterator[_Edit]:  # noqa: ANN401
    match _kind(node):
        case "CaseExpr":
            yield from _parts(node, "args", "", place)
        case "CaseWhen" if len(parent.args) == 1 and parent.arg is None:
            for value in ("true", "false"):
                label = f"{place}{value} for when {_sql(node.expr)}"
                yield _Edit(label, node, "expr", _boolean(value))
        case "SelectStmt" if node.op == SetOperation.SETOP_UNION and node.withClause is None:
            if _kind(getattr(parent, attribute)) != "tuple":
                for side in ("larg", "rarg"):
                    label = f"{place}only {_sql(getattr(node, side))}"
                    yield _Edit(label, parent, attribute, getattr(node, side))
        case "LockingClause":
            yield _Edit(f"{place}without for {_sql(node).lower()}", parent, attribute, None)
            if node.waitPolicy == LockWaitPolicy.LockWaitSkip:
                waiting = LockWaitPolicy.LockWaitBlock
                yield _Edit(f"{place}without skip locked", node, "waitPolicy", waiting)
        case _:
            pass


def _writes(node: Any, parent: Any, attribute: str, place: str) -> Iterator[_Edit]:  # noqa: ANN401
    if _kind(node) in {"UpdateStmt", "OnConflictClause"}:
        yield from _parts(node, "targetList", "", place)
    if _kind(node) == "InsertStmt" and node.onConflictClause is not None:
        yield _Edit(f"{place}without on conflict", node, "onConflictClause", None)
    if (verb := _VERBS.get(_kind(node))) is not None:
        label = f"{place}reads instead of {verb} {node.relation.relname}"
        yield _Edit(label, parent, attribute, _reading(node))


def _reading(node: Any) -> Any:  # noqa: ANN401
    """Return the query with the rows that a statement would return, without writing."""
    condition = None
    match _kind(node):
        case "UpdateStmt":
            tables, condition = (node.relation, *(node.fromClause or ())), node.whereClause
        case "DeleteStmt":
            tables, condition = (node.relation, *(node.usingClause or ())), node.whereClause
        case _:
            columns = tuple(ast.String(sval=column.name) for column in node.cols)
            alias = node.relation.alias or ast.Alias(aliasname=node.relation.relname)
            named = ast.Alias(aliasname=alias.aliasname, colnames=columns)
            tables = (ast.RangeSubselect(subquery=node.selectStmt, alias=named),)
    return ast.SelectStmt(
        targetList=node.returningClause.exprs if node.returningClause else None,
        fromClause=tables,
        whereClause=condition,
        withClause=node.withClause,
        op=SetOperation.SETOP_NONE,
    )


def _is_joined(node: Any) -> bool:  # noqa: ANN401
    return _kind(node) == "BoolExpr" and node.boolop != BoolExprType.NOT_EXPR


def _boolean(value: str) -> Any:  # noqa: ANN401
    (raw,) = parse_sql(f"select {value}")
    return raw.stmt.targetList[0].val


def _sql(node: Any) -> str:  # noqa: ANN401
    return RawStream()(node)
