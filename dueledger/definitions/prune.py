"""End the definitions that an earlier import made and that a later one makes no longer."""

from collections.abc import Sequence
from typing import Final

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.store import Connection
from dueledger.ledger.store.definitions import list_source_definitions

_PRUNED_MAX: Final = 10_000


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
    documents = await list_source_definitions(connection, tenants, source, limit=_PRUNED_MAX)
    given = {(one.tenant, one.definition) for one in definitions}
    return [
        parse_definition(document | {"ended": True}, source=source, calendars=None)
        for document in documents
        if (document["tenant"], document["definition"]) not in given
    ]
