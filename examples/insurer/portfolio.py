"""Makes an insurer's portfolio and its events, the same for the same seed. No IO."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

NOTICE: Final = timedelta(days=30)  # a renewal is owed this long before the policy expires

_REGIONS: Final = ("eu-north", "eu-west", "us-east", "us-west")
_PRODUCTS: Final = ("household", "liability", "motor")

_CANCELLED: Final = 0.04
_AMENDED: Final = 0.06
_EXPIRES_LATER: Final = 0.15
_SENT_TWICE: Final = 0.03
_OVERTAKEN: Final = (
    0.25  # part of the amendments and cancellations that arrive before the policy's own event
)

Fault = Literal["event_lost", "premium_not_booked"]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy after all of its events."""

    number: str
    region: str
    product: str
    term: str
    premium_cents: int
    expires_on: date
    status: Literal["active", "cancelled"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a policy. `copies` is how often it is sent."""

    id: str
    type: Literal["PolicyActivated", "PolicyAmended", "PolicyCancelled"]
    policy_number: str
    occurred_at: datetime
    body: str
    copies: int


@dataclass(frozen=True, slots=True)
class Portfolio:
    """All events: `book` is sent before the day begins, `changes` during the day."""

    policies: list[Policy]
    book: list[Event]
    changes: list[Event]
    faults: dict[str, Fault]


def make_portfolio(count: int, *, seed: int, day: date) -> Portfolio:
    """Make `count` policies, most of which owe a renewal on `day`."""
    rng = random.Random(seed)  # noqa: S311 - a portfolio, not a secret
    portfolio = Portfolio([], [], [], {})
    for number in range(1, count + 1):
        _add_policy(portfolio, f"POL-{number:07d}", rng, day)
    _add_faults(portfolio, day)
    return portfolio


def _add_policy(portfolio: Portfolio, number: str, rng: random.Random, day: date) -> None:
    renewed_today = day + NOTICE
    later = renewed_today + timedelta(days=1 + int(rng.random() * 20))
    expires_on, other = (
        (later, renewed_today) if rng.random() < _EXPIRES_LATER else (renewed_today, later)
    )
    premium_cents = 10_000 + int(rng.random() * 90_000)
    terms = {
        "policy_number": number,
        "region": _REGIONS[int(rng.random() * len(_REGIONS))],
        "product": _PRODUCTS[int(rng.random() * len(_PRODUCTS))],
        "term": str(renewed_today.year),
        "premium": f"{premium_cents // 100}.{premium_cents % 100:02d}",
    }
    fate, overtaken = rng.random(), rng.random() < _OVERTAKEN
    activated = Event(
        id=f"{number}-activated",
        type="PolicyActivated",
        policy_number=number,
        occurred_at=_midnight(day - timedelta(days=335))
        + timedelta(seconds=int(rng.random() * 86_400)),
        body=_body(terms, expires_on),
        copies=_copies(rng),
    )
    change: Event | None = None
    if fate < _CANCELLED:
        change = _change("PolicyCancelled", number, _body(terms, expires_on), rng, day)
    elif fate < _CANCELLED + _AMENDED:
        expires_on = other
        change = _change("PolicyAmended", number, _body(terms, expires_on), rng, day)

    if change is not None and overtaken:
        portfolio.book.append(change)
    elif change is not None:
        portfolio.changes.append(change)
    portfolio.book.append(activated)
    portfolio.policies.append(
        Policy(
            number=number,
            region=terms["region"],
            product=terms["product"],
            term=terms["term"],
            premium_cents=premium_cents,
            expires_on=expires_on,
            status="cancelled" if fate < _CANCELLED else "active",
        )
    )


def _change(
    kind: Literal["PolicyAmended", "PolicyCancelled"],
    number: str,
    body: str,
    rng: random.Random,
    day: date,
) -> Event:
    return Event(
        id=f"{number}-{kind.removeprefix('Policy').lower()}",
        type=kind,
        policy_number=number,
        occurred_at=_midnight(day) - timedelta(seconds=1 + int(rng.random() * 86_400)),
        body=body,
        copies=_copies(rng),
    )


def _add_faults(portfolio: Portfolio, day: date) -> None:
    """Spread the faults evenly over policies without other events."""
    changed = {event.policy_number for event in portfolio.book if event.type != "PolicyActivated"}
    changed.update(event.policy_number for event in portfolio.changes)
    plain = [
        policy.number
        for policy in portfolio.policies
        if policy.number not in changed and policy.expires_on == day + NOTICE
    ]
    lost = max(3, len(portfolio.policies) // 800)
    unbooked = max(3, len(portfolio.policies) // 1000)
    for position, number in enumerate(_evenly(plain, lost + unbooked)):
        portfolio.faults[number] = "event_lost" if position < lost else "premium_not_booked"
    portfolio.book[:] = [_lose(event, portfolio.faults) for event in portfolio.book]


def _lose(event: Event, faults: dict[str, Fault]) -> Event:
    if faults.get(event.policy_number) != "event_lost":
        return event
    return replace(event, copies=0)


def _evenly(numbers: list[str], count: int) -> Iterator[str]:
    step = max(1, len(numbers) // count)
    return iter(numbers[: step * count : step])


def _body(terms: dict[str, str], expires_on: date) -> str:
    return json.dumps({**terms, "expires_on": expires_on.isoformat()}, separators=(",", ":"))


def _copies(rng: random.Random) -> int:
    return 2 if rng.random() < _SENT_TWICE else 1


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
