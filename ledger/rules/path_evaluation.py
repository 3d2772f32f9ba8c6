"""Evaluate JMESPaths on one document, with a bound on what they build.

``[@,@]|[@,@]|…`` doubles with each step of five characters, and ``join(data.glue, data.lines)``
multiplies two texts. So each value that is built is weighed before anything reads it, writes it or
quotes it. The same paths on the same document give the same result, or fail, on every machine.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from re import compile as compile_pattern
from typing import Any, Final, cast, final

import jmespath
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

VALUES_MAX: Final = 100_000
"""The weight of the largest value that a path may build."""
WORK_MAX: Final = 300_000
"""The weight of everything that the paths on one document may build, and of their steps."""
STEP_WEIGHT: Final = 4
CHARS_A_VALUE: Final = 16
"""A text weighs one value, and one more for so many characters."""

EVALUATION_FAILED: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What evaluating may raise.

JMESPath's own errors are ValueErrors, but its functions also raise Python's errors, as on numbers
that overflow (`ceil` of 1e400). An event that fails must never stop the events after it.
"""

_REASON_CHARS_MAX: Final = 300
_NAMES: Final = compile_pattern(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_BUILDING: Final = frozenset(
    {
        *("filter_projection", "flatten", "function_expression", "multi_select_dict"),
        *("multi_select_list", "projection", "slice", "value_projection"),
    }
)
"""The nodes of an expression whose value is a new one."""


_FUNCTIONS: Final = Functions()


class TooLarge(ValueError):
    """A path would build more than it may."""

    def __init__(self) -> None:
        super().__init__(f"it builds more than {VALUES_MAX:,} values, or texts as large as that")


@final
class PathDocument:
    """A document with the work that all paths together may still do on it."""

    __slots__ = ("_left", "_members")

    def __init__(self, members: dict[str, object]) -> None:
        self._members = members
        self._left = WORK_MAX

    def search(self, path: str) -> object:
        """Return the value at `path`, None if there is none. Raises one of EVALUATION_FAILED."""
        return _evaluator(path)(self, self._members)

    def add_work(self, weight: int) -> None:
        """Count work. Raises TooLarge beyond what is left."""
        self._left -= weight
        if self._left < 0:
            raise TooLarge

    def weigh_built(self, value: object) -> None:
        """Count a value that was built, or that a function reads. Raises TooLarge."""
        self.add_work(weigh(value, min(VALUES_MAX, self._left)))


def weigh(value: object, weight_max: int) -> int:
    """Return the weight of a JSON value: its values, with more for long texts.

    What occurs twice weighs twice. Raises TooLarge above `weight_max`; it reads no further then.
    """
    weight, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        weight += 1
        if isinstance(found, str):
            weight += len(found) // CHARS_A_VALUE
        elif isinstance(found, dict):
            members = cast("dict[str, object]", found)
            weight += sum(len(name) // CHARS_A_VALUE for name in members)
            _check(weight + len(members), weight_max)
            waiting += members.values()
        elif isinstance(found, list):
            listed = cast("list[object]", found)
            _check(weight + len(listed), weight_max)
            waiting += listed
        _check(weight, weight_max)
    return weight


def failure_reason(error: BaseException) -> str:
    """Return the reason of a failed evaluation on one line. An error may quote a whole value."""
    try:
        reason = " ".join(str(error).split())
    except (RecursionError, ValueError):
        return type(error).__name__
    return reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[:_REASON_CHARS_MAX]}…"


def _check(weight: int, weight_max: int) -> None:
    if weight > weight_max:
        raise TooLarge


class _BoundedInterpreter(TreeInterpreter):
    """Counts each step, and weighs what is built or given to a function."""

    def __init__(self, document: PathDocument) -> None:
        super().__init__()
        self._document = document

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - JMESPath's own
        self._document.add_work(STEP_WEIGHT)
        value = super().visit(node, *args, **kwargs)
        if node["type"] in _BUILDING:
            self._document.weigh_built(value)
        return value

    def visit_function_expression(self, node: Any, value: Any) -> Any:  # noqa: ANN401 - its own
        arguments = [self.visit(child, value) for child in node["children"]]
        for argument in arguments:
            self._document.weigh_built(argument)
        if node["value"] == "join":
            _check_join(arguments)
        return _FUNCTIONS.call_function(node["value"], arguments)


def _check_join(arguments: list[object]) -> None:
    """Refuse a text before it is joined: the separator counts once for each member."""
    separator, members = (*arguments, None, None)[:2]
    if isinstance(separator, str) and isinstance(members, list):
        chars = len(separator) * len(cast("list[object]", members))
        _check(chars // CHARS_A_VALUE, VALUES_MAX)


def names_of(path: str) -> tuple[str, ...] | None:
    """Return the names of a path that only follows names, joined by dots; None for any other."""
    return tuple(path.split(".")) if _NAMES.fullmatch(path) else None


_Evaluate = Callable[[PathDocument, object], object]


@lru_cache(maxsize=65_536)
def _evaluator(path: str) -> _Evaluate:
    """Return a function that evaluates a JMESPath on a document.

    Names joined by dots, which are most paths, are looked up without the interpreter: measured,
    0.3 microseconds instead of 4. They build nothing.
    """
    if (names := names_of(path)) is not None:
        return partial(_follow_names, names)
    return partial(_interpret, jmespath.compile(path).parsed)


def _interpret(expression: object, document: PathDocument, members: object) -> object:
    return _BoundedInterpreter(document).visit(expression, members)


def _follow_names(names: tuple[str, ...], _: PathDocument, members: object) -> object:
    """Follow names as JMESPath does: None where the value is not an object."""
    found = members
    for name in names:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, object]", found).get(name)
    return found
