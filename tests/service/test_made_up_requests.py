"""Requests made up from the published document: none breaks the service."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import count, product
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import SCHEDULE, Api
from tests.service.test_tenants import OF_ALL, WALK, Place, named_in, place_of

pytestmark = pytest.mark.long

EXAMPLES = 2
"""Right ones of each operation in the sample; of wrong ones half."""
FULL_SECONDS = 600.0
EXAMPLES_A_ROUND = 20
"""A round takes a minute or two; the time is looked at between them."""
TOO_LARGE = 413
SUCCESS = frozenset(range(200, 300))
HEALTH = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
"""What makes up wrong requests takes its time."""
LEFT_OUT = {
    "ignored_auth": "twenty requests with a wrong key, and the address waits",
    "positive_data_acceptance": "what is owed, by whom and since when is more than a form",
    "use_after_free": "revoked keys are refused, and named as such",
    "ensure_resource_availability": "as above",
}
"""Checks that do not fit, and why."""
OF_PATHS = {"negative_data_rejection"}
"""Those that do not fit where what a path names was replaced: it may be all that was wrong."""


@dataclass(frozen=True, slots=True)
class Known:
    """A key of the tenant acme with every scope, and what its paths may name."""

    key: NewApiKey
    place: Place


@pytest.fixture(scope="module")
async def known(api: Api) -> Known:
    key = await api.make_key("made-up", *Scope)
    await api.define("acme", "statements", SCHEDULE)
    await api.put_calendar("acme", "statements")
    items = await api.emit(key, api.item("P-made-up"), api.item("P-parked"))
    await api.park(items[1])
    prefixes = [(await api.make_key("spare", Scope.READ)).prefix for _ in range(2)]
    return Known(key, await place_of(api, "acme", items, *prefixes))


@pytest.fixture(scope="module")
async def document(api: Api) -> dict[str, Any]:
    return (await api.ask("GET", "/openapi.json")).document


async def test_a_sample_of_requests(api: Api, known: Known, document: dict[str, Any]) -> None:
    statuses = await asyncio.to_thread(send_all, api, known, document, EXAMPLES, 1)
    refused = [name for name, found in statuses.items() if not found & SUCCESS]
    assert set(refused) == OF_ALL


@pytest.mark.full
async def test_ten_minutes_of_requests(api: Api, known: Known, document: dict[str, Any]) -> None:
    began = monotonic()
    for number in rounds():
        await asyncio.to_thread(send_all, api, known, document, EXAMPLES_A_ROUND, number)
        if monotonic() - began > FULL_SECONDS:
            return


def rounds() -> Iterator[int]:
    number = 1
    while True:
        number += 1
        yield number


def send_all(
    api: Api, known: Known, document: dict[str, Any], examples: int, number: int
) -> dict[str, set[int]]:
    """Send requests of every operation, and check what is answered; return the statuses of each.

    Most name what exists: a made-up tenant or name would be refused before its route.
    """
    statuses: dict[str, set[int]] = defaultdict(set)
    numbers = count()
    library: Any = import_module("schemathesis")  # here: each process would take 0.3 s
    schema = library.openapi.from_dict(document)
    library.checks.load_all_checks()
    checks = [check for check in library.checks.CHECKS.get_all() if check.__name__ not in LEFT_OUT]
    right, wrong = library.GenerationMode.POSITIVE, library.GenerationMode.NEGATIVE
    for found, mode in product(schema.get_all_operations(), (right, wrong)):
        strategy = found.ok().as_strategy(generation_mode=mode)

        @seed(number)
        @settings(
            max_examples=examples if mode is right else examples // 2,
            deadline=None,
            database=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=HEALTH,
        )
        @given(case=strategy)
        def send(case: Any) -> None:  # noqa: ANN401 - the type of the library is unknown in part
            body: Any = case.body
            if isinstance(body, dict) and type(body.get("wait_seconds")) in (int, float):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                body["wait_seconds"] = min(body["wait_seconds"], 0.0)  # a poll that waits for long  # pyright: ignore[reportUnknownArgumentType]
            applied = checks
            name = case.operation.definition.raw["operationId"]
            is_first = name in WALK and name not in statuses
            if is_first:  # a right one, so that each route answers once
                query, case.body = WALK[name](api, known.place)
                case.query = dict(parse_qsl(query.removeprefix("?"))) or case.query
                case.headers["Idempotency-Key"] = f'"{name}-{number}"'
                if case.method == "PUT":
                    case.headers["If-Match"] = "*"
            if case.path_parameters and (is_first or next(numbers) % 4):
                named = named_in(name, known.place)
                case.path_parameters.update({each: named[each] for each in case.path_parameters})
                applied = [check for check in checks if check.__name__ not in OF_PATHS]
            headers = {"Authorization": f"Bearer {known.key.text}"}
            answer = case.call(base_url=api.service.url, headers=headers)
            statuses[name].add(answer.status_code)
            if answer.status_code == TOO_LARGE:  # before anything of it is read
                return
            case.validate_response(answer, checks=applied, headers=headers)

        with suppress(Unsatisfiable):  # of a route without a parameter, nothing can be wrong
            send()
    return statuses
