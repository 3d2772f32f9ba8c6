"""The file of sources: what lies outside the ledger, and what is done about findings."""

import os
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    StringConstraints,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from dueledger.ledger.definitions.documents import DEPTH_MAX, too_deep_at
from dueledger.ledger.errors import InvalidSetting, Problem, UnreadableFile
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.runtime.text_file import SOURCES_BYTES_MAX, read_text
from dueledger.reconciler.csv_sources import EVIDENCE_ROWS_MAX, CsvEvidence, CsvPopulation
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment
from dueledger.reconciler.sources import (
    BYTES_MAX,
    ROWS_MAX,
    EvidenceReader,
    PopulationBounds,
    PopulationReader,
)
from dueledger.reconciler.sql_sources import SqlEvidence, SqlPopulation

_VALUES_MAX: Final = 20_000
"""Values, and names of fields, in the file: about a thousand sources."""
_PROBLEMS_MAX: Final = 50
_UNKNOWN_FIELD: Final = frozenset({"extra_forbidden", "invalid_key"})
# The C parser where the wheel includes it: twenty times as fast.
_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_Name = Annotated[str, StringConstraints(min_length=1, max_length=100, strict=True)]
_EventType = Annotated[str, StringConstraints(min_length=1, max_length=1_024, strict=True)]
_Text = Annotated[str, StringConstraints(min_length=1, strict=True)]


class _OutsideSource(BaseModel):
    """A query on a database, or a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    csv: _Text | None = Field(
        default=None, description="the path of a file, from the folder of the file of sources"
    )
    dsn: SecretStr | None = None
    dsn_env: _Name | None = Field(
        default=None, description="the environment variable with the address"
    )
    query: _Text | None = Field(default=None, validate_default=True)
    rows_max: int = Field(
        default=ROWS_MAX, ge=1, description="rows beyond which it counts as not read"
    )
    bytes_max: int = Field(
        default=BYTES_MAX, ge=1, description="bytes beyond which it counts as not read"
    )
    rows_min: int = Field(
        default=0, ge=0, description="rows below which it counts as not read; 0: it may be empty"
    )
    change_max: float | None = Field(
        default=None,
        ge=0,
        description="greatest change of the number of rows since the last time, as a share of it",
    )
    skipped_max: int = Field(
        default=0, ge=0, description="rows that cannot be used, beyond which it counts as not read"
    )

    @field_validator("query")
    @classmethod
    def _query_or_file(cls, query: str | None, found: ValidationInfo) -> str | None:
        if query is None and found.data.get("csv") is None:
            raise ValueError("give query with its address, or csv")
        return query

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        named = (self.query, self.dsn, self.dsn_env)
        if self.csv is not None and named != (None, None, None):
            raise ValueError("give either csv, or query with its address")
        if self.csv is None and (self.dsn is None) == (self.dsn_env is None):
            raise ValueError("give either dsn or dsn_env")
        return self

    def bounds(self) -> PopulationBounds:
        """Return what it may have to be believed."""
        return PopulationBounds(self.rows_min, self.change_max, self.skipped_max)

    def address(self) -> str:
        """Return the address. Raises InvalidSetting if the variable is not set."""
        if self.dsn is not None:
            return self.dsn.get_secret_value()
        found = os.environ.get(self.dsn_env or "")
        if not found:
            raise InvalidSetting(
                "A source has no address.",
                [Problem("dsn_env", "", f"the variable {self.dsn_env} is not set")],
            )
        return found


class PopulationSource(_OutsideSource):
    """A source outside the ledger that says what is owed."""

    population: _Name
    tenant: _Name = Field(description="the tenant of all its rows")
    kinds: Annotated[tuple[_Name, ...], Field(min_length=1)] = Field(
        description="the kinds that its rows may have"
    )
    complete: bool = Field(
        default=False,
        description="it names all items of its kinds, whatever made them; others are UNEXPECTED",
    )
    rows_min: int = Field(
        default=1, ge=0, description="rows below which it counts as not read; 0: it may be empty"
    )

    def reader(self, folder: Path) -> PopulationReader:
        """Return what reads it. Raises InvalidSetting if it has no address."""
        if self.csv is not None:
            made = partial(CsvPopulation, folder / self.csv)
        else:
            made = partial(SqlPopulation, self.address(), self.query or "")
        return made(
            name=self.population,
            complete=self.complete,
            tenant=self.tenant,
            kinds=frozenset(self.kinds),
            rows_max=self.rows_max,
            bytes_max=self.bytes_max,
            bounds=self.bounds(),
        )


class EvidenceSource(_OutsideSource):
    """A source outside the ledger that proves the effects of completed items of a kind."""

    evidence: _Name
    tenant: _Name
    kind: _Name
    after_seconds: float = Field(
        default=0.0, ge=0, description="seconds that the effect may take after completion"
    )
    complete: bool = Field(
        default=False,
        description="all its rows are effects of the kind's items; others are EFFECT_UNRECORDED",
    )

    @model_validator(mode="after")
    def _judged_if_read(self) -> Self:
        judged = {"change_max"} if self.csv else {"rows_min", "change_max", "skipped_max"}
        if not self.complete and (unread := sorted(judged & self.model_fields_set)):
            names = " and ".join(unread)
            raise ValueError(
                f"{names} judges all rows: of evidence without `complete: true` only the rows of "
                "the items in question are read"
            )
        return self

    def reader(self, folder: Path) -> EvidenceReader:
        """Return what reads it. Raises InvalidSetting if it has no address."""
        if self.csv is not None:
            return CsvEvidence(
                folder / self.csv,
                self.tenant,
                self.kind,
                self.evidence,
                self.after_seconds,
                self.complete,
                self.rows_max if "rows_max" in self.model_fields_set else EVIDENCE_ROWS_MAX,
                self.bytes_max,
                self.bounds(),
            )
        return SqlEvidence(
            self.address(),
            self.query or "",
            self.tenant,
            self.kind,
            self.evidence,
            self.after_seconds,
            self.complete,
            self.rows_max,
            self.bytes_max,
            self.bounds(),
        )


_KINDS: Final[dict[str, type[BaseModel]]] = {
    "population": PopulationSource,
    "evidence": EvidenceSource,
}
_AT_KIND: Final = 2
"""Where pydantic puts the kind into the location of an error."""


def _kind_of(source: object) -> str:
    return "evidence" if isinstance(source, dict) and "evidence" in source else "population"


_Source = Annotated[
    Annotated[PopulationSource, Tag("population")] | Annotated[EvidenceSource, Tag("evidence")],
    Discriminator(_kind_of),
]


class RepairPolicy(BaseModel):
    """What is done about the findings of a kind, by type."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tenant: _Name
    kind: _Name
    findings: dict[FindingType, Treatment] = Field(
        description="auto, propose, escalate or never, for each type of finding"
    )


class IgnoredEvents(BaseModel):
    """Types of events of a tenant that no rule has to read."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tenant: _Name
    ignore: Annotated[tuple[_EventType, ...], Field(min_length=1)] = Field(
        description="types of events, as in their attribute `type`"
    )


class SourcesFile(BaseModel):
    """The file given by `--sources`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sources: tuple[_Source, ...] = ()
    repairs: tuple[RepairPolicy, ...] = ()
    events: tuple[IgnoredEvents, ...] = ()

    def ignored_events(self) -> frozenset[tuple[str, str]]:
        """Return tenant and type of the events that no rule has to read."""
        return frozenset((each.tenant, type_) for each in self.events for type_ in each.ignore)

    def policies(self) -> RepairPolicies:
        """Return the treatment of findings by kind and type."""
        return RepairPolicies({(each.tenant, each.kind): each.findings for each in self.repairs})


_PARTS: Final[dict[str, type[BaseModel]]] = {"repairs": RepairPolicy, "events": IgnoredEvents}


class ReconcilerSources:
    """The sources outside the ledger that a reconciler reads, and what it may repair of kinds.

    `ignored_events` are tenant and type of events that no rule has to read.
    """

    def __init__(
        self,
        populations: tuple[PopulationReader, ...] = (),
        evidence: tuple[EvidenceReader, ...] = (),
        policies: RepairPolicies | None = None,
        ignored_events: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.populations = populations
        self.evidence = evidence
        self.policies = policies or RepairPolicies()
        self.ignored_events = ignored_events


def _unreadable(path: Path, reason: str) -> InvalidSetting:
    return InvalidSetting(
        "The file of sources cannot be read.", [Problem("sources", str(path), reason)]
    )


def _problem(found: ErrorDetails) -> Problem:
    """Return a problem without the name of an unknown field, which may be an address."""
    location = found["loc"]
    names: list[str] = sorted(SourcesFile.model_fields)
    if location and (part := _PARTS.get(str(location[0]))):
        names = sorted(part.model_fields) if len(location) > _AT_KIND else names
    elif len(location) > _AT_KIND:
        names = sorted(_KINDS[str(location[_AT_KIND])].model_fields)
        location = (*location[:_AT_KIND], *location[_AT_KIND + 1 :])
    if found["type"] not in _UNKNOWN_FIELD:
        return Problem(".".join(map(str, location)) or "document", "", found["msg"])
    *outer, name = map(str, location)
    accepted = get_close_matches(name, names, n=1) or names
    place = ".".join(outer) or "document"
    return Problem(place, "", "has a field that does not exist", ", ".join(accepted))


def load_sources(path: Path | None) -> ReconcilerSources:
    """Read the file of sources. Raises InvalidSetting naming the field, without addresses."""
    if path is None:
        return ReconcilerSources()
    try:
        text = read_text(path, SOURCES_BYTES_MAX)
        if too_deep_at(text, values_max=_VALUES_MAX) is not None:
            reason = f"nested deeper than {DEPTH_MAX}, or more than {_VALUES_MAX:,} values"
            raise _unreadable(path, reason)
        document: object = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
        file = SourcesFile.model_validate(document)
    except UnreadableFile as error:
        raise _unreadable(path, error.reason) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise InvalidSetting(
            "The file of sources is not YAML.", [Problem("sources", str(path), f"malformed{where}")]
        ) from None
    except ValidationError as error:
        problems = [_problem(found) for found in error.errors()[:_PROBLEMS_MAX]]
        raise InvalidSetting("The file of sources is not usable.", problems) from None
    except ValueError:  # a date that YAML has and Python has not; its text may be a password
        raise _unreadable(path, "a value that is no number, date or text") from None
    folder, sources = path.parent, file.sources
    return ReconcilerSources(
        tuple(each.reader(folder) for each in sources if isinstance(each, PopulationSource)),
        tuple(each.reader(folder) for each in sources if isinstance(each, EvidenceSource)),
        file.policies(),
        file.ignored_events(),
    )
