"""The statement by which services emit, on connections of their own drivers."""

from functools import cache

from dueledger.ledger.store.statements import statement


@cache
def emission_query(parameter: str) -> str:
    """Return the statement without its header, with a driver's form of its one parameter."""
    lines = statement("emit_many").splitlines()
    query = "\n".join(line for line in lines if not line.startswith("--"))
    return query.replace("$1", parameter)
