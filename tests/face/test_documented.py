import os
import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2].joinpath("docs", "handlers.md").read_text("utf-8")
HANDLERS, TESTS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_documented_handlers_pass_their_documented_tests(tmp_path: Path) -> None:
    tmp_path.joinpath("reminders.py").write_text(HANDLERS, encoding="utf-8")
    tmp_path.joinpath("test_reminders.py").write_text(TESTS, encoding="utf-8")
    ran = subprocess.run(  # this interpreter, on the document's code
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reminders.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout
