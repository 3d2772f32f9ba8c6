"""The result of an import: definitions, jobs left out and why, and questions for a person."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Final

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.schedule import AfterCompletion, At, Cron, Every, Rrule

UNKNOWN: Final = "unknown"

_DAYS: Final = (date(2026, 1, 1), date(2029, 12, 31))
_YEARS: Final = 4
_MONTHS: Final = 12
_UNITS: Final = (("day", 365.25), ("week", 52.18), ("month", 12.0), ("year", 0.0))


class OpenQuestion(StrEnum):
    """Questions that no file answers; QUESTIONS has a sentence for each."""

    CLOCKS = "clocks"
    DAYS = "days"
    DUPLICATES = "duplicates"
    MISSED = "missed"
    PHASE = "phase"
    RETRIES = "retries"
    SECRET = "secret"  # noqa: S105 - the name of a question
    SWITCHED_OFF = "switched_off"
    TIME_LIMIT = "time_limit"
    ZONE = "zone"


QUESTIONS: Final[Mapping[OpenQuestion, str]] = {
    OpenQuestion.CLOCKS: (
        "A clock change skips, moves or doubles it, as with its scheduler; `gap: "
        "shift_forward` and `fold: first` would give one each day."
    ),
    OpenQuestion.DAYS: (
        "Its two day fields were read as its scheduler reads them; check a preview."
    ),
    OpenQuestion.DUPLICATES: (
        "Is a second run harmful? Every item is started at least once: make what it calls "
        "recognise the item's id, or complete it in one transaction."
    ),
    OpenQuestion.MISSED: (
        "While it was stopped, its scheduler dropped what was due: all, or all but the "
        "last; here all of it is owed (`catch_up`)."
    ),
    OpenQuestion.PHASE: (
        "Its scheduler counts from a start that is not in the file; here the rate is "
        "fixed and its phase comes from the name (`anchor`)."
    ),
    OpenQuestion.RETRIES: (
        "Its scheduler has a rule of its own for a run that fails; here the kind's `retry` "
        "applies: five attempts, then a person decides."
    ),
    OpenQuestion.SECRET: (
        "Its command seems to contain a secret, which would be in the ledger and in Kafka: "
        "make the handler read it from a secret store."
    ),
    OpenQuestion.SWITCHED_OFF: ("It never falls due: is that how it was switched off?"),
    OpenQuestion.TIME_LIMIT: (
        "It has a time limit, which belongs to a kind (`deadlines: {run: …}`): give it a "
        "separate kind, or keep the limit in the handler."
    ),
    OpenQuestion.ZONE: ("The file has no time zone for it; `--timezone` is used."),
}


@dataclass(frozen=True, slots=True)
class ImportRefusal:
    """Why something cannot be imported, and what to write instead if possible."""

    reason: str
    accepted: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedJob:
    """One line or job that is not imported. `text` has no command: that may contain a secret."""

    where: str
    text: str
    reason: str
    accepted: str | None = None


@dataclass(frozen=True, slots=True)
class ReportedLine:
    """A line that is not a job but affects jobs: an environment line, a header."""

    where: str
    text: str
    meaning: str


@dataclass(frozen=True, slots=True)
class JobInventory:
    """What a source says about a job besides its times, for planning the migration."""

    owner: str | None = None
    criticality: str | None = None
    duplicates: str = UNKNOWN
    description: str | None = None
    questions: tuple[OpenQuestion, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """One imported job."""

    where: str
    document: dict[str, object]
    definition: Definition
    known: JobInventory

    def inventory(self) -> dict[str, object]:
        """Return its row of the inventory; the names are stable."""
        return {
            "where": self.where,
            "definition": self.definition.definition,
            "owner": self.known.owner or UNKNOWN,
            "criticality": self.known.criticality or UNKNOWN,
            "frequency": frequency(self.definition),
            "overlap": self.definition.overlap,
            "duplicates": self.known.duplicates,
            "decide": [question.value for question in self.known.questions],
            "notes": list(self.known.notes),
        }


@dataclass(slots=True)
class ImportResult:
    """Everything that was read, in the order of the source. Each part is in one of the lists."""

    jobs: list[ImportedJob] = field(default_factory=list["ImportedJob"])
    skipped: list[SkippedJob] = field(default_factory=list[SkippedJob])
    reported: list[ReportedLine] = field(default_factory=list[ReportedLine])
    passed_over: dict[str, int] = field(default_factory=dict[str, int])
    _taken: dict[str, str] = field(default_factory=dict[str, str])

    def add_job(self, where: str, document: dict[str, object], known: JobInventory) -> None:
        """Import a job, or leave it out if its definition would be refused."""
        name = str(document["definition"])
        if earlier := self._taken.get(name):
            reason = f"has the same name as {earlier}"
            self.skip_job(where, name, ImportRefusal(reason, "one of the two, or another name"))
            return
        try:
            definition = parse_definition(document, source=where)
        except InvalidDefinition as error:
            self.skip_job(where, name, refusal_of(error))
            return
        self._taken[name] = where
        self.jobs.append(ImportedJob(where, document, definition, known))

    def skip_job(self, where: str, text: str, refusal: ImportRefusal) -> None:
        """List a job that is not imported, with the reason."""
        self.skipped.append(SkippedJob(where, text, refusal.reason, refusal.accepted))

    def count_other(self, kind: str) -> None:
        """Count a document that is not a schedule."""
        self.passed_over[kind] = self.passed_over.get(kind, 0) + 1

    def questions(self) -> Iterator[tuple[OpenQuestion, int]]:
        """Yield the questions, and the number of jobs for each."""
        asked = [question for job in self.jobs for question in job.known.questions]
        for question in OpenQuestion:
            if count := asked.count(question):
                yield question, count


def refusal_of(error: InvalidDefinition) -> ImportRefusal:
    """Return one sentence about why a document is refused."""
    reasons = [f"{one.field}: {one.reason}" for one in error.problems]
    accepted = [one.accepted for one in error.problems if one.accepted]
    return ImportRefusal("; ".join(reasons) or error.message, "; ".join(accepted) or None)


def frequency(definition: Definition) -> str:
    """Return about how often it is due."""
    match definition.when:
        case Every() as when:
            return f"every {_spell(when.every.total_seconds())}"
        case AfterCompletion() as when:
            return f"{_spell(when.after_completion.total_seconds())} after each end"
        case Cron() as when:
            yearly = _days_a_year(when) * _times_a_day(when)
            return _rate(yearly)
        case Rrule() as when:
            first, last = (datetime.combine(day, time(), UTC) for day in _DAYS)
            return _rate(when.estimate(first, last) / _YEARS)
        case At():
            return "once"
        case _:
            return UNKNOWN


def _times_a_day(when: Cron) -> int:
    fields = when.fields
    return len(fields.seconds) * len(fields.minutes) * len(fields.hours)


def _days_a_year(when: Cron) -> float:
    fields = when.fields
    if not (fields.restricts_day or fields.restricts_weekday) and len(fields.months) == _MONTHS:
        return _UNITS[0][1]
    return sum(1 for _ in when.days(*_DAYS)) / _YEARS


def _rate(yearly: float) -> str:
    if not yearly:
        return "never"
    unit, a_year = next(each for each in _UNITS if yearly >= each[1] * 0.99)
    return f"{yearly / (a_year or 1):.3g} a {unit}"


def _spell(seconds: float) -> str:
    days, hours, minutes = seconds / 86_400, seconds / 3_600, seconds / 60
    for value, unit in ((days, "days"), (hours, "h"), (minutes, "min")):
        if value >= (2 if unit == "days" else 1) and value == int(value):
            return f"{int(value)} {unit}"
    return f"{seconds:g} s"


def inventory(jobs: Iterable[ImportedJob]) -> list[dict[str, object]]:
    """Return the table for planning a migration."""
    return [job.inventory() for job in jobs]
