"""Suggestions of fields that filter: names that the reader may mean."""

from collections.abc import Mapping, Sequence
from typing import Final

from dueledger.ledger.store.kinds import list_kinds
from dueledger.service.calls import ApiCall

KINDS_MAX: Final = 200
"""Kinds read for suggestions. Others may be typed all the same."""


async def suggest_names(call: ApiCall) -> Mapping[str, Sequence[str]]:
    """Return names by the field that takes them: tenants and kinds that the caller may see."""
    rows = await list_kinds(call.connection, KINDS_MAX, tenants=call.tenants)
    return {
        "tenant": list(dict.fromkeys(row["tenant"] for row in rows)),
        "kind": sorted({row["kind"] for row in rows}),
    }
