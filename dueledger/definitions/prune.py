"""End the definitions that an earlier import made and that a later one makes no longer."""

from collections.abc import Sequence
from typing import Final

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.store import Connection
from dueledger.ledger.store.definitions import list_source_definitions

_PAGE_SIZE: Final = 1_000


async def find_pruned(
    connection: Connection, definitions: Sequence[Definition], source: str
) -> list[Definition]:
    """Return an ended version of each definition of `source` that is not among `definitions`.

    Only tenants of these are looked at. Raises InvalidInput if none of them names the source: then
    it is probably misspelt, and everything of it would end.
    """
    tenants = sorted({one.tenant for one in definitions if one.source == source})
    if not tenants:
        sources = sorted({one.source for one in definitions if one.source})
        accepted = " or ".join(sources) or "files that `dueledger import` wrote"
        problem = Problem("--prune", source, "no given definition has this source", accepted)
        raise InvalidInput("Nothing can be ended:", [problem])
    given = {(one.tenant, one.definition) for one in definitions}
    pruned: list[Definition] = []
    after = ("", "")
    while page := await list_source_definitions(
        connection, tenants, source, after=after, limit=_PAGE_SIZE
    ):
        names = [(document["tenant"], document["definition"]) for document in page]
        pruned += [
            parse_definition(document | {"ended": True}, source=source, calendars=None)
            for name, document in zip(names, page, strict=True)
            if name not in given
        ]
        after = names[-1]
    return pruned
