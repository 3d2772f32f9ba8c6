"""Read files of Kubernetes: CronJobs, lists of them, and Prow's periodic jobs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from dueledger.importers.import_result import ImportRefusal, ImportResult
from dueledger.importers.kubernetes_cronjob import import_cronjob
from dueledger.importers.prow_periodic import NewDefinitionFields, import_periodics
from dueledger.ledger.definitions.documents import too_deep_at
from dueledger.ledger.errors import InvalidInput, Problem

TENANT: Final = "kubernetes"

_TIMES: Final = frozenset(("cron", "interval", "minimum_interval"))
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_FILE_BYTES_MAX: Final = 33_554_432
_DEPTH_MAX: Final = 8  # a List within a List; more levels are a mistake
# The C parser if the wheel has it: it is twenty times as fast.
_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def import_kubernetes(path: Path, anew: NewDefinitionFields, *, zone: str = "UTC") -> ImportResult:
    """Read a file, or every YAML and JSON file below a folder.

    An unreadable file is an error if it was given by name; in a folder it is listed as left out.
    """
    found = ImportResult()
    if not path.is_dir():
        _import_file(path, path.name, anew, zone, found)
        return found
    files = [each for each in sorted(path.rglob("*")) if each.suffix.lower() in _SUFFIXES]
    if not any(each.is_file() for each in files):
        problem = Problem(str(path), "", "has no YAML or JSON file", "another folder")
        raise InvalidInput("Nothing to import:", [problem])
    for each in files:
        where = str(each.relative_to(path))
        try:
            if each.is_file():
                _import_file(each, where, anew, zone, found)
        except InvalidInput as error:
            [problem, *_] = error.problems
            found.skip_job(where, problem.field, ImportRefusal(problem.reason, problem.accepted))
        except OSError as error:
            found.skip_job(where, "", ImportRefusal(str(error.strerror), "a file that can be read"))
    return found


def _import_file(
    path: Path, where: str, anew: NewDefinitionFields, zone: str, found: ImportResult
) -> None:
    for place, document in _documents(path):
        _import_document(f"{where}{place}", document, anew, zone, found)


def _documents(path: Path) -> Iterator[tuple[str, object]]:
    """Yield each document and its place. A parse error ends the file."""
    content = path.read_bytes()
    if len(content) > _FILE_BYTES_MAX:
        raise _unreadable(path, str(path), f"is longer than {_FILE_BYTES_MAX:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(path), f"byte {error.start} is not UTF-8") from None
    if text.lstrip()[:1] in {"{", "["}:
        try:
            yield "", json.loads(text)
        except (ValueError, RecursionError):  # also an integer of thousands of digits
            pass  # YAML's flow style begins with the same characters
        else:
            return
    yield from _yaml_documents(path, text)


def _yaml_documents(path: Path, text: str) -> Iterator[tuple[str, object]]:
    try:
        if line := too_deep_at(text):
            raise _unreadable(path, f"line {line}", "nested too deep")
        loader = _LOADER(text)
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


def _import_document(
    where: str,
    document: object,
    anew: NewDefinitionFields,
    zone: str,
    found: ImportResult,
    *,
    depth: int = 0,
) -> None:
    match document:
        case None:
            return
        case list():
            members = cast("list[object]", document)
            _import_members(where, members, anew, zone, found, depth=depth)
        case {"kind": "CronJob"}:
            cronjob = cast("Mapping[str, object]", document)
            import_cronjob(where, cronjob, anew, zone, found)
        case {"kind": str(), "items": list()} | {"periodics": list()}:
            listed = cast("Mapping[str, list[object]]", document)
            members = listed["items"] if "kind" in listed else listed["periodics"]
            _import_members(where, members, anew, zone, found, depth=depth)
        case {"kind": str(kind)}:
            found.count_other(kind)
        case dict() if _TIMES & document.keys() or (depth and "name" in document):
            # A member of a list without its times is a job as well, and is named.
            import_periodics([(where, cast("object", document))], anew, found)
        case dict():
            found.count_other("document of another type")
        case _:
            found.skip_job(where, "", ImportRefusal("is neither a CronJob nor a periodic job"))


def _import_members(
    where: str,
    members: list[object],
    anew: NewDefinitionFields,
    zone: str,
    found: ImportResult,
    *,
    depth: int,
) -> None:
    if depth > _DEPTH_MAX:
        found.skip_job(where, "", ImportRefusal("lists within lists", "one list"))
        return
    for place, member in enumerate(members):
        _import_document(f"{where}[{place}]", member, anew, zone, found, depth=depth + 1)
