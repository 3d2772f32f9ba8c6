r"""Text as it is shown: characters that have no glyph, or change how others are shown, are escaped.

A business key, a reason or a file may contain them. On a terminal ESC would start a command, a
bidirectional override would change the order of what is read, and a newline would forge a line.
"""

from typing import Final
from unicodedata import category

INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, format characters, surrogates, and the separators of lines and paragraphs."""

_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ONE_BYTE_MAX: Final = 0xFF
_BMP_MAX: Final = 0xFFFF


def is_invisible(character: str) -> bool:
    """Return whether a character has no glyph of its own."""
    return category(character) in INVISIBLE_CATEGORIES


def visible(text: str) -> str:
    r"""Return `text` as one line, each invisible character as an escape such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(_escape(each) if is_invisible(each) else each for each in text)


def visible_lines(text: str) -> str:
    """Return `text` with its line breaks, all other invisible characters escaped."""
    if text.isprintable():
        return text
    return "\n".join(visible(line) for line in text.split("\n"))


def escape_json(document: str) -> str:
    """Return a JSON document with the same meaning and lines, and only visible characters.

    Other invisible characters are in its strings, where JSON has an escape for each.
    """
    return "\n".join(
        line
        if line.isprintable()
        else "".join(_escape_utf16(each) if is_invisible(each) else each for each in line)
        for line in document.split("\n")
    )


def _escape(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if number <= _ONE_BYTE_MAX:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _BMP_MAX else f"\\U{number:08x}"


def _escape_utf16(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
