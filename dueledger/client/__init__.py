"""A client of the REST service: `Client`, `AsyncClient`, and a function for each of its operations.

    from dueledger.client import Client, calls

    with Client("https://dueledger.example", key) as client:
        item = client.send(calls.get_item(id))
        for page in client.pages(calls.list_items(kind="StatementDue", late=True)):
            …

It needs the extra `dueledger[client]`, and neither a database nor the service's own libraries.
"""

from dueledger.client import calls, models
from dueledger.client.calls import ServiceCall
from dueledger.client.client import AsyncClient, Client, ServiceProblem

__all__ = ["AsyncClient", "Client", "ServiceCall", "ServiceProblem", "calls", "models"]
