"""Calendars that definitions name, for commands that need no database: of files or the ledger."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dueledger.cli import options
from dueledger.cli.session import ledger_connection, run

if TYPE_CHECKING:
    from dueledger.ledger.definitions.parsing import Definition


def add_named_calendars(
    definitions: "Sequence[Definition]",
    pairs: Sequence[str] | None,
    terms: tuple[str | None, str | None, str | None],
    dsn: str | None,
) -> "list[Definition]":
    """Give definitions the calendars they name; `terms`: --weekend, --valid-from, --valid-to.

    The ledger is asked only for what no file gives, and needs an address then.
    """
    from dueledger.calendars.files import CalendarFileOptions, read_given
    from dueledger.definitions.named_calendars import add_given_calendars

    weekend, valid_from, valid_to = terms
    first = None if valid_from is None else options.read_date(valid_from, "--valid-from")
    last = None if valid_to is None else options.read_date(valid_to, "--valid-to")
    given = read_given(pairs or (), CalendarFileOptions(weekend, first, last))
    observing = add_given_calendars(definitions, given)
    if all(one.calendar_name is None or one.calendar_name in given for one in observing):
        return observing
    return _observe_ledger(observing, list(given), dsn)


def _observe_ledger(
    definitions: "Sequence[Definition]", given: list[str], dsn: str | None
) -> "list[Definition]":
    from dueledger.definitions.named_calendars import add_ledger_calendars
    from dueledger.ledger.errors import InvalidSetting, Problem

    async def observe() -> "list[Definition]":
        async with ledger_connection(dsn) as connection:
            unnamed = [one for one in definitions if one.calendar_name not in given]
            found = iter(await add_ledger_calendars(connection, unnamed))
            return [one if one.calendar_name in given else next(found) for one in definitions]

    try:
        return run(observe())
    except InvalidSetting as error:
        names = sorted({one.calendar_name or "" for one in definitions} - {"", *given})
        problem = Problem(
            "--calendar",
            ", ".join(names),
            "named by the definition, and no file has it",
            "--calendar NAME=FILE",
        )
        raise InvalidSetting(error.message.split("\n")[0], [problem, *error.problems]) from None
