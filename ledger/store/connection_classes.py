"""asyncpg's connection with what it has no public setting for."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import asyncpg

if TYPE_CHECKING:
    from asyncpg.prepared_stmt import PreparedStatement

    _AnyConnection = asyncpg.Connection[asyncpg.Record]
else:
    _AnyConnection = asyncpg.Connection  # has no type parameters at run time

_FIRST_CUSTOM_OID: Final = 10_000
"""Types below it have the same number in every database."""
_COMMIT: Final = "COMMIT;"
_ENDS: Final = (_COMMIT, "ROLLBACK;")
"""What asyncpg sends to end a transaction."""
_LIMITS_TRANSACTIONS: Final = (17,)
"""The first server that has transaction_timeout; an older one would refuse the connection."""


class TypeCachingConnection(_AnyConnection):
    """One that asks for built-in types once a process, and whose transactions may have a limit.

    asyncpg knows few array types, and asks the server for others with a query of up to 10 ms.
    If the method overridden here is gone, connections work as before and a test fails.
    """

    _built_in: ClassVar[dict[int, asyncpg.Record]] = {}
    """Types by number, those of elements before their arrays."""
    _limit = ""

    async def limit_transactions(self, seconds: float) -> None:
        """Let the server end the connection if a transaction takes longer.

        asyncpg sends the preparation of a statement and its call apart, and a session between them
        is active to Postgres, not idle. Servers older than 17 have no such limit.
        """
        if self.get_server_version() >= _LIMITS_TRANSACTIONS:
            self._limit = f"SET transaction_timeout = {int(seconds * 1000)};"
            await self.execute(self._limit)

    async def allow_long_transaction(self) -> None:
        """Lift the limit for the transaction in which the connection is."""
        if self._limit:
            await self.execute("SET LOCAL transaction_timeout = 0")

    def get_reset_query(self) -> str:
        """Return what resets the session; its limit stays."""
        return super().get_reset_query() + self._limit

    async def _introspect_types(
        self,
        typeoids: Collection[int],
        timeout: float | None,  # noqa: ASYNC109 - asyncpg passes it
    ) -> tuple[list[asyncpg.Record], Any]:
        if self._built_in.keys() >= set(typeoids):
            return list(self._built_in.values()), SimpleNamespace(name="no statement was sent")
        parent: Any = super()
        types, statement = await parent._introspect_types(typeoids, timeout)  # noqa: SLF001 - its own parent
        self._built_in.update({row["oid"]: row for row in types if row["oid"] < _FIRST_CUSTOM_OID})
        return types, statement


@final
class HandlerConnection(TypeCachingConnection):
    """A connection that handlers use: what ends its transaction resets its session as well.

    So its release needs no round trip of its own. If asyncpg ends transactions with other texts,
    the release resets the session as before, and a test fails.
    """

    _is_reset = False
    _before_commit = ""
    _prepared: "dict[str, tuple[str, PreparedStatement[asyncpg.Record]]] | None" = None
    """The name of each and the statement, which lives as long as it is here."""
    _prepared_count = 0

    async def execute_with_commit(self, query: str, arguments: str, *, before: str = "") -> None:
        """Execute a statement in the message of the next COMMIT, before it, and `before` first.

        If the statement fails, nothing is committed.
        """
        if self._prepared is None:
            self._prepared = {}
        if query not in self._prepared:
            # A new name each time: the session keeps a statement whose preparation was cut off.
            self._prepared_count += 1
            name = f"dueledger_{self._prepared_count}"
            self._prepared[query] = name, await self.prepare(query, name=name)
        name, _ = self._prepared[query]
        self._before_commit = f"{before}execute {name}({arguments});"

    async def execute(
        self,
        query: str,
        *args: object,
        timeout: float | None = None,  # noqa: ASYNC109 - asyncpg has it
    ) -> str:
        """Execute a statement; after the end of a transaction, reset the session."""
        self._is_reset = False
        if args or query not in _ENDS:
            return await super().execute(query, *args, timeout=timeout)
        before = self._before_commit if query == _COMMIT else ""
        self._before_commit = ""
        # One message: what follows the COMMIT is a transaction of its own, skipped if that fails.
        message = before + query + super().get_reset_query()
        try:
            status = await super().execute(message, timeout=timeout)
        except asyncpg.InvalidSQLStatementNameError:
            self._prepared = None  # a handler deallocated it
            raise
        self._is_reset = True
        return status

    def get_reset_query(self) -> str:
        """Return what the release has still to send."""
        return "" if self._is_reset else super().get_reset_query()
