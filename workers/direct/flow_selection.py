"""Which flows of its handlers' kinds a direct worker claims."""

from typing import Protocol

from dueledger.ledger.store.claims import DueFlow
from dueledger.ledger.store.processes import KindTenants


class FlowSelection(Protocol):
    """A choice among the flows of kinds that several tenants have."""

    @property
    def kind_tenants(self) -> KindTenants:
        """The tenants whose flows of each kind are claimed now."""
        ...

    def admits(self, flow: DueFlow) -> bool:
        """Return whether the items of a flow are claimed."""
        ...
