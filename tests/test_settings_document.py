"""Two pages have every setting of every process; `make schema` writes them."""

import os
from collections.abc import Iterator, Mapping
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import annotated_types
import pytest
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from dueledger.alerts.settings import AlertSettings
from dueledger.allocator import AllocatorSettings
from dueledger.definitions.topic_rules import TopicSettings
from dueledger.ledger.intake import EventIntakeSettings
from dueledger.ledger.materialise import MaterialiserSettings
from dueledger.ledger.outbox import RelaySettings
from dueledger.ledger.runtime.kafka_settings import KafkaSettings, variable_of
from dueledger.ledger.runtime.settings import Settings
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.service import ServiceSettings
from dueledger.workers.direct import DirectSettings
from dueledger.workers.http import HttpSettings
from dueledger.workers.http.allow_list import AllowedOrigin
from dueledger.workers.outcomes import OutcomeIntakeSettings
from dueledger.workers.settings import WorkerSettings

DOCS: Final = Path(__file__).parent.parent / "docs"
INTRODUCTION: Final = """\
# Settings

This page has the settings of every process, of allocators and of workers. Those of other processes
are [on a page of their own](settings-of-other-processes.md).

Every setting is a variable of the environment. `make schema` writes this page from the classes that
read them. A value outside its bounds is refused before anything starts; the message names the
setting, never its value. **Secret** values are in no log, message or list: give them by a file or a
reference where you can. A list or a map is JSON unless its line says otherwise.

What decides about items (retries, deadlines, topics, weights) is in [definitions](schedules.md) and
[flows](flows.md#controlling-flows), the same for all processes. `DUELEDGER_ACTOR` names the
person in the journal for commands.
"""
OTHERS_INTRODUCTION: Final = """\
# Settings of other processes

Intake, materialiser, reconciler, relay, alerts and the service. They read the
[settings of every process](settings.md), too. `make schema` writes this page.
"""
Sections = Mapping[type[BaseSettings], tuple[str, str]]
SECTIONS: Final[Sections] = {
    Settings: ("Every process", "every process, and commands that reach Postgres"),
    KafkaSettings: ("Kafka", "every process with Kafka, `dueledger doctor`, `dueledger repair`"),
    AllocatorSettings: ("Allocator", "`dueledger allocate`"),
    WorkerSettings: ("Workers", "`dueledger work …`, all but `--outcomes`"),
    DirectSettings: ("Workers without Kafka", "`dueledger work --direct …`"),
    HttpSettings: ("Workers that send by HTTP", "`dueledger work --http`, with `--direct`, too"),
    OutcomeIntakeSettings: ("Outcome intake", "`dueledger work --outcomes`"),
    TopicSettings: ("Definitions", "`dueledger define`"),
}
OTHERS: Final[Sections] = {
    EventIntakeSettings: ("Event intake", "`dueledger intake`"),
    MaterialiserSettings: ("Materialiser", "`dueledger materialise`"),
    ReconcilerSettings: ("Reconciler", "`dueledger reconcile`, `dueledger repair`"),
    RelaySettings: ("Relay", "`dueledger relay`"),
    AlertSettings: ("Alerts", "`dueledger alert`"),
    ServiceSettings: ("REST interface", "`dueledger serve`"),
}
PAGES: Final = (
    (DOCS / "settings.md", INTRODUCTION, SECTIONS),
    (DOCS / "settings-of-other-processes.md", OTHERS_INTRODUCTION, OTHERS),
)
UNITS: Final = ("seconds", "days", "bytes", "items", "records", "events", "runs", "flows")
TYPES: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    SecretStr: "text, **secret**",
    AllowedOrigin: "text",
    IPv4Address: "address",
    IPv6Address: "address",
    IPv4Network: "network",
    IPv6Network: "network",
}


def type_text(annotation: Any) -> str:  # noqa: ANN401 - an annotation
    """Return what a person writes for a value of this type."""
    first, *others = [*get_args(annotation), None]
    match get_origin(annotation):
        case None if annotation in TYPES:
            text = TYPES[annotation]
        case None if issubclass(annotation, Enum):
            text = "one of " + ", ".join(f"`{each.value}`" for each in annotation)
        case None:
            assert issubclass(annotation, Path), annotation
            text = "path"
        case origin if origin is Annotated:
            text = type_text(first)
        case origin if origin is Literal:
            text = "one of " + ", ".join(f"`{each}`" for each in get_args(annotation))
        case origin if origin in {Union, UnionType}:
            given = [each for each in get_args(annotation) if each is not NoneType]
            text = " or ".join(dict.fromkeys(type_text(each) for each in given))
        case origin if origin is tuple:
            text = f"list of {type_text(first)}"
        case _:
            text = f"map of text to {type_text(others[0])}"
    return text


def bounds_text(field: FieldInfo) -> str:
    """Return the bounds of a number, as `1 … 1,000`."""
    least = next((f"{m.ge:,}" for m in field.metadata if isinstance(m, annotated_types.Ge)), "")
    above = next((f"> {m.gt:,}" for m in field.metadata if isinstance(m, annotated_types.Gt)), "")
    most = next((f"{m.le:,}" for m in field.metadata if isinstance(m, annotated_types.Le)), "")
    return " … ".join(each for each in (least or above, most) if each)


def default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    assert default is not PydanticUndefined
    match default:
        case None | () | {}:
            return "–"
        case bool():
            return str(default).lower()
        case int() | float():
            return f"{default:,}"
        case Enum():
            return f"`{default.value}`"
        case _:
            return f"`{default}`"


def unit_of(name: str) -> str:
    """Return the unit that the name ends in, but for a limit's `_max`."""
    return next((each for each in UNITS if name.removesuffix("_max").endswith(each)), "–")


def own_fields(section: type[BaseSettings]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields that no class above this one has."""
    for name, field in section.model_fields.items():
        if not any(name in getattr(each, "model_fields", {}) for each in section.__mro__[1:]):
            yield name, field


def document(introduction: str, sections: Sections) -> str:
    """Return a page with a table for each class."""
    lines = [introduction]
    for section, (title, used_by) in sections.items():
        lines += [f"## {title}", f"Read by {used_by}.", ""]
        lines += ["| variable | type | unit | bounds | default | |", "|---|---|---|---|---|---|"]
        for name, field in own_fields(section):
            annotation: Any = field.annotation
            cells = (
                f"`{variable_of(name)}`",
                type_text(annotation),
                unit_of(name),
                bounds_text(field) or "–",
                default_text(field),
                field.description or "",
            )
            lines.append("| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def classes_below(root: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    for each in root.__subclasses__():
        if each.__module__.startswith("dueledger."):
            yield each
        yield from classes_below(each)


def test_docs_show_every_setting() -> None:
    for path, introduction, sections in PAGES:
        text = document(introduction, sections)
        if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, "run `make schema`"


def test_each_class_of_settings_has_a_section_and_each_setting_a_description() -> None:
    with_fields = {each for each in classes_below(BaseSettings) if list(own_fields(each))}
    assert with_fields == SECTIONS.keys() | OTHERS.keys()
    for section in with_fields:
        for name, field in own_fields(section):
            assert field.description, name


@pytest.mark.parametrize("name", ["dsn", "outbox_dsn", "kafka_sasl_password", "http_secrets"])
def test_secrets_are_marked(name: str) -> None:
    texts = [document(introduction, sections) for _, introduction, sections in PAGES]
    lines = "".join(texts).splitlines()
    [line] = [each for each in lines if f"`{variable_of(name)}`" in each]
    assert "**secret**" in line
