"""Text that is shown: invisible characters as escapes, in messages, logs, tables and pages."""

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO

import pytest
import structlog
import yaml
from rich.console import Console

from dueledger.cli import output
from dueledger.demo.progress_view import KindProgress, LiveView, PlainView, Progress
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.runtime.log import configure, get_logger
from dueledger.ledger.visible_text import escape_json, visible, visible_lines
from tests.hostile_text import ESCAPED, HOSTILE, SHOWN, unsafe_characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich – 東京 👍 a\u00a0b", "Zürich – 東京 👍 a\u00a0b"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x1b\x7f\x85\x9b", r"\x00\x1b\x7f\x85\x9b"),
        ("\u200b\u202e\u2028\ufeff\U000e0041", r"\u200b\u202e\u2028\ufeff\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_invisible_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible_lines(f"{text}\n{text}").split("\n")[-1] == shown.rpartition("\n")[2].replace(
        r"a\nb", "b" if "\n" in text else r"a\nb"
    )


def test_json_and_yaml_keep_their_meaning() -> None:
    document = {HOSTILE: [HOSTILE, "\U000e0041", 'quoted "\\u202e"']}
    text = escape_json(json.dumps(document, ensure_ascii=False))
    assert unsafe_characters(text) == set()
    assert json.loads(text) == document
    written = visible_lines('"\u202e\U000e0041\x9b"\n')
    assert yaml.safe_load(written) == "\u202e\U000e0041\x9b"


def test_a_problem_is_one_line_whatever_its_value_has() -> None:
    error = InvalidInput("Refused:", [Problem(HOSTILE, HOSTILE, HOSTILE, HOSTILE)])
    assert len(error.message.split("\n")) == 2
    assert unsafe_characters(error.message) == set()


def test_a_table_shows_data_as_text_and_says_how_much_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"key": HOSTILE, "long": HOSTILE + "k" * 10_000, "nested": {HOSTILE: [HOSTILE]}}]
    output.print_rows(rows, ("key", "long", "nested"), empty="")
    table = capsys.readouterr().out
    assert table.count("k") < output.CELL_CHARS_MAX
    assert "--json" in table
    assert unsafe_characters(table) == set()
    output.print_fields({"key": HOSTILE, "nested": {HOSTILE: [HOSTILE]}})
    output.print_document(rows[0])
    output.say(HOSTILE)
    shown = capsys.readouterr()
    assert unsafe_characters(shown.out + shown.err) == set()
    assert SHOWN in shown.err
    assert ESCAPED in shown.err


def test_half_a_surrogate_pair_is_printed_as_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_document({"file\udcff": ["\ud800", ("x",)]})
    assert json.loads(capsys.readouterr().out) == {r"file\udcff": [r"\ud800", ["x"]]}


@contextmanager
def readable_log() -> Generator[None]:
    """Write readable lines to stderr; afterwards logs go where they went before."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # or they would be closed
    configure(json=False)
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.basicConfig(handlers=handlers, level=level, force=True)


def test_log_lines_on_a_terminal_have_no_commands_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with readable_log():
        get_logger("test").info("item.failed", key=HOSTILE, nested=[HOSTILE])
        logging.getLogger("library").warning("%s failed", HOSTILE)
        try:
            int(HOSTILE, 10)
        except ValueError:
            get_logger("test").exception("tick.failed", reason=HOSTILE)
    shown = capsys.readouterr().err
    assert unsafe_characters(shown) == set()
    assert shown.count(ESCAPED) >= 3
    assert "Traceback (most recent call last):\n" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_the_demo_s_progress_shows_text(*, terminal: bool) -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=300)
    progress = Progress(
        datetime(2027, 3, 1, tzinfo=UTC), [KindProgress(HOSTILE, HOSTILE, 1, None, 2, 3, 4, 5, 6)]
    )
    view = LiveView(console) if terminal else PlainView(console)
    view.say(HOSTILE)
    view.show(progress)
    assert unsafe_characters(screen.getvalue()) == set()
    assert SHOWN in screen.getvalue()
