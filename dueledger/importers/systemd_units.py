"""Unit files of systemd: `.timer` files with their drop-ins, or what `systemctl cat` prints.

Sources: systemd.syntax(7) for lines, systemd.unit(5) for the order of drop-ins.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text

TIMER: Final = ".timer"

_LINE_CHARS_MAX: Final = 4_096
_TYPES: Final = "automount|device|mount|path|scope|service|slice|socket|swap|target|timer"
_HEADER: Final = re.compile(
    rf"# /(?:\S+/)?(?P<unit>(?:[^/\s]+\.)?(?:{_TYPES}))(?P<drop_in>\.d/[^/\s]+\.conf)?", re.ASCII
)
_SECTION: Final = re.compile(r"\[(?P<name>[^\]]+)\]")
_SETTING: Final = re.compile(r"(?P<name>[A-Za-z]+)\s*=\s*(?P<value>.*)", re.ASCII)
_ENABLING: Final = frozenset((".wants", ".requires"))


@dataclass(frozen=True, slots=True)
class UnitLine:
    """One line of a unit with its place. `name` is empty if it is not a setting."""

    where: str
    section: str
    name: str
    value: str


@dataclass(slots=True)
class TimerUnit:
    """A timer and its lines, those of drop-ins last."""

    name: str
    where: str
    lines: list[UnitLine] = field(default_factory=list[UnitLine])


def read_units(file: Path, where: str, seen: set[Path]) -> list[TimerUnit]:
    """Return the timers of a file with its drop-ins, which are added to `seen`.

    Raises InvalidInput if a file cannot be read.
    """
    parts = [_located(file, where)]
    for drop_in in _drop_ins(file, seen):
        beside = drop_in.parent.parent == file.parent
        place = Path(where).with_name(drop_in.parent.name) / drop_in.name if beside else drop_in
        parts.append(_located(drop_in, str(place)))
    units: dict[str, TimerUnit] = {}
    for part in parts:
        _read_lines(part, TimerUnit(file.name, where), units)
    if not units and file.name.endswith(TIMER):  # empty: systemd's way to mask it
        return [TimerUnit(file.name, where)]
    return list(units.values())


def real_path(path: Path) -> Path:
    """Return the file to which links lead; unlike `resolve`, it raises nothing for a circle."""
    return Path(os.path.realpath(path))


def is_link_within(file: Path, folder: Path) -> bool:
    """Return whether a unit is a link to another one below the folder, which is read itself.

    A link to a template is an instance of it.
    """
    target = real_path(file)
    of_template = target.stem.endswith("@")
    within = target.is_relative_to(real_path(folder)) and target.suffix == TIMER
    return file.is_symlink() and within and target.is_file() and not of_template


def _located(file: Path, where: str) -> list[tuple[str, str]]:
    text = read_text(file, DEFINITION_BYTES_MAX)
    return [(f"{where}:{number}", line) for number, line in enumerate(text.split("\n"), start=1)]


def _drop_ins(file: Path, seen: set[Path]) -> list[Path]:
    """Return the drop-ins of a unit by their names, in whichever of its folders they are.

    The more specific folder wins: `a-b@c.timer.d`, `a-b@.timer.d`, `a-.timer.d`, `timer.d`. Those
    of a link are beside it, beside the folder that enables it, and beside the unit itself.
    """
    parents = [real_path(file).parent, file.parent]
    parents += [file.parent.parent] if file.parent.suffix in _ENABLING else []
    stem, _, instance = file.stem.partition("@")
    folders = ["timer.d"]
    folders += [f"{stem[: at + 1]}.timer.d" for at, each in enumerate(stem) if each == "-"]
    folders += [f"{stem}@.timer.d"] if instance else []
    folders.append(f"{file.name}.d")
    chosen: dict[str, Path] = {}
    for folder in folders:
        for drop_in in (one for parent in parents for one in (parent / folder).glob("*.conf")):
            seen.add(real_path(drop_in))
            chosen[drop_in.name] = drop_in
    # A link to /dev/null masks those of the same name.
    return [chosen[name] for name in sorted(chosen) if chosen[name].is_file()]


def _read_lines(
    lines: Sequence[tuple[str, str]], of_file: TimerUnit, units: dict[str, TimerUnit]
) -> None:
    """Add the lines of a file to their units; what `systemctl cat` prints has a header for each."""
    current, section = of_file.name, ""
    for where, text in _joined(lines):
        if header := _HEADER.fullmatch(text):
            # Drop-ins of a prefix or a type follow the unit that they are printed for.
            of_unit = header["unit"].endswith(TIMER) or "/systemd/" in text
            if header["unit"] in units or (of_unit and not header["drop_in"]):
                current = header["unit"]
            section = ""
            if current.endswith(TIMER):
                units.setdefault(current, TimerUnit(current, where))
        elif found := _SECTION.fullmatch(text):
            section = found["name"]
        elif text.startswith(("#", ";")) or not text:
            continue
        elif current.endswith(TIMER) or current == of_file.name:
            found = _SETTING.fullmatch(text)
            name, value = (found["name"], found["value"].strip()) if found else ("", text)
            unit = units.setdefault(current, TimerUnit(current, of_file.where))
            unit.lines.append(UnitLine(where, section, name, value))


def _joined(lines: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each line with those that a backslash adds to it; comments between are left out."""
    place, joined = "", ""
    for where, line in lines:
        text = line[:_LINE_CHARS_MAX].strip()
        if joined and text.startswith(("#", ";")):
            continue
        place, text = (place, joined + text) if joined else (where, text)
        if text.endswith("\\") and not text.startswith(("#", ";")):
            joined = text[:-1][:_LINE_CHARS_MAX] + " "
            continue
        joined = ""
        yield place, text
    if joined:
        yield place, joined.strip()
