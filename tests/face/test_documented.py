import os
import subprocess
import sys
from pathlib import Path

from tests.document_blocks import blocks_of


def test_the_documented_handlers_pass_their_documented_tests(tmp_path: Path) -> None:
    name = "test_the_documented_handlers_pass_their_documented_tests"
    for block in blocks_of("docs/handlers.md", run_by=name):
        tmp_path.joinpath(block.how["file"]).write_text(block.text, encoding="utf-8")
    ran = subprocess.run(  # this interpreter, on the document's code
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reminders.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout
