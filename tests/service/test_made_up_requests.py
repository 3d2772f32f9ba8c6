"""Requests made up from the published document: none breaks the service."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from time import monotonic
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks as made_checks

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.service.conftest import SCHEDULE, Api

pytestmark = pytest.mark.long

EXAMPLES = 3
"""Right ones of each operation and wrong ones, in the sample."""
FULL_SECONDS = 600.0
EXAMPLES_A_ROUND = 20
"""A round takes a minute or two; the time is looked at between them."""
TOO_LARGE = 413
HEALTH = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
"""What makes up wrong requests takes its time."""
LEFT_OUT = {
    "ignored_auth": "twenty requests with a wrong key, and the address waits",
    "positive_data_acceptance": "what is owed, by whom and since when is more than a form",
    "use_after_free": "revoked keys are refused, and named as such",
    "ensure_resource_availability": "as above",
}
"""Checks that do not fit, and why."""


@pytest.fixture(scope="module")
async def allowed(api: Api) -> NewApiKey:
    """A key of the tenant acme with every scope, which has a definition and an item."""
    key = await api.make_key("made-up", *Scope)
    await api.define("acme", "statements", SCHEDULE)
    await api.emit(key, api.item("P-made-up"))
    return key


@pytest.fixture(scope="module")
async def document(api: Api) -> dict[str, Any]:
    return (await api.ask("GET", "/openapi.json")).document


async def test_a_sample_of_requests(api: Api, allowed: NewApiKey, document: dict[str, Any]) -> None:
    await asyncio.to_thread(send_all, api, allowed, document, EXAMPLES, 1)


@pytest.mark.full
async def test_ten_minutes_of_requests(
    api: Api, allowed: NewApiKey, document: dict[str, Any]
) -> None:
    began = monotonic()
    for number in rounds():
        await asyncio.to_thread(send_all, api, allowed, document, EXAMPLES_A_ROUND, number)
        if monotonic() - began > FULL_SECONDS:
            return


def rounds() -> Iterator[int]:
    number = 1
    while True:
        number += 1
        yield number


def send_all(
    api: Api, key: NewApiKey, document: dict[str, Any], examples: int, number: int
) -> None:
    """Send requests of every operation, and check what is answered."""
    schema: Any = schemathesis.openapi.from_dict(document)
    library: Any = made_checks
    library.load_all_checks()
    checks = [check for check in library.CHECKS.get_all() if check.__name__ not in LEFT_OUT]
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    for found, mode in product(schema.get_all_operations(), modes):
        strategy = found.ok().as_strategy(generation_mode=mode)

        @seed(number)
        @settings(
            max_examples=examples,
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
            headers = {"Authorization": f"Bearer {key.text}"}
            answer = case.call(base_url=api.service.url, headers=headers)
            if answer.status_code == TOO_LARGE:  # before anything of it is read
                return
            case.validate_response(answer, checks=checks, headers=headers)

        with suppress(Unsatisfiable):  # of a route without a parameter, nothing can be wrong
            send()
