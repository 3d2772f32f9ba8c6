"""The kinds of a storm: every way in which an item may be worked, wait or be limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.store.flows import FlowLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .site import Site

NOTHING: Final[Mapping[str, Any]] = {}
ORDERED: Final = {"ordering": "key"}
PASSED: Final = {"ordering": "key", "failure_holds": False}


class KindTerms(NamedTuple):
    """A handler, and the terms under which items reach it."""

    name: str
    handler: str
    policy: Mapping[str, Any] = NOTHING
    overlap: Overlap | None = None
    limits: FlowLimits | None = None


FOURTEEN: Final = (
    KindTerms("batches", "batch"),
    KindTerms("single items", "single"),
    KindTerms("threads", "threaded"),
    KindTerms("transactions", "transaction"),
    KindTerms("retries", "unsteady"),
    KindTerms("order", "single", ORDERED),
    KindTerms("order of transactions", "chunk", ORDERED),
    KindTerms("order but for failures", "unsteady", PASSED),
    KindTerms("overlap waits", "single", overlap=Overlap.WAIT),
    KindTerms("overlap is skipped", "single", overlap=Overlap.SKIP),
    KindTerms("overlap keeps one", "batch", overlap=Overlap.BUFFER_ONE),
    KindTerms("overlap cancels", "unsteady", overlap=Overlap.CANCEL_OTHER),
    KindTerms("a rate", "single", limits=FlowLimits(rate_per_second=200)),
    KindTerms("concurrency", "batch", limits=FlowLimits(concurrency_max=200, window_items=100)),
)


async def add_kinds(site: Site, **policy: Any) -> list[str]:  # noqa: ANN401  # KindPolicy's
    """Have one kind of each terms."""
    return [
        await site.add_kind(
            each.handler, overlap=each.overlap, limits=each.limits, **{**each.policy, **policy}
        )
        for each in FOURTEEN
    ]
