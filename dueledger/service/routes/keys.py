"""Routes of API keys: an administrator gives rights for the tenants of the own key alone."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from dueledger.api_keys import (
    BURST_MAX,
    PREFIX,
    RATE_MAX,
    end_key,
    make_key,
    read_rate,
    rotate_key,
)
from dueledger.audited_changes import revocation_detail, successor_detail
from dueledger.ledger.errors import NotPermitted, Problem
from dueledger.ledger.store.api_keys import NewApiKey, Scope, list_keys
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.idempotency import AnswerOnce
from dueledger.service.pages import CurrentPage, Page
from dueledger.service.routes.fields import Instant, Name, Number, Text, Whole
from dueledger.service.scoped_routes import ScopedRoutes

admin = ScopedRoutes(Scope.ADMIN, "keys")

OVERLAP_HOURS_MAX = 24 * 90
TENANTS_MAX = 1_000

PrefixPath = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="as lists show it")]


class KeyDocument(BaseModel):
    """A key without its secret. Without `tenants` it is for all."""

    prefix: str
    name: str
    scopes: list[Scope]
    tenants: list[str] | None
    is_valid: bool
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    rate_per_second: Annotated[float | None, Field(description="null: as the settings say")]
    rate_burst: int | None


class KeyPage(Page[KeyDocument]):
    """A page of keys."""


class KeyRequest(RequestBody):
    """A key to make. Keys of one name are one actor, with the same tenants."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "billing", "scopes": ["emit", "read"], "tenants": ["acme"]}]
        },
    )

    name: Name
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))]
    tenants: Annotated[
        list[Name] | None,
        Field(min_length=1, max_length=TENANTS_MAX, description="null: all, also later ones"),
    ]
    expires_at: Instant | None = None
    rate_per_second: Annotated[
        Number | None,
        Field(gt=0, le=RATE_MAX, description="requests in each process; null: as its settings say"),
    ] = None
    rate_burst: Annotated[
        Whole | None, Field(ge=1, le=BURST_MAX, description="null: those of 5 seconds")
    ] = None


class SuccessorRequest(RequestBody):
    """How long the old key is valid beside the new one, and when the new one expires."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap_hours": 1}]})

    overlap_hours: Annotated[Number, Field(ge=0, le=OVERLAP_HOURS_MAX)] = 24.0
    expires_at: Instant | None = None


class NewKeyDocument(BaseModel):
    """A key that was made. `key` is shown once and kept nowhere: in a repetition it is null."""

    key: str | None
    prefix: str


class RevokedKey(BaseModel):
    """A key that ended."""

    prefix: str


@admin.add("GET", "/v1/keys", "listKeys", KeyPage)
async def list_all(
    call: CurrentCall, page: CurrentPage, name: Annotated[str | None, Text] = None
) -> Response:
    """List keys without their secrets, the newest first."""
    [after_no] = page.after(int)
    rows = await list_keys(
        call.connection,
        None if name is None else f"{PREFIX}{name}",
        page.rows_max,
        tenants=call.tenants,
        after_no=after_no,
    )
    shown = [{**row, "name": row["name"].removeprefix(PREFIX)} for row in rows]
    return page.answer_rows(KeyDocument, shown, "key_no")


@admin.add("POST", "/v1/keys", "createKey", NewKeyDocument, status=201, takes_idempotency_key=True)
async def create(call: CurrentCall, asked: KeyRequest) -> Response:
    """Make a key. If its answer is lost, revoke it: no repetition shows its secret."""
    others = [
        Problem(f"/tenants/{place}", "", "the key is not for this tenant")
        for place, tenant in enumerate(asked.tenants or ())
        if not call.may_reach(tenant)
    ]
    if asked.tenants is None and call.tenants is not None:
        others = [Problem("/tenants", "", "the key is not for all tenants")]
    if others:
        raise NotPermitted("The key gives rights for its own tenants alone.", problems=others)
    made = await make_key(
        call.connection,
        asked.name,
        scopes=asked.scopes,
        tenants=asked.tenants,
        expires_at=asked.expires_at,
        actor_no=call.caller.actor_no,
        rate=read_rate(asked.rate_per_second, asked.rate_burst),
        maker_tenants=call.tenants,
    )
    target = f"keys/{made.prefix}"
    call.note_change(target=target, tenants=asked.tenants, name=asked.name, scopes=asked.scopes)
    return _answer(made)


@admin.add(
    "POST",
    "/v1/keys/{prefix}/rotate",
    "rotateKey",
    NewKeyDocument,
    status=201,
    takes_idempotency_key=True,
)
async def rotate(call: CurrentCall, prefix: PrefixPath, asked: SuccessorRequest) -> Response:
    """Make a key with the rights of another one, which expires soon."""
    made, rights = await rotate_key(
        call.connection,
        prefix,
        overlap=timedelta(hours=asked.overlap_hours),
        expires_at=asked.expires_at,
        actor_no=call.caller.actor_no,
        tenants=call.tenants,
    )
    call.note_change(tenants=rights.tenants, **successor_detail(made.prefix, rights))
    return _answer(made)


@admin.add("POST", "/v1/keys/{prefix}/revoke", "revokeKey", RevokedKey)
async def revoke(call: CurrentCall, prefix: PrefixPath) -> Response:
    """Revoke a key at once."""
    revoked = await end_key(
        call.connection, prefix, actor_no=call.caller.actor_no, tenants=call.tenants
    )
    call.note_change(tenants=revoked.tenants, **revocation_detail(revoked))
    return answer({"prefix": prefix})


def _answer(made: NewApiKey) -> Response:
    shown = answer({"key": made.text, "prefix": made.prefix}, 201, {"Cache-Control": "no-store"})
    return AnswerOnce(shown, answer({"key": None, "prefix": made.prefix}))
