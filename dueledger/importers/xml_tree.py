"""XML files of strangers as trees: without document types, so that no entity can be declared."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers.expat import ExpatError, ParserCreate

from dueledger.ledger.errors import InvalidInput, Problem

_DEPTH_MAX: Final = 32
_ELEMENTS_MAX: Final = 200_000


@dataclass(slots=True)
class XmlElement:
    """An element: its name without a namespace, where it begins, and what is in it."""

    name: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    text: str = ""
    children: list["XmlElement"] = field(default_factory=list["XmlElement"])

    def walk(self) -> Iterator["XmlElement"]:
        """Yield this element and all inside it."""
        yield self
        for each in self.children:
            yield from each.walk()

    def child(self, name: str) -> "XmlElement | None":
        """Return the first element of a name inside this one."""
        return next((each for each in self.children if each.name == name), None)

    def value(self, name: str) -> str | None:
        """Return the text of the first element of a name, None if it has none."""
        found = self.child(name)
        return (found.text.strip() or None) if found is not None else None


def parse_xml(text: str, path: Path) -> XmlElement:
    """Return the root of a document.

    Raises InvalidInput if it is not XML, has a document type, or is too deep or too large.
    """
    parser = ParserCreate("utf-8")  # whatever it declares: the text was decoded
    root = XmlElement("", 0)
    open_elements, count = [root], 0

    def refuse(reason: str) -> NoReturn:
        where = f"line {parser.CurrentLineNumber}"
        problem = Problem(where, "", reason, "XML without a document type")
        raise InvalidInput(f"{path} cannot be read:", [problem], source=str(path))

    texts: list[list[str]] = [[]]

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(open_elements) > _DEPTH_MAX or count > _ELEMENTS_MAX:
            refuse("nested too deep, or has too many elements")
        element = XmlElement(tag.rpartition(":")[2], parser.CurrentLineNumber, attributes)
        open_elements[-1].children.append(element)
        open_elements.append(element)
        texts.append([])

    def end(_: str) -> None:
        open_elements.pop().text = "".join(texts.pop())

    def add_text(some: str) -> None:
        texts[-1].append(some)

    def refuse_type(*_: object) -> None:
        refuse("has a document type")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse_type
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 - expat's own interface
    except ExpatError as error:
        problem = Problem(f"line {error.lineno}", "", "is not XML", "a file that is well-formed")
        raise InvalidInput(f"{path} cannot be read:", [problem], source=str(path)) from None
    [found] = root.children
    return found
