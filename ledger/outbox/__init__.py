"""The relay: carries the committed rows of a service's outbox to the ledger."""

from dueledger.ledger.outbox.process import open_relay, run_relay
from dueledger.ledger.outbox.relay import Relay
from dueledger.ledger.outbox.settings import RelaySettings

__all__ = ["Relay", "RelaySettings", "open_relay", "run_relay"]
