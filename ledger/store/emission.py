"""The statement by which a service emits on a connection of its own, of whatever driver."""

from dueledger.ledger.store.statements import statement


def emission_statement() -> str:
    """Return the statement with its header; its one parameter is the items, as JSON."""
    return statement("emit_many")
