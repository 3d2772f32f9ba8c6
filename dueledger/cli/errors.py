"""Errors, mapped once to what is printed and to the exit code."""

from io import StringIO
from typing import TYPE_CHECKING, Final, cast

import typer

from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.output import print_document, say_lines
from dueledger.ledger.visible_text import visible

if TYPE_CHECKING:
    from dueledger.failures import Failure

_USAGE_ERROR: Final = typer.BadParameter.mro()[1]
"""The class of all usage errors. Its module differs between Typer's releases."""


def describe(error: Exception) -> "Failure | None":
    """Return the description of an error.

    None if it is a defect in Dueledger, or if nobody reads the output any more.
    """
    from dueledger import failures

    match error:
        case _ if isinstance(error, _USAGE_ERROR):
            refused = cast("typer.BadParameter", error)
            return failures.Failure(ExitCode.USAGE, "USAGE", refused.format_message(), {})
        case OSError() if error.filename is not None:  # one of a connection has none
            message = visible(f"{error.filename}: {error.strerror}. Give another path.")
            details: dict[str, object] = {"path": str(error.filename)}
            return failures.Failure(ExitCode.USAGE, "FILE_UNREADABLE", message, details)
        case _:
            return failures.describe(error)


def report_error(error: Exception, *, as_json: bool) -> ExitCode | None:
    """Print an error and return the exit code; None for a defect, of which nothing is printed."""
    if isinstance(error, _USAGE_ERROR) and not as_json:
        shown = StringIO()
        cast("typer.BadParameter", error).show(shown)
        say_lines(shown.getvalue().removesuffix("\n"))
        return ExitCode.USAGE
    failure = describe(error)
    if failure is not None:
        report(failure, as_json=as_json)
    return None if failure is None else ExitCode(failure.exit_code)


def report(failure: "Failure", *, as_json: bool) -> None:
    """Print an error on stderr and, with `as_json`, as a document on stdout."""
    say_lines(f"error {failure.code}: {failure.message}")
    if as_json:
        document = {"code": failure.code, "detail": failure.message, "details": failure.details}
        print_document({"error": document})
