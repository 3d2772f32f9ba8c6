"""The `dueledger` command."""

import os
import select
import sys
from collections.abc import Sequence
from typing import Final

from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.version import print_version

_VERSION_ARGUMENTS: Final = (["version"], ["version", "--json"], ["--version"])
"""Answered without importing Typer, which would take most of the time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except BrokenPipeError:
        if not _output_is_closed():
            raise
        return ExitCode.FAILED


def _run(given: Sequence[str]) -> int:
    if given in _VERSION_ARGUMENTS:
        print_version(as_json="version" in given)
        return ExitCode.DONE
    from dueledger.cli.app import app

    as_json = "--json" in given
    for number, text in enumerate(given, 1):
        if text != text.encode(errors="ignore").decode():
            from dueledger.cli.errors import report
            from dueledger.failures import Failure

            message = f"Argument {number} is not UTF-8: {text!a}"
            report(Failure(ExitCode.USAGE, "USAGE", message, {}), as_json=as_json)
            return ExitCode.USAGE
    try:
        # Nobody else shows an error: Typer would write what it was given as it is.
        ended: object = app(given, prog_name="dueledger", standalone_mode=False)
    except SystemExit as ending:
        return _code(ending.code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        from dueledger.cli.errors import report_error

        code = report_error(error, as_json=as_json)
        if code is None:
            raise
        return code
    return ended if isinstance(ended, int) else ExitCode.DONE


def _output_is_closed() -> bool:
    """Return whether nobody reads stdout any more; what it still has is then discarded."""
    output = select.poll()
    output.register(sys.stdout, 0)  # errors are reported in any case
    if not output.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _code(code: str | int | None) -> int:
    match code:
        case None:
            return ExitCode.DONE
        case int():
            return code
        case str():
            sys.stderr.write(code + "\n")
            return ExitCode.FAILED
