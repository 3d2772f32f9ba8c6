"""The registry of handlers: the function and the options of each kind."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, final

from dueledger.ledger.kind_defaults import BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS
from dueledger.workers.item import DueItem
from dueledger.workers.verdicts import NotAttempted, Park, Verdict

if TYPE_CHECKING:
    from dueledger.ledger.store import Connection

CONCURRENCY_MAX: Final = 10_000
BATCH_MAX: Final = 10_000
CHUNK_MAX: Final = 60
"""Postgres keeps 64 savepoints of a transaction in memory; of more, others read from disk."""
KIND_LENGTH_MAX: Final = 100

SingleFunction = Callable[[DueItem], Awaitable[Verdict | NotAttempted] | Verdict]
BatchFunction = Callable[[list[DueItem]], Awaitable[Sequence[Verdict]] | Sequence[Verdict]]
TransactionFunction: TypeAlias = "Callable[[DueItem, Connection], Awaitable[Verdict]]"

_S = TypeVar("_S", bound=SingleFunction)
_B = TypeVar("_B", bound=BatchFunction)
_T = TypeVar("_T", bound="TransactionFunction")


class HandlerForm(StrEnum):
    """How a handler is called."""

    SINGLE = "single"
    BATCH = "batch"
    TRANSACTION = "transaction"


@final
@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """The options of a handler. `concurrency` is the number of concurrent calls.

    `batch_max` is how many items one call has, or one transaction of a transactional handler.
    The backoff is for attempts that fail without a delay of their own: exponential from
    `backoff_base_seconds`, full jitter, never above `backoff_cap_seconds`. If neither is set, the
    kind's backoff applies, as its definitions set it.
    """

    concurrency: int = 64
    timeout_seconds: float = 30.0
    batch_max: int = 1
    backoff_base_seconds: float | None = None
    backoff_cap_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an option that is out of range."""
        _require(
            1 <= self.concurrency <= CONCURRENCY_MAX,
            f"concurrency must be 1 to {CONCURRENCY_MAX}, not {self.concurrency}",
        )
        _require(
            1 <= self.batch_max <= BATCH_MAX,
            f"batch_max must be 1 to {BATCH_MAX}, not {self.batch_max}",
        )
        _require(
            self.timeout_seconds > 0,
            f"timeout_seconds must be positive, not {self.timeout_seconds}",
        )
        base, cap = self.backoff
        _require(
            0 < base <= cap,
            "backoff_base_seconds must be positive and at most backoff_cap_seconds, not "
            f"{base} and {cap}",
        )

    @property
    def has_own_backoff(self) -> bool:
        """Whether the handler sets its own backoff."""
        return self.backoff_base_seconds is not None or self.backoff_cap_seconds is not None

    @property
    def backoff(self) -> tuple[float, float]:
        """Base and cap in seconds. One that is not set is derived from the other."""
        base, cap = self.backoff_base_seconds, self.backoff_cap_seconds
        if base is None:
            base = BACKOFF_BASE_SECONDS if cap is None else min(BACKOFF_BASE_SECONDS, cap)
        return base, max(BACKOFF_CAP_SECONDS, base) if cap is None else cap


@final
@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function. A plain function runs in a thread.

    With a `topic` it works only the items of that topic.
    """

    kind: str
    form: HandlerForm
    function: Callable[..., object]
    options: HandlerOptions
    topic: str | None = None
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        """Compute whether the function is async."""
        object.__setattr__(self, "is_async", _is_async(self.function))

    @property
    def name(self) -> str:
        """The function's qualified name, with its module."""
        function: object = inspect.unwrap(self.function)
        of_object: object = type(function).__qualname__  # one that is called like a function
        return f"{function.__module__}.{getattr(function, '__qualname__', of_object)}"


@final
class Handlers:
    """The handlers of a worker: at most one for a kind, or for a topic of a kind.

    `places` are the ``module:name`` from which all of them were loaded. `may_end_process` is false
    for Dueledger's own handlers: none of them ends its process, so their suspects run like others.
    """

    def __init__(self, *, places: Sequence[str] = (), may_end_process: bool = True) -> None:
        self.places = tuple(places)
        self.may_end_process = may_end_process
        self._by_kind: dict[tuple[str, str | None], Handler] = {}

    def on(
        self,
        kind: str,
        *,
        concurrency: int = 64,
        timeout_seconds: float = 30.0,
        backoff_base_seconds: float | None = None,
        backoff_cap_seconds: float | None = None,
        topic: str | None = None,
    ) -> Callable[[_S], _S]:
        """Register a function of one item. A plain ``def`` runs in a thread of its own.

        With a `topic` it works only the items of that topic, with its own concurrency.
        """
        options = HandlerOptions(
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            backoff_base_seconds=backoff_base_seconds,
            backoff_cap_seconds=backoff_cap_seconds,
        )

        def register(function: _S) -> _S:
            self._register(kind, HandlerForm.SINGLE, function, options, topic)
            return function

        return register

    def on_batch(
        self,
        kind: str,
        *,
        batch_max: int = 500,
        concurrency: int = 8,
        timeout_seconds: float = 30.0,
        backoff_base_seconds: float | None = None,
        backoff_cap_seconds: float | None = None,
    ) -> Callable[[_B], _B]:
        """Register a function of up to `batch_max` items that returns their verdicts in order."""
        options = HandlerOptions(
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            batch_max=batch_max,
            backoff_base_seconds=backoff_base_seconds,
            backoff_cap_seconds=backoff_cap_seconds,
        )

        def register(function: _B) -> _B:
            self._register(kind, HandlerForm.BATCH, function, options)
            return function

        return register

    def on_transaction(
        self,
        kind: str,
        *,
        concurrency: int = 16,
        timeout_seconds: float = 30.0,
        chunk_max: int = 1,
        backoff_base_seconds: float | None = None,
        backoff_cap_seconds: float | None = None,
    ) -> Callable[[_T], _T]:
        """Register a function of one item and a connection to the ledger's database.

        It runs in a transaction that commits only together with the item's completion (G6).
        Any other verdict, an error and a refused completion roll its writes back. Each concurrent
        call uses one connection.

        Up to `chunk_max` items share a transaction, one call after another, each in a savepoint of
        its own; `concurrency` is the number of transactions then. If their COMMIT is refused, each
        is called again in a transaction of its own.
        """
        _require(
            1 <= chunk_max <= CHUNK_MAX, f"chunk_max must be 1 to {CHUNK_MAX}, not {chunk_max}"
        )
        options = HandlerOptions(
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            batch_max=chunk_max,
            backoff_base_seconds=backoff_base_seconds,
            backoff_cap_seconds=backoff_cap_seconds,
        )

        def register(function: _T) -> _T:
            if not _is_async(function):
                raise TypeError(
                    f"the transactional handler for {kind!r} must be `async def`: "
                    "its connection belongs to the event loop"
                )
            self._register(kind, HandlerForm.TRANSACTION, function, options)
            return function

        return register

    def include(self, others: "Handlers") -> None:
        """Add another registry's handlers. Raises ValueError for a kind that both have."""
        for handler in others:
            self._add(handler)

    def find(self, kind: str) -> Handler | None:
        """Return the handler of a kind, or None if none is registered."""
        return self._by_kind.get((kind, None))

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_kind.values())

    def __len__(self) -> int:
        return len(self._by_kind)

    def _register(
        self,
        kind: str,
        form: HandlerForm,
        function: Callable[..., object],
        options: HandlerOptions,
        topic: str | None = None,
    ) -> None:
        _require(
            0 < len(kind) <= KIND_LENGTH_MAX,
            f"a kind has 1 to {KIND_LENGTH_MAX} characters, not {len(kind)}",
        )
        self._add(Handler(kind, form, function, options, topic))

    @property
    def are_async(self) -> bool:
        """Return whether each can be stopped: a function in a thread cannot."""
        return all(handler.is_async for handler in self)

    def _add(self, handler: Handler) -> None:
        key = (handler.kind, handler.topic)
        _require(key not in self._by_kind, f"{handler.kind!r} has a handler already")
        self._by_kind[key] = handler


def in_one_slot(handler: Handler) -> Handler:
    """Return the handler with one call of one item at a time."""
    return replace(handler, options=replace(handler.options, concurrency=1, batch_max=1))


def _is_async(function: Callable[..., object]) -> bool:
    called = type(function).__call__  # of an object that is called like a function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _require(condition: bool, message: str) -> None:  # noqa: FBT001  # an assertion's shape
    if not condition:
        raise ValueError(message)


async def _park_unknown(items: list[DueItem]) -> list[Verdict]:
    return [Park(f"unknown_kind: no handler here for {item.kind}") for item in items]


UNKNOWN_KIND_HANDLER: Final = Handler(
    "", HandlerForm.BATCH, _park_unknown, HandlerOptions(concurrency=4, batch_max=1_000)
)
"""Parks items of kinds without a handler; the payload stays with the item."""
