"""Read files of Kubernetes: CronJobs, lists of them, and Prow's periodic jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from dueledger.importers.import_result import ImportRefusal, ImportResult
from dueledger.importers.kubernetes_cronjob import import_cronjob
from dueledger.importers.prow_periodic import import_periodics
from dueledger.importers.source_files import DOCUMENT_SUFFIXES, import_path, read_documents
from dueledger.importers.source_job import NewDefinitionFields

if TYPE_CHECKING:
    from collections.abc import Mapping

TENANT: Final = "kubernetes"

_TIMES: Final = frozenset(("cron", "interval", "minimum_interval"))
_SCHEDULES: Final = frozenset(("schedule", "schedules"))
_DEPTH_MAX: Final = 8  # a List within a List; more levels are a mistake


def import_kubernetes(path: Path, anew: NewDefinitionFields) -> ImportResult:
    """Read a file, or every YAML and JSON file below a folder."""

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        for place, document in read_documents(file):
            _import_document(f"{where}{place}", document, anew, found)

    return import_path(path, DOCUMENT_SUFFIXES, import_file)


def _import_document(
    where: str,
    document: object,
    anew: NewDefinitionFields,
    found: ImportResult,
    *,
    depth: int = 0,
) -> None:
    match document:
        case None:
            return
        case list():
            members = cast("list[object]", document)
            _import_members(where, members, anew, found, depth=depth)
        case {"kind": "CronJob"}:
            cronjob = cast("Mapping[str, object]", document)
            import_cronjob(where, cronjob, anew, found)
        case {"kind": str(), "items": list()} | {"periodics": list()}:
            listed = cast("Mapping[str, list[object]]", document)
            members = listed["items"] if "kind" in listed else listed["periodics"]
            _import_members(where, members, anew, found, depth=depth)
        case {"kind": str(kind)} if _is_scheduled(document):
            reason = f"is a {kind}: only CronJobs and Prow's periodic jobs are read"
            found.skip_job(where, kind, ImportRefusal(reason, "a CronJob of the same times"))
        case {"kind": str(kind)}:
            found.count_other(kind)
        case dict() if _TIMES & document.keys() or (depth and "name" in document):
            # A member of a list without its times is a job as well, and is named.
            import_periodics([(where, cast("object", document))], anew, found)
        case dict():
            found.count_other("document of another type")
        case _:
            found.skip_job(where, "", ImportRefusal("is neither a CronJob nor a periodic job"))


def _is_scheduled(document: object) -> bool:
    """Return whether a document of another kind has times, as Argo's CronWorkflow."""
    spec = cast("Mapping[str, object]", document).get("spec")
    return isinstance(spec, dict) and not _SCHEDULES.isdisjoint(cast("dict[str, object]", spec))


def _import_members(
    where: str,
    members: list[object],
    anew: NewDefinitionFields,
    found: ImportResult,
    *,
    depth: int,
) -> None:
    if depth > _DEPTH_MAX:
        found.skip_job(where, "", ImportRefusal("lists within lists", "one list"))
        return
    for place, member in enumerate(members):
        _import_document(f"{where}[{place}]", member, anew, found, depth=depth + 1)
