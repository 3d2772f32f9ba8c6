"""The flows that share the capacity of a topic, as the flow queue groups them."""

from typing import NamedTuple

from dueledger.ledger.store.claims import DueFlow


class AdmissionGroup(NamedTuple):
    """Flows that share capacity: those of a topic that need credit, or those that need none.

    `counted` flows have groups of their own, because few of them are admitted at once.
    """

    topic: str
    needs_credit: bool
    counted: bool

    @property
    def pool(self) -> tuple[str, bool]:
        """The key of the capacity that groups share: topic, and whether credit is needed."""
        return self.topic, self.needs_credit


def admission_group_of(flow: DueFlow) -> AdmissionGroup:
    """Return the admission group of a flow."""
    return AdmissionGroup(flow.topic, not flow.settled_by_topic, flow.is_counted)
