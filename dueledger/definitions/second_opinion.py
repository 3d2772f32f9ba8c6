"""The second opinion on definitions that are put in force: asked before, recorded with them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.store import Connection
from dueledger.ledger.store.witnessed import accept_disagreements, record_witnessed
from dueledger.ledger.witness import Agreement, Witness, WitnessedTimes, is_witnessed
from dueledger.ledger.witness.disagreement import disagreement
from dueledger.reconciler.find.findings import disagrees
from dueledger.reconciler.find.recorder import finding_record


@dataclass(frozen=True, slots=True)
class WitnessedDefinition:
    """What the witness says about a version of a definition."""

    definition: Definition
    version: int
    witnessed: WitnessedTimes

    @property
    def name(self) -> str:
        """Return tenant and name."""
        return f"{self.definition.tenant}/{self.definition.definition}"

    @property
    def is_refused(self) -> bool:
        """Return whether the witness disagrees."""
        return self.witnessed.agreement is Agreement.DISAGREES


async def ask_witness(
    changed: Sequence[tuple[Definition, int, datetime]],
) -> list[WitnessedDefinition]:
    """Ask about each definition that a library can expand, from its beginning on.

    `changed` has definitions, their versions to be, and from when on they are in force.
    """
    return await asyncio.to_thread(_ask, changed)


def _ask(changed: Sequence[tuple[Definition, int, datetime]]) -> list[WitnessedDefinition]:
    with Witness() as witness:
        return [
            WitnessedDefinition(definition, version, witness.ask(definition.when, since))
            for definition, version, since in changed
            if is_witnessed(definition.when) and not definition.ended
        ]


def check_agreement(found: Sequence[WitnessedDefinition]) -> None:
    """Raise WitnessDisagrees, which names each definition about which the witness disagrees."""
    refused = [(each.name, each.witnessed) for each in found if each.is_refused]
    if refused:
        raise disagreement(refused)


async def record_opinions(
    connection: Connection,
    found: Sequence[WitnessedDefinition],
    *,
    accepted: str | None,
    actor_no: int,
) -> None:
    """Record what the witness said, and disagreements as accepted for this reason.

    To be called in the transaction that defines the versions. Without a reason nothing that the
    witness disagrees about may be among them.
    """
    if accepted is None:
        check_agreement(found)
    await record_witnessed(
        connection,
        [
            ((each.definition.tenant, each.definition.definition, each.version), each.witnessed)
            for each in found
        ],
    )
    findings = [
        disagrees(
            each.definition.tenant,
            each.definition.kind,
            each.definition.definition,
            each.version,
            each.witnessed,
        )
        for each in found
        if each.is_refused
    ]
    if findings and accepted is not None:
        await accept_disagreements(
            connection, list(map(finding_record, findings)), reason=accepted, actor_no=actor_no
        )
