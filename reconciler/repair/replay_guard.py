"""What is known of items before a repair has them worked again: work is never repeated unasked.

The evidence outside, the ledger's own claims and runs, and the records in Kafka are asked for each.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.finding_types import FindingType, RepairAction
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.kinds import ReplayRule, list_replay_rules
from dueledger.ledger.store.prior_work import Orphans, list_handed_out_orphans, list_prior_work
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.find.findings import uuid8
from dueledger.reconciler.record_index import RecordIndex, SightingState
from dueledger.reconciler.repair.planned_repairs import (
    FORBIDDEN,
    POLICY_ASKS,
    PlannedRepair,
)
from dueledger.reconciler.sources import EvidenceQuery, EvidenceReader, SourceFailed, SourceTotals

ITEMS_A_QUESTION: Final = 5_000
_HAS_EFFECT: Final = frozenset({FindingType.EFFECT_UNRECORDED, FindingType.EFFECT_REPEATED})
"""Findings that there is an effect: their escalation is not refused because there is."""
_AND: Final = "; and "
"""Between reasons to ask, as they are recorded."""
_ANOTHER_DATE: Final = date(1, 1, 1)
_ANOTHER_CYCLE: Final = "\x1f"
"""Neither is of any item."""


class Permission(StrEnum):
    """What may be done with a repair."""

    RUN = "run"
    RECORD = "record"
    ASK = "ask"
    REFUSE = "refuse"


class Judgement(NamedTuple):
    """What may be done with a repair, and why.

    RECORD: the effect exists, so the item is completed with it and not worked. ASK: a person
    approves it first. REFUSE: not even then.
    """

    permission: Permission
    reason: str = ""
    evidence: str | None = None


RUNS: Final = Judgement(Permission.RUN)


class Effect(NamedTuple):
    """What the evidence sources of a kind say of an item.

    `unclear` is why they do not answer; `shows_after` is how long an effect may take to show.
    """

    sources: tuple[str, ...] = ()
    seen: bool = False
    unclear: str | None = None
    shows_after: timedelta = timedelta()


class PriorWork(NamedTuple):
    """What ledger and Kafka say of an item: whether it was handed out, or may have been.

    Neither: it was not, as its claims say, and Kafka as far as its kind is sent there.
    `is_unwitnessed`: of a direct kind, so that nothing beside the ledger could know.
    """

    handed_out: str | None = None
    in_flight: bool = False
    unclear: str | None = None
    is_unwitnessed: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    repair: PlannedRepair
    query: EvidenceQuery
    due_at: datetime
    handed_out: str | None

    @property
    def key(self) -> KindKey:
        return self.repair.tenant, self.repair.kind


@dataclass(frozen=True, slots=True)
class ReplayGuard:
    """Asks everybody who could know of an item's work, and judges its repair."""

    evidence: Sequence[EvidenceReader] = ()
    record_index: RecordIndex | None = None

    async def judge(
        self, connection: Connection, repairs: Sequence[PlannedRepair], orphans: Orphans
    ) -> dict[UUID, Judgement]:
        """Return the judgement of each repair that has an item worked or completed, by its id.

        `orphans` are those that `read_orphans` returned for these repairs, or for more.
        """
        judgements: dict[UUID, Judgement] = {}
        for begin in range(0, len(repairs), ITEMS_A_QUESTION):
            chunk = repairs[begin : begin + ITEMS_A_QUESTION]
            judgements |= await self._judge_chunk(connection, chunk, orphans)
        return judgements

    async def _judge_chunk(
        self, connection: Connection, repairs: Sequence[PlannedRepair], orphans: Orphans
    ) -> dict[UUID, Judgement]:
        asked = await _asked(connection, [each for each in repairs if _is_guarded(each)])
        if not asked:
            return {}
        as_of = await read_now(connection)
        rules = await list_replay_rules(connection)
        effects = await self._effects(asked)
        prior = self._prior_work(asked, rules, orphans)
        return {
            each.repair.id: judge_item(
                each.repair.action,
                effects[each.query.id],
                prior[each.query.id],
                due_in=each.due_at - as_of,
                no_replay=rules.get(each.key, ReplayRule()).no_replay,
            )
            for each in asked
        }

    async def _effects(self, asked: Sequence[_Asked]) -> dict[bytes, Effect]:
        by_kind: defaultdict[KindKey, list[EvidenceQuery]] = defaultdict(list)
        for each in asked:
            by_kind[each.key].append(each.query)
        effects: dict[bytes, Effect] = {}
        for key, queries in by_kind.items():
            sources = [each for each in self.evidence if (each.tenant, each.kind) == key]
            effects |= await _effects_of_kind(sources, queries)
        return effects

    def _prior_work(
        self,
        asked: Sequence[_Asked],
        rules: Mapping[KindKey, ReplayRule],
        orphans: Orphans,
    ) -> dict[bytes, PriorWork]:
        sightings = (
            self.record_index.find([each.query.id for each in asked]) if self.record_index else {}
        )
        covers_since = self.record_index.covers_since if self.record_index else None
        found: dict[bytes, PriorWork] = {}
        for each in asked:
            sighting = sightings.get(each.query.id)
            handed_out, unclear = each.handed_out, None
            lost = _lost(each, orphans, rules)
            is_direct = rules.get(each.key, ReplayRule()).is_direct
            if sighting is not None and sighting.state is SightingState.SEEN:
                place = sighting.place
                handed_out = "Kafka has a record of it" + (
                    f" ({place.topic}/{place.partition}/{place.offset})" if place else ""
                )
            elif lost:
                handed_out = "items of its date were handed out and are in the ledger no more"
            elif is_direct:
                pass  # its claims are all that there is of it
            elif sighting is None:
                unclear = "no record in Kafka was read"
            elif sighting.state is SightingState.UNKNOWN:
                unclear = "not all records in Kafka could be read"
            elif covers_since is None or covers_since > each.due_at:
                unclear = "it was owed before what Kafka retains"
            found[each.query.id] = PriorWork(handed_out, any(lost), unclear, is_direct)
        return found


def judge_item(
    action: RepairAction, effect: Effect, prior: PriorWork, *, due_in: timedelta, no_replay: bool
) -> Judgement:
    """Return what may be done with a repair of one item. Pure.

    Evidence decides where it answers. Without an answer, what was handed out before, or may have
    been, is asked about. Of a kind with `no_replay` no evidence allows it.
    """
    named = ", ".join(effect.sources)
    if effect.unclear:
        found = Judgement(Permission.ASK, f"unknown: {effect.unclear}")
    elif effect.seen:
        found = _judge_done(action, named, due_in)
    elif action is RepairAction.COMPLETE:
        found = Judgement(Permission.REFUSE, "no source outside has its effect any more")
    elif action is RepairAction.ESCALATE:
        found = RUNS
    elif prior.in_flight:
        found = Judgement(Permission.ASK, f"unknown: {prior.handed_out}; some may be running")
    elif prior.handed_out and no_replay:
        found = Judgement(Permission.REFUSE, f"no_replay: {prior.handed_out}")
    elif prior.handed_out:
        found = _judge_worked(effect, prior.handed_out, due_in)
    elif prior.unclear and due_in <= timedelta():
        asked = Judgement(Permission.ASK, f"unknown: {prior.unclear}")
        found = asked if no_replay else _judge_worked(effect, prior.unclear, due_in)
    elif prior.is_unwitnessed and no_replay and due_in <= timedelta():
        found = _judge_worked(effect, "nothing beside the ledger could know of its work", due_in)
    else:
        found = RUNS
    return found


def _judge_done(action: RepairAction, named: str, due_in: timedelta) -> Judgement:
    """Judge an item whose effect is seen."""
    reason = f"its effect is in {named}"
    if action is RepairAction.ESCALATE:
        return Judgement(Permission.REFUSE, reason)
    if due_in > timedelta():
        return Judgement(Permission.ASK, f"{reason}, and it is not due yet")
    return Judgement(Permission.RECORD, reason, named)


def _judge_worked(effect: Effect, why: str, due_in: timedelta) -> Judgement:
    """Judge an item that was handed out before, or may have been, and whose effect is not seen.

    It is worked again only if a source was asked that would have the effect by now.
    """
    if not effect.sources:
        return Judgement(Permission.ASK, f"unknown: {why}")
    if due_in + effect.shows_after > timedelta():
        named = ", ".join(effect.sources)
        return Judgement(Permission.ASK, f"unknown: its effect may still show in {named}")
    return RUNS


def judged(
    repair: PlannedRepair, judgement: Judgement, *, approved_over: Sequence[str] | None
) -> PlannedRepair:
    """Return a repair as it would be executed now, or with the reason why it would not be.

    `approved_over`: the reasons to ask that a person saw who approved it; None: nobody did.
    """
    plain = repair.unjudged or repair
    held_because = _why_held(plain, judgement, approved_over)
    found = replace(plain, held_because=held_because, unjudged=plain)
    match judgement.permission:
        case Permission.RECORD:
            said = f"It is recorded as completed and not worked: {judgement.reason}."
            return replace(found, would=f"{plain.would} {said}", after=State.COMPLETED.label)
        case Permission.REFUSE:
            return replace(found, after=plain.before)
        case Permission.RUN | Permission.ASK:
            return found


def _why_held(
    repair: PlannedRepair, judgement: Judgement, approved_over: Sequence[str] | None
) -> str | None:
    """Return why a repair is not executed now, or None.

    An approval is what the policy of a kind asks for. Other reasons it covers if it saw them.
    """
    if repair.is_forbidden:
        return FORBIDDEN
    if judgement.permission is Permission.REFUSE:
        return judgement.reason
    reasons = [*repair.asks]
    if judgement.permission is Permission.ASK:
        reasons.insert(0, judgement.reason)
    if approved_over is not None:
        covered = {POLICY_ASKS, *(each for said in approved_over for each in said.split(_AND))}
        left = [each for each in reasons if each not in covered]
        is_covered = {_AND.join(reasons), _AND.join(left)} & {*approved_over}
        reasons = [] if is_covered else left
    return _AND.join(reasons) or None


def _lost(asked: _Asked, orphans: Orphans, rules: Mapping[KindKey, ReplayRule]) -> list[bool]:
    """Return, of the items that are gone and one of which a missing one may be, what is in flight.

    Empty where there are none.
    """
    if asked.repair.action is not RepairAction.MATERIALISE:
        return []
    of_others = {rule.topic for key, rule in rules.items() if key != asked.key}
    of_others.discard(rules.get(asked.key, ReplayRule()).topic)
    return [
        in_flight
        for (day, topic), in_flight in orphans.items()
        if day == asked.query.effective_date and (topic is None or topic not in of_others)
    ]


async def read_orphans(connection: Connection, repairs: Iterable[PlannedRepair]) -> Orphans:
    """Return the items that are gone and were handed out, of the dates of what repairs emit.

    They are read before a repair's transaction: what is not in the ledger cannot be handed out.
    """
    emitting = (each for each in repairs if each.action is RepairAction.MATERIALISE)
    dates = {
        date.fromisoformat(each.command["effective_date"]) for each in emitting if _is_guarded(each)
    }
    return await list_handed_out_orphans(connection, dates)


def _is_guarded(repair: PlannedRepair) -> bool:
    match repair.action:
        case RepairAction.MATERIALISE:
            return not repair.command.get("skip_reason")
        case RepairAction.REDRIVE | RepairAction.COMPLETE:
            return True
        case RepairAction.ESCALATE:
            return repair.finding_type not in _HAS_EFFECT
        case RepairAction.RELEASE | RepairAction.CANCEL:
            return False


async def _asked(connection: Connection, repairs: Sequence[PlannedRepair]) -> list[_Asked]:
    """Return the guarded items with their names outside; an item that is gone is not asked for.

    Unless the domain is to repeat its effect, and its finding says its cycle.
    """
    open_ids = [
        UUID(each.command["item"])
        for each in repairs
        if each.action is not RepairAction.MATERIALISE
    ]
    known = await list_prior_work(connection, open_ids) if open_ids else {}
    asked: list[_Asked] = []
    for repair in repairs:
        command: dict[str, Any] = repair.command
        if repair.action is RepairAction.MATERIALISE:
            query = EvidenceQuery(
                UUID(repair.subject).bytes,
                command["business_key"],
                command["cycle"],
                date.fromisoformat(command["effective_date"]),
            )
            due_at = datetime.fromisoformat(command["due_at"]).astimezone(UTC)
            asked.append(_Asked(repair, query, due_at, None))
        elif row := known.get(UUID(command["item"])):
            query = EvidenceQuery(
                row["id"].bytes, row["business_key"], row["cycle"], row["effective_date"]
            )
            handed_out = "it was handed out before" if row["handed_out"] else None
            asked.append(_Asked(repair, query, row["due_at"], handed_out))
        elif repair.action is RepairAction.ESCALATE and command["cycle"] is not None:
            query = EvidenceQuery(
                UUID(command["item"]).bytes,
                command["business_key"],
                command["cycle"],
                date.fromisoformat(command["effective_date"]),
            )
            asked.append(_Asked(repair, query, datetime.fromisoformat(command["due_at"]), None))
    return asked


async def _effects_of_kind(
    sources: Sequence[EvidenceReader], queries: Sequence[EvidenceQuery]
) -> dict[bytes, Effect]:
    """Return what all sources of a kind say; an effect is seen where each of them has it."""
    names = tuple(each.name for each in sources)
    shows_after = timedelta(seconds=max((each.after_seconds for each in sources), default=0.0))
    lacking: defaultdict[bytes, set[str]] = defaultdict(set)
    try:
        for source in sources:
            for each in await source.find_lacking(queries, SourceTotals()):
                lacking[each.id].add(source.name)
        shown = [each for each in queries if sources and len(lacking[each.id]) < len(sources)]
        unclear = await _shown_for_any(sources, shown)
    except SourceFailed as failed:
        reason = f"{failed.name} could not be read"
        return {each.id: Effect(names, unclear=reason) for each in queries}
    effects: dict[bytes, Effect] = {}
    for each in queries:
        absent = lacking[each.id]
        reason = unclear.get(each.id)
        if sources and not reason and 0 < len(absent) < len(sources):
            reason = f"{', '.join(sorted(absent))} has no effect of it, and others have"
        is_seen = bool(sources) and not absent
        effects[each.id] = Effect(names, is_seen, reason, shows_after)
    return effects


async def _shown_for_any(
    sources: Sequence[EvidenceReader], shown: Sequence[EvidenceQuery]
) -> dict[bytes, str]:
    """Return which sources show an effect for any item of the business key, by item.

    They are asked for an item that cannot exist: if they show it, too, then what they show may be
    the effect of another item.
    """
    if not shown:
        return {}
    found: dict[bytes, str] = {}
    others = {uuid8("another", each.id.hex()).bytes: each for each in shown}
    made_up = [
        EvidenceQuery(identity, each.business_key, _ANOTHER_CYCLE, _ANOTHER_DATE)
        for identity, each in others.items()
    ]
    for source in sources:
        lacked = {each.id for each in await source.find_lacking(made_up, SourceTotals())}
        for identity, each in others.items():
            if identity not in lacked:
                found[each.id] = (
                    f"{source.name} has an effect of {each.business_key} and does not say of "
                    "which item"
                )
    return found
