"""The flows of the ledger. One that is made during a pass is read when an item of it is met."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import final

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.compare.comparison import NO_FLOW, FlowRules
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.expect.expectation import Expectation


@final
class LedgerFlows:
    """The rules of flows by number, and of their kinds; `graces` also of kinds without a flow."""

    def __init__(self, expectation: Expectation, evidenced: Collection[KindKey]) -> None:
        self._expectation = expectation
        self._evidenced = evidenced
        self.rules: dict[int, FlowRules] = {}
        self.of_kinds: dict[KindKey, FlowRules] = {}
        self.graces: dict[KindKey, timedelta] = {}

    async def read(self, connection: Connection) -> None:
        """Read the rules of all flows."""
        expected = self._expectation
        for row in await reconciled_rows.list_flow_rules(connection):
            key = row["tenant"], row["kind"]
            self.graces[key] = grace = timedelta(seconds=row["grace_seconds"])
            if row["flow_no"] is None:
                continue
            self._put(
                row["flow_no"],
                FlowRules(
                    *key,
                    grace=grace,
                    is_judged=expected.is_judged(*key),
                    is_complete=expected.is_complete(*key),
                    is_single=expected.is_single(*key),
                    needs_evidence=key in self._evidenced,
                ),
            )

    async def meet(
        self, connection: Connection, numbers: Iterable[int | None]
    ) -> Mapping[int, FlowRules]:
        """Return the rules by number; they have those of all these numbers.

        A number of no flow, which only an edit can write, has `NO_FLOW`.
        """
        met = {number for number in numbers if number is not None}
        if not met <= self.rules.keys():
            await self.read(connection)
            for number in met - self.rules.keys():
                self._put(number, NO_FLOW)
        return self.rules

    def _put(self, number: int, flow: FlowRules) -> None:
        self.rules[number] = flow
        self.of_kinds.setdefault(flow.key, flow)
