"""Which crew works what: a kind's, or that of a topic of it which has places of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from dueledger.workers.run.handler_pool import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.ledger.store import Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.run.handler_pool import Foreman


class Post(NamedTuple):
    """What a crew works: a kind, of one topic or of all that have no crew of their own."""

    kind: str
    topic: str | None = None


class Handed(Protocol):
    """What is handed out: a flow, or a run. A kind's topics are its tenants'."""

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def topic(self) -> str:
        """What it comes by."""
        ...


@final
class Crews:
    """A crew a handler. So what one endpoint keeps waiting takes no place of another's."""

    def __init__(
        self, handlers: Handlers, foreman: Foreman, *, worker_no: int, pool: Pool | None = None
    ) -> None:
        self._by_post = {
            Post(handler.kind, handler.topic): Crew(
                handler, foreman, worker_no=worker_no, pool=pool
            )
            for handler in handlers
        }

    def __iter__(self) -> Iterator[Crew]:
        return iter(self._by_post.values())

    def __getitem__(self, post: Post) -> Crew:
        return self._by_post[post]

    def posts(self) -> list[Post]:
        """Return what its crews work."""
        return list(self._by_post)

    def post_of(self, handed: Handed) -> Post:
        """Return which crew's something is, whether there is such a crew or not."""
        own = Post(handed.kind, handed.topic)
        return own if own in self._by_post else Post(handed.kind)

    def of(self, handed: Handed) -> Crew:
        """Return who works something. Raises KeyError where nobody does."""
        return self._by_post[self.post_of(handed)]

    def find(self, kind: str, topic: str) -> Crew | None:
        """Return who works a kind out of a topic, or None where nobody does."""
        return self._by_post.get(Post(kind, topic)) or self._by_post.get(Post(kind))
