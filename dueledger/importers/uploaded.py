"""Files of other schedulers as texts with a name, as they are sent to a service."""

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from dueledger.importers.crontab import import_crontab
from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.import_result import ImportResult
from dueledger.importers.java_cron import JavaDialect
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.systemd import import_systemd
from dueledger.ledger.errors import InvalidInput

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARS_MAX: Final = 100


class SourceScheduler(StrEnum):
    """The scheduler that a file is of."""

    CRONTAB = "crontab"
    KUBERNETES = "kubernetes"
    SYSTEMD = "systemd"
    QUARTZ = "quartz"
    EVENTBRIDGE = "eventbridge"


def guess_scheduler(text: str, name: str) -> SourceScheduler:
    """Return of which scheduler a file probably is."""
    if name.endswith((".timer", ".service")) or "[Timer]" in text:
        return SourceScheduler.SYSTEMD
    if "kind: CronJob" in text or '"CronJob"' in text or "periodics:" in text:
        return SourceScheduler.KUBERNETES
    if "ScheduleExpression" in text or "schedule_expression" in text:
        return SourceScheduler.EVENTBRIDGE
    if "@Scheduled" in text or "<cron-expression" in text or "job-scheduling-data" in text:
        return SourceScheduler.QUARTZ
    return SourceScheduler.CRONTAB


def import_text(
    text: str, name: str, scheduler: SourceScheduler, anew: NewDefinitionFields
) -> ImportResult:
    """Return the definitions of a file, as the command `import` makes them.

    Raises InvalidInput where the command does.
    """
    named = Path(_UNSAFE.sub("_", Path(name).name)[-_NAME_CHARS_MAX:].strip(".") or "file").name
    if scheduler is SourceScheduler.CRONTAB:
        return import_crontab(text, named, anew, of_system=named == "crontab")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / named
        path.write_text(text, encoding="utf-8")
        try:
            return _OF_FILES[scheduler](path, anew)
        except InvalidInput as error:
            place = f"{folder}/"
            message, _, _ = error.message.partition("\n")
            problems = [
                replace(each, field=each.field.replace(place, "")) for each in error.problems
            ]
            raise InvalidInput(message.replace(place, ""), problems) from None


_OF_FILES: Final[Mapping[SourceScheduler, Callable[[Path, NewDefinitionFields], ImportResult]]] = {
    SourceScheduler.KUBERNETES: import_kubernetes,
    SourceScheduler.SYSTEMD: import_systemd,
    SourceScheduler.QUARTZ: lambda path, anew: import_quartz(path, anew, JavaDialect.SPRING),
    SourceScheduler.EVENTBRIDGE: import_eventbridge,
}
