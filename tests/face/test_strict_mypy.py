"""The code of a domain team passes `mypy --strict`, and pyright too."""

import re
import subprocess
import sys
from pathlib import Path

from tests.document_blocks import blocks_of

ROOT = Path(__file__).parents[2]
CONFIG = """
[mypy]
strict = true
[mypy-dueledger.*]
follow_imports = silent
[mypy-asyncpg.*]
ignore_missing_imports = true
"""


def _python_of(page: str) -> list[str]:
    return [block.text for block in blocks_of(page) if block.language == "python"]


def test_strict_mypy_accepts_documented_handlers_and_refuses_the_same_mistakes_as_pyright(
    tmp_path: Path,
) -> None:
    _, handler = _python_of("README.md")
    documented, tests = _python_of("docs/handlers.md")
    program, application = _python_of("docs/embedding.md")
    usage = (ROOT / "tests/typed_usage/handlers.py").read_text("utf-8")
    files = {
        "readme_handler.py": handler,
        "reminders.py": documented,
        "program.py": program,
        "application.py": application,
        "test_reminders.py": tests,
        "usage.py": usage,
        "mypy.ini": CONFIG,
    }
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text, encoding="utf-8")
    checked = subprocess.run(  # noqa: S603  # mypy, on our own documents
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file=mypy.ini",
            *sorted(set(files) - {"mypy.ini"}),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = re.findall(r"^(\w+\.py):(\d+): error", checked.stdout, re.MULTILINE)
    mistakes = [
        ("usage.py", str(number))
        for number, line in enumerate(usage.splitlines(), 1)
        if "pyright: ignore" in line
    ]
    assert refused == mistakes, checked.stdout + checked.stderr
