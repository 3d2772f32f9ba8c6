"""Query parameters of a route: others are refused, since they would filter nothing."""

from collections import Counter
from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant

from dueledger.ledger.errors import InvalidInput, Problem


def query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the parameters that a route takes, and what it depends on."""
    yield from (each.alias for each in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from query_parameters(dependency)


def check_query(request: Request, known: frozenset[str]) -> None:
    """Raise InvalidInput for parameters that would filter nothing.

    They are misspelt, or given again: the framework takes the last one.
    """
    accepted = " | ".join(sorted(known)) or None
    given = Counter(name for name, _ in request.query_params.multi_items())
    problems = [
        Problem(name, "", "it is given more than once", "one value")
        if name in known
        else Problem(name, "", "there is no such parameter", accepted or "none")
        for name, count in given.items()
        if name not in known or count > 1
    ]
    if problems:
        raise InvalidInput("The request has parameters that the route does not take.", problems)
