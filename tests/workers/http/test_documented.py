"""The examples of docs/http-dispatch.md are true."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.workers.http.settings import HttpSettings
from dueledger.workers.http.webhook import read_keys, sign
from tests.document_blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENT = Path(__file__).parents[3].joinpath("docs", "http-dispatch.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = [each for each in blocks_of("docs/http-dispatch.md") if each.language == language]
    return found.text


def example() -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in block("text").splitlines():
        name, value = line.split(": ", 1)
        values.setdefault(name, []).append(value)
    return values


def test_the_documented_receiver_accepts_the_documented_request_and_no_other() -> None:
    names: dict[str, object] = {}
    exec(block("python"), names)  # noqa: S102 - our own document
    is_ours = cast("Callable[[dict[str, str], bytes, str, float], bool]", names["is_ours"])
    values = example()
    headers = {name: values[0] for name, values in values.items() if name.startswith("webhook-")}
    body, now = values["body"][0].encode(), float(headers["webhook-timestamp"])
    for key in values["key"]:
        assert is_ours(headers, body, key, now + 299)
        assert not is_ours(headers, body, key, now + 301)
        assert not is_ours(headers, body + b" ", key, now)
        assert not is_ours(headers | {"webhook-id": "another"}, body, key, now)
        assert not is_ours(headers, body, "whsec_" + "A" * 43 + "=", now)


def test_the_documented_request_is_signed_as_we_sign() -> None:
    values = example()
    (identity,), (sent_at,) = values["webhook-id"], values["webhook-timestamp"]
    signature = sign(
        read_keys(" ".join(values["key"])), identity, int(sent_at), values["body"][0].encode()
    )
    assert values["webhook-signature"] == [signature]


def test_the_documented_definition_is_accepted_unchanged() -> None:
    (definition,) = load_definitions(block("yaml"), source="docs")
    assert definition.dispatch.http is not None
    assert definition.dispatch.http.secret == "renewals"  # noqa: S105 - its name


def test_every_setting_is_documented() -> None:
    inherited = HttpSettings.__base__
    assert inherited is not None
    fields = set(HttpSettings.model_fields) - set(getattr(inherited, "model_fields"))  # noqa: B009
    assert fields == {name.lower() for name in re.findall(r"DUELEDGER_(HTTP_[A-Z_]+)", DOCUMENT)}
