"""Text that harms the terminal that shows it, and what may never reach a terminal."""

from typing import Final

from dueledger.ledger.visible_text import is_invisible

HOSTILE: Final = (
    "[/x][red]<script>alert(1)</script>\x1b]0;title\x07\x1b[31m\x9b2J\u202edrow\r\nForged\u2066\x7f"
)
"""Markup of Rich and HTML, commands of terminals, a changed order of reading, a second line."""

SHOWN: Final = r"[/x][red]"
ESCAPED: Final = r"\x1b[31m"


def unsafe_characters(text: str) -> set[str]:
    """Return the invisible characters of what was shown, but for the ends of its lines."""
    return {each for each in text if each != "\n" and is_invisible(each)}
