"""Suggestions of fields that filter: names that the reader may mean."""

from collections.abc import Mapping, Sequence
from typing import Final

from dueledger.ledger.store.kinds import list_kinds
from dueledger.ledger.store.processes import ProcessRole, list_processes
from dueledger.ledger.store.search import list_definition_names, list_lanes
from dueledger.ledger.visible_text import visible
from dueledger.service.calls import ApiCall

KINDS_MAX: Final = 200
"""Kinds read for suggestions. Others may be typed all the same."""
FLOWS_MAX: Final = 500
VERSIONS_MAX: Final = 500
PROCESSES_MAX: Final = 200
_WORKERS: Final = {ProcessRole.WORKER, ProcessRole.DIRECT_WORKER}


async def suggest_names(call: ApiCall) -> Mapping[str, Sequence[str]]:
    """Return names by the field that takes them: tenants and kinds that the caller may see."""
    rows = await list_kinds(call.connection, KINDS_MAX, tenants=call.tenants)
    return {
        "tenant": list(dict.fromkeys(row["tenant"] for row in rows)),
        "kind": sorted({row["kind"] for row in rows}),
    }


async def suggest_item_names(call: ApiCall) -> Mapping[str, Sequence[str]]:
    """Return names for the fields that filter items: also lanes, definitions and workers.

    Workers work for all tenants: a caller for some of them is given none. A name with characters
    that cannot be seen is left out.
    """
    connection, tenants = call.connection, call.tenants
    processes = await list_processes(connection, PROCESSES_MAX) if tenants is None else ()
    lanes = await list_lanes(connection, tenants=tenants, read_max=FLOWS_MAX)
    definitions = await list_definition_names(connection, tenants=tenants, read_max=VERSIONS_MAX)
    return {
        **await suggest_names(call),
        "lane": [each for each in lanes if visible(each) == each],
        "definition": [each for each in definitions if visible(each) == each],
        "worker": [each.name for each in processes if each.role in _WORKERS],
    }
