"""Files of other schedulers: one by its name, or all of some types below a folder."""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, cast

import yaml

from dueledger.importers.import_result import ImportRefusal, ImportResult
from dueledger.ledger.definitions.documents import nests_too_deep, too_deep_at
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text

DOCUMENT_SUFFIXES: Final = (".json", ".yaml", ".yml")

# The C parser if the wheel has it: it is twenty times as fast.
_SAFE_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE_LOADER):
    """Reads local tags, too, and refuses a repeated key, whose first value would vanish."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - yaml's own interface
        keys: set[str] = set()
        for key, _ in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if isinstance(key, yaml.ScalarNode):
                text = str(key.value)
                if text in keys:
                    raise yaml.MarkedYAMLError(None, None, _twice(text), key.start_mark)
                keys.add(text)
        return super().construct_mapping(node, deep)


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, object]:
    match node:
        case yaml.MappingNode():
            value: Any = loader.construct_mapping(node, deep=True)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case _:
            value = loader.construct_scalar(cast("yaml.ScalarNode", node))
    return {f"!{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)  # pyright: ignore[reportUnknownMemberType]


def import_path(
    path: Path,
    suffixes: Collection[str],
    import_file: Callable[[Path, str, ImportResult], None],
) -> ImportResult:
    """Import a file, or each file below a folder whose name ends with one of `suffixes`.

    An unreadable file is an error if it was given by name; in a folder it is listed as left out.
    """
    found = ImportResult()
    if not path.is_dir():
        import_file(path, path.name, found)
        return found
    files = [each for each in sorted(path.rglob("*")) if each.suffix.lower() in suffixes]
    if not any(each.is_file() for each in files):
        reason = f"has no file whose name ends with {', '.join(suffixes)}"
        problem = Problem(str(path), "", reason, "another folder")
        raise InvalidInput("Nothing to import:", [problem])
    for each in files:
        where = str(each.relative_to(path))
        try:
            if each.is_file():
                import_file(each, where, found)
            elif not each.is_dir():
                reason = "is no regular file: a link to nothing, or masked by /dev/null"
                found.skip_job(where, "", ImportRefusal(reason, "a file that can be read"))
        except InvalidInput as error:
            [problem, *_] = error.problems
            found.skip_job(where, problem.field, ImportRefusal(problem.reason, problem.accepted))
        except OSError as error:  # a link to a name that cannot be
            found.skip_job(where, "", ImportRefusal(str(error.strerror), "a file that can be read"))
    return found


def read_documents(path: Path) -> Iterator[tuple[str, object]]:
    """Yield each document of a YAML or JSON file and its place.

    A parse error ends the file. A local tag, as CloudFormation's `!Ref`, is read as a mapping from
    it to its value.
    """
    text = read_text(path, DEFINITION_BYTES_MAX)
    if text.lstrip()[:1] in {"{", "["}:
        try:
            value = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):  # also a repeated key, a number of thousands of digits
            pass  # YAML's flow style begins with the same characters
        else:
            if nests_too_deep(value):
                raise _unreadable(path, "document", "nested too deep")
            yield "", value
            return
    yield from _yaml_documents(path, text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError  # YAML says where
    return found


def _twice(key: str) -> str:
    return f"`{key}` is there twice"


def _yaml_documents(path: Path, text: str) -> Iterator[tuple[str, object]]:
    try:
        if line := too_deep_at(text):
            raise _unreadable(path, f"line {line}", "nested too deep")
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = cast("yaml.Node", loader.get_node())
                place = f":{node.start_mark.line + 1}"
                value: Any = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType]
                yield place, value
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = str(path) if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise _unreadable(path, place, f"not YAML: {reason}") from None


def _unreadable(path: Path, place: str, reason: str) -> InvalidInput:
    problem = Problem(place, "", reason, "YAML or JSON in UTF-8, with templates filled in")
    return InvalidInput(f"{path} cannot be read:", [problem], source=str(path))
